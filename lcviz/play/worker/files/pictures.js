// The facts of the pictures that only files of one's own have.

/** @typedef {NonNullable<ReturnType<FilesPlayer["view"]>>} FilesView */

/** @param {Series} series @param {number} step from 1 on @returns {HeadlineFacts & { picture: string }} */
function filesHeadline({ steps, n, length, states }, step) {
  const past = steps.slice(0, step);
  const { nbytes } = steps[step - 1];
  return {
    picture: "headline",
    step,
    full: 4 * n,
    nbytes,
    kinds: [],
    so_far: { full: 4 * n * (step + 1), nbytes: past.reduce((sum, one) => sum + one.nbytes, 4 * n), newest: length },
    status: { files: [step - 1, step].map((i) => shortName(states[i].name)) },
    crash: null,
    reads: null,
    rest: restOf(steps[step - 1]),
    own: null,
    tried: null,
  };
}

/** The name of a file without its ending. @param {string} name */
const shortName = (name) => name.replace(/\.safetensors$/, "");

/** What a step leaves: shares of its change, and of all that was trained. @param {Step} step */
const restOf = ({ changed, left, trained }) => ({ distance: Math.sqrt(left / (changed || 1)), behind: Math.sqrt(left / (trained || 1)) });

/** @param {Series} series @param {number} step from 1 on @returns {RestFacts & { picture: string, kind: string }} */
function restFacts({ steps, states }, step) {
  const rests = steps.map(restOf).map(({ distance, behind }) => /** @type {[number, number]} */ ([distance, behind]));
  return { picture: "curves", kind: "rest", step, name: shortName(states[step].name), rests };
}

/** @param {FilesView} view @returns {WeightFacts & { picture: string, kind: string }} */
function filesWeight(view) {
  const { series, followed: at } = view;
  const values = series.valuesAt(at);
  const { name, shape, begin } = /** @type {Tensor} */ (series.tensors.findLast((tensor) => tensor.begin <= at));
  const place = shape.reduceRight((/** @type {{ left: number, at: number[] }} */ so, size) => ({ left: Math.floor(so.left / size), at: [so.left % size, ...so.at] }), { left: at - begin, at: [] });
  return {
    ...stepOfWeight(view),
    step: view.checkpoint.step + 1,
    unit: "file",
    first: 1,
    last: series.length + 1,
    where: `${name} (${place.at.join(", ")})`,
    trained: values.map(([u], i) => [i + 1, plotted(u, 9)]),
    restored: values.map(([, track], i) => [i + 1, plotted(track, 9)]),
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
  const whole = all.reduce((sum, { nbytes, moved }) => sum + (nbytes ?? moved), 0);
  return { picture: "tensors", tensors: all.slice(0, MOST_TENSORS), more: Math.max(all.length - MOST_TENSORS, 0), whole };
}
