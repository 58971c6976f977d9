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
 */

SAYS.tensors = (/** @type {TensorsFacts} */ { tensors, more }) => {
  const [first] = tensors;
  const cost = (/** @type {TensorFacts} */ { nbytes, moved, n }) => (nbytes === null ? percentText(moved / n) : nbytesText(nbytes));
  const all = tensors.reduce((sum, { nbytes, moved }) => sum + (nbytes ?? moved), 0);
  const share = all ? percentText((first.nbytes ?? first.moved) / all) : "";
  const what = first.nbytes === null ? "of the values that move" : "of the bytes";
  return {
    title: "Tensors",
    number: 3,
    about: first.nbytes === null ? "how many of their values move" : "bytes of their code words",
    text: tensors.length > 1 && all ? `${first.name} has ${share} ${what}. Press a tensor to see it in picture 1.${more ? ` ${pluralText(more, "more tensor")} take less.` : ""}` : "There is one tensor.",
    rows: tensors.map((tensor) => ({ ...tensor, size: tensor.nbytes ?? tensor.moved, text: cost(tensor), title: `${groupedNumber(tensor.n)} values, ${percentText(tensor.moved / tensor.n)} move; ${percentText(tensor.distance)} of its change is left out` })),
  };
};
