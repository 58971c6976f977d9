// Stages one and two: exponent buckets (E) and priority promotion (P), as codec.scheme.quantize.

const BINS = 512; // sign (1 bit) and exponent field (8 bits) of a float32
const BIAS = 127;
const MAGNITUDE = 0x7fffffff;
const NON_FINITE_BIN = 255; // of infinity and NaN

/**
 * One exponent bucket: all changes with the same exponent and sign.
 * @typedef {object} ExponentBucket
 * @property {number} bin sign << 8 | exponent field
 * @property {number} exponent e of 2^e; -127 for subnormals
 * @property {number} sign 0 for positive, 1 for negative
 * @property {number} min smallest change in it
 * @property {number} max largest change in it
 * @property {number} count how many changes it has
 * @property {number} middle what stands for all of them: (min + max) / 2
 */

/**
 * A change in codes.
 * @typedef {object} Quantized
 * @property {Uint8Array | Uint16Array} codes of each value, an index into levels; of 16 bits where 8 are too few
 * @property {Float32Array} levels the first one is 0; buckets have theirs by falling magnitude
 * @property {number[]} counts how many values have each code
 * @property {ExponentBucket[]} buckets all, by falling magnitude; the first ones are promoted. None
 * for equal steps
 * @property {number} size of a step; 0 for buckets, and where nothing changes
 * @property {boolean} uniform whether the levels are equal steps
 */

/** The bits of float32 values: the same memory, read as integers. @param {Float32Array} values */
const bitsOfValues = (values) => new Uint32Array(values.buffer, values.byteOffset, values.length);

const PART = 2 ** 14; // values

/**
 * Do something with many values part by part, and add what it gives. A function that is called often is
 * compiled well; one with a single long loop is not.
 * @param {number} n values
 * @param {(from: number, to: number) => number} act
 */
function sumOfParts(n, act) {
  let sum = 0;
  for (let from = 0; from < n; from += PART) sum += act(from, Math.min(from + PART, n));
  return sum;
}

/**
 * The buckets of a change, by falling magnitude. A value of 0 is in none.
 * @param {Float32Array} delta finite values
 * @returns {ExponentBucket[]}
 */
function bucketsOf(delta) {
  const [count, low, high] = [0, MAGNITUDE, 0].map((first) => new Uint32Array(BINS).fill(first));
  sumOfParts(delta.length, (from, to) => binPart(bitsOfValues(delta), count, low, high, from, to));
  if (count[NON_FINITE_BIN] || count[NON_FINITE_BIN | 256]) throw new RangeError("NaN and infinity have no bucket");
  // The magnitudes are bits of float32 values.
  const [lows, highs] = [new Float32Array(low.buffer), new Float32Array(high.buffer)];
  /** @type {ExponentBucket[]} */
  const buckets = [];
  for (let bin = 0; bin < BINS; bin++) {
    if (count[bin] === 0) continue;
    const sign = bin >> 8;
    const [min, max] = sign ? [-highs[bin], -lows[bin]] : [lows[bin], highs[bin]];
    const middle = Math.fround((min + max) / 2);
    buckets.push({ bin, exponent: (bin & 255) - BIAS, sign, min, max, count: count[bin], middle });
  }
  const sum = (/** @type {ExponentBucket} */ bucket) => Math.abs(bucket.min + bucket.max);
  return buckets.sort((a, b) => b.exponent - a.exponent || sum(b) - sum(a) || a.sign - b.sign);
}

/** @param {Uint32Array} words @param {Uint32Array} count @param {Uint32Array} low @param {Uint32Array} high @param {number} from @param {number} to */
function binPart(words, count, low, high, from, to) {
  for (let i = from; i < to; i++) {
    const word = words[i];
    const magnitude = word & MAGNITUDE;
    if (magnitude === 0) continue;
    const bin = word >>> 23;
    count[bin] += 1;
    if (magnitude < low[bin]) low[bin] = magnitude;
    if (magnitude > high[bin]) high[bin] = magnitude;
  }
  return 0;
}

/** How many buckets x bits promote at most; null promotes all. @param {number | null} x */
const promotedBy = (x) => (x === null ? Infinity : 2 ** x - 1);

/**
 * Quantize a change in exponent buckets.
 * @param {Float32Array} delta finite values
 * @param {number} most buckets that are kept
 * @param {Quantized["codes"]} [memory] for the codes
 * @returns {Quantized}
 */
function quantize(delta, most, memory = new Uint8Array(delta.length)) {
  const buckets = bucketsOf(delta);
  const promoted = buckets.slice(0, most);
  const codes = roomFor(promoted.length + 1, memory);
  const codeOfBin = new Uint16Array(BINS);
  promoted.forEach((bucket, i) => (codeOfBin[bucket.bin] = i + 1));
  sumOfParts(delta.length, (from, to) => codesOfPart(bitsOfValues(delta), codeOfBin, codes, from, to));
  const counts = promoted.map((bucket) => bucket.count);
  return {
    codes,
    levels: Float32Array.from([0, ...promoted.map((bucket) => bucket.middle)]),
    counts: [counts.reduce((sum, count) => sum - count, delta.length), ...counts],
    buckets,
    size: 0,
    uniform: false,
  };
}

/** Memory for the codes of so many levels. @param {number} levels @param {Quantized["codes"]} memory taken if it is large enough */
const roomFor = (levels, memory) => (levels <= 256 || memory instanceof Uint16Array ? memory : new Uint16Array(memory.length));

/** @param {Uint32Array} words @param {Uint16Array} codeOfBin @param {Quantized["codes"]} codes @param {number} from @param {number} to */
function codesOfPart(words, codeOfBin, codes, from, to) {
  // 0 shares a bin with subnormals: all bits of its code are masked.
  for (let i = from; i < to; i++) codes[i] = codeOfBin[words[i] >>> 23] & (-(words[i] & MAGNITUDE) >> 31);
  return 0;
}
