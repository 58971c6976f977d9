// Which tensors of a model take the bytes of a checkpoint.

/**
 * A tensor. moved: values that move. nbytes: of their code words; null where values share bits. distance:
 * the share of its change that is left out.
 * @typedef {{ name: string, n: number, moved: number, nbytes: number | null, distance: number }} TensorFacts
 */

/**
 * @typedef {object} TensorsFacts
 * @property {TensorFacts[]} tensors those that take most first
 * @property {number} more tensors that are not listed
 * @property {number} whole bytes of all code words, or values that move
 */

SAYS.tensors = (/** @type {TensorsFacts} */ { tensors, more, whole }) => {
  const [first] = tensors;
  const cost = (/** @type {TensorFacts} */ { nbytes, moved, n }) => (nbytes === null ? percentText(moved / n) : nbytesText(nbytes));
  const what = first.nbytes === null ? "of the values that move" : "of the code words";
  const rest = more ? ` Not listed: ${pluralText(more, "smaller tensor")}.` : "";
  return {
    title: "Tensors",
    number: 3,
    about: first.nbytes === null ? "how many of their values move" : "bytes of their code words",
    text: whole ? `${first.name} has ${percentText((first.nbytes ?? first.moved) / whole)} ${what}. Press a tensor to see it in picture 1.${rest}` : "No value moves: no tensor takes bytes.",
    rows: tensors.map((tensor) => ({ ...tensor, size: tensor.nbytes ?? tensor.moved, text: cost(tensor), title: `${groupedNumber(tensor.n)} values, ${percentText(tensor.moved / tensor.n)} move; ${percentText(tensor.distance)} of its change is left out` })),
  };
};
