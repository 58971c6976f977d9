// The facts of the pictures that only files of one's own have.

/** @typedef {NonNullable<ReturnType<FilesPlayer["view"]>>} FilesView */

/** @param {FilesView} view @returns {HeadlineFacts & { picture: string }} */
function filesHeadline({ series, checkpoint }) {
  const { steps, n } = series;
  const past = steps.slice(0, checkpoint.step);
  return {
    picture: "headline",
    step: checkpoint.step,
    full: 4 * n,
    nbytes: checkpoint.nbytes,
    kinds: [],
    so_far: { full: 4 * n * (past.length + 1), nbytes: past.reduce((sum, { nbytes }) => sum + nbytes, 4 * n), newest: series.length },
    status: { files: [checkpoint.step - 1, checkpoint.step].map((i) => shortName(series.states[i].name)) },
    crash: null,
    reads: null,
    rest: restOf(checkpoint),
    own: null,
    tried: null,
  };
}

/** The name of a file without its ending. @param {string} name */
const shortName = (name) => name.replace(/\.safetensors$/, "");

/** What a step leaves: shares of its change, and of all that was trained. @param {Step} step */
const restOf = ({ changed, left, trained }) => ({ distance: Math.sqrt(left / (changed || 1)), behind: Math.sqrt(left / (trained || 1)) });

/** @param {FilesView} view @returns {RestFacts & { picture: string, kind: string }} */
function restFacts({ series, checkpoint }) {
  const rests = series.steps.map(restOf);
  return { picture: "curves", kind: "rest", step: checkpoint.step, name: shortName(series.states[checkpoint.step].name), rests: rests.map(({ distance, behind }, i) => [i + 1, distance, behind]), last: series.length };
}

/** @param {FilesView} view @returns {WeightFacts & { picture: string, kind: string }} */
function filesWeight(view) {
  const { series, followed: at } = view;
  const values = series.valuesAt(at);
  const { name, shape, begin } = /** @type {Tensor} */ (series.tensors.findLast((tensor) => tensor.begin <= at));
  const place = shape.reduceRight((/** @type {{ left: number, at: number[] }} */ so, size) => ({ left: Math.floor(so.left / size), at: [so.left % size, ...so.at] }), { left: at - begin, at: [] });
  return {
    ...stepOfWeight(view),
    last: series.length,
    where: `${name} (${place.at.join(", ")})`,
    trained: values.map(([u], i) => [i, plotted(u, 9)]),
    restored: values.map(([, track], i) => [i, plotted(track, 9)]),
  };
}

/** Which tensors take the bytes. @param {FilesView} view @returns {TensorsFacts & { picture: string }} */
function tensorsFacts({ series, checkpoint: { quantized, encoded, delta, live, after } }) {
  const { tensors, n } = series;
  const elements = elementsOfStream(n, n - quantized.counts[0]);
  const bits = encoded.table && bitsOfParts(quantized, encoded.table, encoded.table.classes > 1 ? elements : UNIT, tensors.map((tensor) => tensor.begin + tensor.n));
  const all = tensors.map((tensor, i) => {
    let [moved, changed, left] = [0, 0, 0];
    for (let j = tensor.begin; j < tensor.begin + tensor.n; j++) {
      if (quantized.codes[j] !== 0) moved += 1;
      changed += delta[j] * delta[j];
      left += (live[j] - after[j]) ** 2;
    }
    return { name: tensor.name, n: tensor.n, moved, nbytes: bits && bits[i] / 8, distance: Math.sqrt(left / (changed || 1)) };
  });
  all.sort((one, other) => (other.nbytes ?? other.moved) - (one.nbytes ?? one.moved) || other.n - one.n);
  return { picture: "tensors", tensors: all.slice(0, MOST_TENSORS), more: Math.max(all.length - MOST_TENSORS, 0) };
}
