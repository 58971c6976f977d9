// The facts of the weights as ten images, one a class; and of one weight over the steps.

const ACROSS = 5; // images in a row
const MAP_LEVELS = 7; // of a map, on each side of 0
const GAP_LEVEL = -8; // between two images
const TENSOR = "linear.weight";

/** Rows and columns of the map: images with a gap between them. @type {[number, number]} */
const MAP_SHAPE = [(CLASSES / ACROSS) * (SIDE + 1) - 1, ACROSS * (SIDE + 1) - 1];
/** Which weight each pixel of the map shows, -1 in a gap. */
const MAP = Int32Array.from({ length: MAP_SHAPE[0] * MAP_SHAPE[1] }, (_, i) => {
  const [row, column] = [Math.floor(i / MAP_SHAPE[1]), i % MAP_SHAPE[1]];
  const [y, x] = [row % (SIDE + 1), column % (SIDE + 1)];
  if (y === SIDE || x === SIDE) return -1;
  return (Math.floor(row / (SIDE + 1)) * ACROSS + Math.floor(column / (SIDE + 1))) * PIXELS + y * SIDE + x;
});

/** Row and column of a weight in the map; null for a bias. @param {number} weight @returns {[number, number] | null} */
function pixelOf(weight) {
  if (weight >= N_WEIGHTS) return null;
  const [image, at] = [Math.floor(weight / PIXELS), weight % PIXELS];
  const [top, left] = [Math.floor(image / ACROSS), image % ACROSS].map((place) => place * (SIDE + 1));
  return [top + Math.floor(at / SIDE), left + (at % SIDE)];
}

/** The weight at a pixel; null in a gap. @param {number} row @param {number} column */
function weightAt(row, column) {
  const weight = MAP[row * MAP_SHAPE[1] + column];
  return weight === undefined || weight < 0 ? null : weight;
}

/**
 * A tensor as a picture.
 * @typedef {object} Place
 * @property {string} tensor its name
 * @property {string} size its shape in words
 * @property {string[]} tensors names of those that can be drawn
 * @property {[number, number]} shape rows and columns of the picture
 * @property {Int32Array} map which weight each pixel shows, -1 in a gap
 * @property {number} begin the first weight of the tensor
 * @property {number} n weights of the tensor
 */

/** @type {Place} */
const DIGITS_PLACE = { tensor: TENSOR, size: `${CLASSES} × ${SIDE} × ${SIDE}`, tensors: [TENSOR], shape: MAP_SHAPE, map: MAP, begin: 0, n: N_WEIGHTS };

/**
 * A map as base64 of two pixels a byte, 4 bits each in two's complement, the low half first. Every value
 * that is not 0 is visible.
 * @param {Int32Array} map
 * @param {(weight: number) => number} valueOf
 * @param {number} largest the magnitude of the strongest level; 0 for that of the values
 */
function packedMap(map, valueOf, largest = 0) {
  const bytes = new Uint8Array(Math.ceil(map.length / 2));
  const values = Float32Array.from(map, (weight) => (weight < 0 ? 0 : valueOf(weight)));
  const most = largest || values.reduce((furthest, value) => Math.max(furthest, Math.abs(value)), 0);
  const scale = MAP_LEVELS / (most || 1);
  for (let i = 0; i < map.length; i++) {
    const value = values[i] * scale;
    const level = map[i] < 0 ? GAP_LEVEL : value > 0 ? Math.min(Math.ceil(value), MAP_LEVELS) : Math.max(Math.floor(value), -MAP_LEVELS);
    bytes[i >> 1] |= (level & 15) << (4 * (i % 2));
  }
  return base64(bytes);
}

/** @typedef {{ delta: Float32Array, quantized: Quantized, before: Float32Array, after: Float32Array, live: Float32Array }} Moved */

/** @param {Shown & { checkpoint: Moved & { step: number } }} shown @param {Place} place @returns {WeightsFacts & { picture: string }} */
function weightsFacts({ checkpoint, dissected, setting, followed, playing, pixelOf: place }, { tensor, size, tensors, shape, map, begin, n }) {
  const { before, after, live, step } = checkpoint;
  let [written, missing] = [0, 0];
  for (let i = begin; i < begin + n; i++) {
    if (after[i] !== before[i]) written += 1;
    if (live[i] !== after[i]) missing += 1;
  }
  return {
    picture: "weights",
    step,
    tensor,
    size,
    tensors,
    shape,
    maps: {
      written: packedMap(map, (i) => Math.sign(after[i] - before[i]), 1),
      restored: packedMap(map, (i) => after[i]),
      missing: packedMap(map, (i) => Math.fround(live[i] - after[i])),
    },
    n,
    written,
    missing,
    followed: place(followed),
    values: playing ? null : pixelValues(checkpoint, dissected, map),
    carries: setting.carries,
    ...(n > map.length ? { each: n / map.length } : {}),
  };
}

/** What each pixel says of its weight. @param {Moved} checkpoint @param {Dissected} dissected @param {Int32Array} map */
function pixelValues({ before, live, quantized }, { all, nKept }, map) {
  const { uniform } = quantized;
  const [u, track, codes] = [new Float32Array(map.length), new Float32Array(map.length), new Uint16Array(map.length)];
  map.forEach((weight, i) => {
    if (weight < 0) return;
    [u[i], track[i]] = [live[weight], before[weight]];
    // In equal steps each level is a bucket; those of the changes that became 0 follow.
    const level = quantized.codes[weight];
    codes[i] = uniform ? level || (all.codes[weight] ? nKept + all.codes[weight] : 0) : all.codes[weight];
  });
  const exponents = all.buckets.map(({ exponent, sign, middle }, i) => [exponent, sign, uniform || i >= nKept ? 0 : middle]);
  const steps = Array.from(quantized.levels.subarray(1), (level) => [Math.floor(Math.log2(Math.abs(level))), level < 0 ? 1 : 0, level]);
  return { u: base64(u), track: base64(track), codes: base64(codes), buckets: uniform ? [...steps, ...exponents] : exponents, uniform };
}

/** One weight over the steps: u is trained, ũ follows in steps. @param {View} view @returns {WeightFacts & { picture: string, kind: string }} */
function weightFacts(view) {
  const { chain, checkpoint, followed: i } = view;
  const saved = chain.checkpoints;
  /** @type {[number, number | null][]} */
  const restored = saved.map((one) => /** @type {[number, number | null]} */ ([one.step - INTERVAL, plotted(one.before[i], 9)])).filter(([at]) => at !== checkpoint.step);
  restored.push([checkpoint.step, plotted(checkpoint.after[i], 9)]);
  restored.sort(([a], [b]) => a - b);
  const where = i < N_WEIGHTS ? `${TENSOR} (${Math.floor(i / PIXELS)}, ${i % PIXELS})` : `linear.bias (${i - N_WEIGHTS})`;
  return { ...stepOfWeight(view), last: LAST, where, trained: saved.map((one) => [one.step, plotted(one.live[i], 9)]), restored };
}

/** What a step does to the followed weight. @param {Shown & { checkpoint: Moved & { step: number } }} shown */
function stepOfWeight({ checkpoint, dissected, setting, followed: i, matrices }) {
  const { step, before, live, delta, quantized } = checkpoint;
  const bucket = dissected.all.buckets[dissected.all.codes[i] - 1];
  return {
    picture: "curves",
    kind: "weight",
    step,
    exact: false,
    u: live[i],
    track: before[i],
    delta: delta[i],
    coded: quantized.levels[quantized.codes[i]],
    bucket: bucket ? /** @type {[number, number]} */ ([bucket.exponent, bucket.sign]) : null,
    code: codeOf({ ...checkpoint, matrices }, i),
    carries: setting.carries,
  };
}

/** The weight to follow first: the smallest kept change. It has waited in earlier steps. @param {Moved} checkpoint @param {number} begin among these weights @param {number} end */
function firstWeight({ delta, quantized }, begin, end) {
  let best = begin;
  for (let i = begin + 1; i < end; i++) {
    const [isCoded, isBestCoded] = [quantized.codes[i] > 0, quantized.codes[best] > 0];
    const isBetter = isCoded ? Math.abs(delta[i]) < Math.abs(delta[best]) : Math.abs(delta[i]) > Math.abs(delta[best]);
    if (isCoded !== isBestCoded ? isCoded : isBetter) best = i;
  }
  return best;
}

/** The weight with the largest change among some values, those that can be seen before others; null if there is none. @param {Float32Array} delta @param {(at: number) => boolean} isOne @param {(at: number) => boolean} isSeen */
function largestAmong(delta, isOne, isSeen) {
  /** @type {number | null} */
  let best = null;
  for (let i = 0; i < delta.length; i++) {
    if (!isOne(i)) continue;
    if (best === null || (isSeen(i) && Math.abs(delta[i]) > Math.abs(delta[best]))) best = i;
  }
  return best;
}
