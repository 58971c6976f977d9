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
 * A map as base64 of two pixels a byte, 4 bits each in two's complement, the low half first. Every value
 * that is not 0 is visible.
 * @param {Float32Array} values of the weights
 * @param {number} largest the magnitude of the strongest level; 0 for that of the values
 */
function packedMap(values, largest = 0) {
  const bytes = new Uint8Array(Math.ceil(MAP.length / 2));
  if (!largest) for (let i = 0; i < N_WEIGHTS; i++) largest = Math.max(largest, Math.abs(values[i]));
  const scale = MAP_LEVELS / (largest || 1);
  for (let i = 0; i < MAP.length; i++) {
    let level = GAP_LEVEL;
    if (MAP[i] >= 0) {
      const value = values[MAP[i]] * scale;
      level = value > 0 ? Math.min(Math.ceil(value), MAP_LEVELS) : Math.max(Math.floor(value), -MAP_LEVELS);
    }
    bytes[i >> 1] |= (level & 15) << (4 * (i % 2));
  }
  return base64(bytes);
}

/** @param {View} view @returns {WeightsFacts & { picture: string }} */
function weightsFacts({ checkpoint, dissected, setting, followed, playing }) {
  const { before, after, live } = checkpoint;
  const [moved, left] = [new Float32Array(N_WEIGHTS), new Float32Array(N_WEIGHTS)];
  let [written, missing] = [0, 0];
  for (let i = 0; i < N_WEIGHTS; i++) {
    moved[i] = Math.sign(after[i] - before[i]);
    left[i] = live[i] - after[i];
    written += Number(moved[i] !== 0);
    missing += Number(left[i] !== 0);
  }
  return {
    picture: "weights",
    step: checkpoint.step,
    tensor: TENSOR,
    size: `${CLASSES} × ${SIDE} × ${SIDE}`,
    tensors: [TENSOR],
    shape: MAP_SHAPE,
    maps: { written: packedMap(moved, 1), restored: packedMap(after), missing: packedMap(left) },
    n: N_WEIGHTS,
    written,
    missing,
    followed: pixelOf(followed),
    values: playing ? null : pixelValues(checkpoint, dissected),
    carries: setting.carries,
  };
}

/** What each pixel says of its weight. @param {Checkpoint} checkpoint @param {Dissected} dissected */
function pixelValues({ before, live, quantized }, { all, nKept }) {
  const { uniform } = quantized;
  const [u, track, codes] = [new Float32Array(MAP.length), new Float32Array(MAP.length), new Uint16Array(MAP.length)];
  MAP.forEach((weight, i) => {
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
function weightFacts({ chain, checkpoint, setting, followed: i, dissected }) {
  const saved = chain.checkpoints;
  const { step, before, after, live, delta, quantized } = checkpoint;
  /** @type {[number, number | null][]} */
  const restored = saved.map((one) => /** @type {[number, number | null]} */ ([one.step - INTERVAL, plotted(one.before[i], 9)])).filter(([at]) => at !== step);
  restored.push([step, plotted(after[i], 9)]);
  restored.sort(([a], [b]) => a - b);
  const bucket = dissected.all.buckets[dissected.all.codes[i] - 1];
  return {
    picture: "curves",
    kind: "weight",
    step,
    last: LAST,
    where: i < N_WEIGHTS ? `${TENSOR} (${Math.floor(i / PIXELS)}, ${i % PIXELS})` : `linear.bias (${i - N_WEIGHTS})`,
    trained: saved.map((one) => [one.step, plotted(one.live[i], 9)]),
    restored,
    exact: false,
    u: live[i],
    track: before[i],
    delta: delta[i],
    coded: quantized.levels[quantized.codes[i]],
    bucket: bucket ? [bucket.exponent, bucket.sign] : null,
    code: codeOf({ ...checkpoint, matrices: MATRICES }, i),
    carries: setting.carries,
  };
}

/** The weight to follow first: the smallest kept change. It has waited in earlier steps. @param {Checkpoint} checkpoint */
function firstWeight({ delta, quantized }) {
  let best = 0;
  for (let i = 1; i < N_WEIGHTS; i++) {
    const [isCoded, isBestCoded] = [quantized.codes[i] > 0, quantized.codes[best] > 0];
    const isBetter = isCoded ? Math.abs(delta[i]) < Math.abs(delta[best]) : Math.abs(delta[i]) > Math.abs(delta[best]);
    if (isCoded !== isBestCoded ? isCoded : isBetter) best = i;
  }
  return best;
}

/** The weight with the largest change among some values, weights before biases; null if there is none. @param {Float32Array} delta @param {(at: number) => boolean} isOne */
function largestAmong(delta, isOne) {
  /** @type {number | null} */
  let best = null;
  for (let i = 0; i < N; i++) {
    if (!isOne(i)) continue;
    if (best === null || (i < N_WEIGHTS && Math.abs(delta[i]) > Math.abs(delta[best]))) best = i;
  }
  return best;
}
