// Beyond the paper: equal steps with a dead zone, as codec.scheme.uniform.

const OFFSET = 0.375; // a change of (1 - OFFSET) steps or more moves a value
const MOST_STEPS = 255; // from zero to the furthest level; finer steps are not tried
const SEARCH = 12; // times that the interval of the step size is halved

/**
 * Quantize a change in steps of one size. Codes 1, 2, 3, 4 ... stand for 1, -1, 2, -2 ... steps.
 * @param {Float32Array} delta finite values
 * @param {number} size a float32, so large that MOST_STEPS of it reach the largest change
 * @returns {Quantized}
 */
function quantizeInSteps(delta, size) {
  const [codes, counts] = [new Uint16Array(delta.length), new Uint32Array(2 * MOST_STEPS + 3)];
  const perStep = 1 / size;
  for (let i = 0; i < delta.length; i++) {
    const steps = Math.floor(Math.abs(delta[i]) * perStep + OFFSET);
    codes[i] = steps === 0 ? 0 : delta[i] > 0 ? 2 * steps - 1 : 2 * steps;
    counts[codes[i]] += 1;
  }
  const k = counts.findLastIndex((count, code) => count > 0 || code === 0) + 1;
  return { codes, levels: stepLevels(size, k), counts: [...counts.subarray(0, k)], buckets: [], size };
}

/** The level of each code. @param {number} size of a step @param {number} k how many codes */
const stepLevels = (size, k) => Float32Array.from({ length: k }, (_, code) => stepsOfCode(code) * size);

/** How many steps a code stands for, with their sign. @param {number} code */
const stepsOfCode = (code) => (code % 2 === 1 ? (code + 1) / 2 : -code / 2 || 0);

/**
 * Quantize a change in the smallest equal steps whose bytes fit.
 * @param {Float32Array} delta finite values
 * @param {number} nbytes that code words, table and step size may take
 * @param {Coder} coder
 * @param {CodeTable | null} last the table of an earlier checkpoint
 * @returns {Quantized}
 */
function fitSteps(delta, nbytes, coder, last) {
  const largest = delta.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  const none = { codes: new Uint16Array(delta.length), levels: new Float32Array(1), counts: [delta.length], buckets: [], size: 0 };
  if (largest === 0) return none;
  // An interval of log2(size): at its upper end every value becomes 0.
  let [low, high] = [Math.log2(largest / (MOST_STEPS + 0.5)), Math.log2(largest / (1 - OFFSET)) + 0.01];
  /** @type {Quantized} */
  let best = none;
  for (let i = 0; i < SEARCH; i++) {
    const middle = (low + high) / 2;
    const quantized = quantizeInSteps(delta, Math.fround(2 ** middle));
    if (nbytesWith(quantized, coder, last) <= nbytes) [best, high] = [quantized, middle];
    else low = middle;
  }
  return best.counts.length > 1 ? best : none;
}

/**
 * The smallest budget that is sure to hold a change, as codec.scheme.budget advises it.
 * @param {Float32Array} delta with a change
 * @param {number} headerNbytes
 * @param {Coder} coder
 * @param {CodeTable | null} last
 */
function advisedBudget(delta, headerNbytes, coder, last) {
  const largest = delta.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  const coarsest = quantizeInSteps(delta, Math.fround((0.999 * largest) / (1 - OFFSET)));
  const share = (1.25 * (headerNbytes + nbytesWith(coarsest, coder, last))) / (4 * delta.length); // other steps may need more
  const digits = 2 - Math.ceil(Math.log10(share));
  return Math.ceil(share * 10 ** digits) / 10 ** digits;
}
