// Stage three: a canonical Huffman code (H), as codec.scheme.huffman.

const LONGEST_WORD = 15; // bits
const FIRST_LENGTH = 8; // the first length of a table is stored as a difference from this one

/**
 * Optimal lengths of code words of at most 15 bits, by package-merge (Larmore and Hirschberg, 1990).
 * Of equal counts the larger index gets the longer word. A length of 0 means no word.
 * @param {ArrayLike<number>} counts
 * @returns {Uint8Array} a length for each count
 */
function codeLengths(counts) {
  const lengths = new Uint8Array(counts.length);
  const symbols = Array.from(lengths.keys()).filter((symbol) => counts[symbol] > 0);
  const n = symbols.length;
  if (n < 2) return lengths;
  symbols.sort((a, b) => counts[a] - counts[b] || b - a); // the rarest first
  /** @type {boolean[][]} whether each item of a level is a leaf, by rising weight */
  const leaves = [];
  /** @type {number[]} */
  let packages = [];
  for (let level = 0; level < LONGEST_WORD; level++) {
    const [weights, isLeaf] = [/** @type {number[]} */ ([]), /** @type {boolean[]} */ ([])];
    for (let leaf = 0, pack = 0; leaf + pack < n + packages.length; ) {
      const takesLeaf = pack === packages.length || (leaf < n && counts[symbols[leaf]] <= packages[pack]);
      isLeaf.push(takesLeaf);
      weights.push(takesLeaf ? counts[symbols[leaf++]] : packages[pack++]);
    }
    leaves.push(isLeaf);
    packages = Array.from({ length: weights.length >> 1 }, (_, i) => weights[2 * i] + weights[2 * i + 1]);
  }
  // Of the last level the cheapest 2n - 2 items are taken. A leaf is one bit of its word; a package
  // stands for two items of the level before.
  for (let level = LONGEST_WORD - 1, wanted = 2 * n - 2; level >= 0; level--) {
    const taken = leaves[level].slice(0, wanted).filter(Boolean).length;
    for (let i = 0; i < taken; i++) lengths[symbols[i]] += 1;
    wanted = 2 * (wanted - taken);
  }
  return lengths;
}

/**
 * The canonical code words, as numbers whose lowest bit is written first. Words of one length are
 * consecutive in the order of symbols; shorter words come first (RFC 1951, 3.2.2).
 * @param {Uint8Array} lengths
 * @returns {Uint16Array}
 */
function codeWords(lengths) {
  const words = new Uint16Array(lengths.length);
  let word = 0;
  for (let length = 1; length <= LONGEST_WORD; length++, word <<= 1) {
    lengths.forEach((itsLength, symbol) => {
      if (itsLength !== length) return;
      for (let bit = 0; bit < length; bit++) words[symbol] |= ((word >> bit) & 1) << (length - 1 - bit);
      word += 1;
    });
  }
  return words;
}

/** Bytes of a table on disk: of its lengths, as FORMAT.md describes them under Tables. @param {Uint8Array} lengths */
function tableNbytes(lengths) {
  let [last, zeros, bits] = [FIRST_LENGTH, 0, 0];
  for (const length of lengths) {
    if (length === 0) {
      zeros += 1; // zeros at the end are not stored
      continue;
    }
    // A run of zeros: 3 bits, then its length in Elias's gamma code. A step of 0, 1 or 2: 1, 3 or 5 bits.
    if (zeros) bits += 3 + 2 * (31 - Math.clz32(zeros)) + 1;
    const step = Math.abs(length - last);
    bits += step <= 2 ? 1 + 2 * step : 8;
    [last, zeros] = [length, 0];
  }
  return Math.ceil(bits / 8);
}

/**
 * The binary logarithm by atanh's series, the same bits as the codec's: the last ones can decide a tie between two codes.
 * @param {number} v from 1 on, below 2^32
 */
function binaryLogarithm(v) {
  let exponent = 32 - Math.clz32(v);
  if (v / 2 ** exponent < Math.SQRT1_2) exponent -= 1;
  const fraction = v / 2 ** exponent;
  const ratio = (fraction - 1) / (fraction + 1);
  let sum = 0;
  for (let k = 21; k > 0; k -= 2) sum = sum * ratio * ratio + 1 / k;
  return exponent + (2 / Math.LN2) * ratio * sum;
}

/** The sum of numbers, in the order in which numpy adds them: the same bits. @param {number[]} values @returns {number} */
function sumInPairs(values) {
  const n = values.length;
  if (n > 128) {
    const half = (n >> 4) << 3;
    return sumInPairs(values.slice(0, half)) + sumInPairs(values.slice(half));
  }
  const end = n - (n % 8);
  const lanes = new Float64Array(8);
  for (let i = 0; i < end; i++) lanes[i % 8] += values[i];
  const [a, b, c, d, e, f, g, h] = lanes;
  return values.slice(end).reduce((sum, value) => sum + value, a + b + (c + d) + (e + f + (g + h)));
}
