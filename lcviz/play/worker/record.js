// One checkpoint taken apart, as lcviz.lab.anatomy: what the pictures of a step show.

/**
 * All buckets of a change, with what removing each would cost.
 * @typedef {object} Dissected
 * @property {Quantized} all every value's bucket, promoted or not
 * @property {number} nKept buckets that the record keeps
 * @property {Float64Array} energy of each bucket the sum of squares
 * @property {Float64Array} residual of each bucket the sum of squared distances to its level
 */

/** @param {Checkpoint} checkpoint @returns {Dissected} */
function dissect({ delta, quantized }) {
  const all = quantize(delta, Infinity);
  const [energy, residual] = [new Float64Array(all.buckets.length), new Float64Array(all.buckets.length)];
  for (let i = 0; i < delta.length; i++) {
    const code = all.codes[i];
    if (code === 0) continue;
    energy[code - 1] += delta[i] ** 2;
    residual[code - 1] += (delta[i] - all.levels[code]) ** 2;
  }
  return { all, nKept: quantized.levels.length - 1, energy, residual };
}

/**
 * The error ||delta - rebuilt|| / ||delta|| with all buckets, and without each of them in turn.
 * @param {Dissected} dissected
 */
function errorsWithout({ energy, residual }) {
  const sum = (/** @type {Float64Array} */ values) => values.reduce((total, value) => total + value, 0);
  const [whole, rounding] = [sum(energy), sum(residual)];
  const share = (/** @type {number} */ lost) => (whole ? Math.sqrt(Math.max(lost, 0) / whole) : 0);
  return { rounding: share(rounding), without: Array.from(energy, (own, i) => share(rounding + own - residual[i])) };
}

/**
 * The loss of the model rebuilt with all buckets, and without each of them in turn.
 * @param {Checkpoint} checkpoint
 * @param {Dissected} dissected
 * @param {Digits} heldOut
 */
function lossesWithout({ before }, { all }, heldOut) {
  /** @param {number} missing a code; 0 for none */
  const lossWithout = (missing) => {
    const rebuilt = before.slice();
    for (let i = 0; i < rebuilt.length; i++) {
      if (all.codes[i] > 0 && all.codes[i] !== missing) rebuilt[i] += all.levels[all.codes[i]];
    }
    return measure(rebuilt, heldOut, PROBE).loss;
  };
  return { loss: lossWithout(0), without: all.buckets.map((_, i) => lossWithout(i + 1)) };
}

/**
 * One code word and the bits that belong to it.
 * @typedef {object} CodeWord
 * @property {string} word its bits, the first one first
 * @property {string} rest extra bits of a run; after an escape also its class and its symbol
 * @property {number} run zeros before the value
 * @property {number} at index of the value
 * @property {number} code of the value; 0 only where every value has a word of its own
 */

/**
 * The code words of a checkpoint, in order; none if no bits are needed.
 * @param {Checkpoint} checkpoint
 * @returns {CodeWord[]}
 */
function codeWordsOf({ quantized, encoded }) {
  const { codes, counts } = quantized;
  const { table } = encoded;
  if (table === null) return [];
  const words = codeWords(table.lengths);
  const text = (/** @type {number} */ value, /** @type {number} */ n) => Array.from({ length: n }, (_, i) => (value >> i) & 1).join("");
  if (table.classes === 1) {
    return Array.from(codes, (code, at) => ({ word: text(words[code], table.lengths[code]), rest: "", run: 0, at, code }));
  }
  const { runs, symbols } = tokensOf(codes, elementsOfStream(codes.length, codes.length - counts[0]));
  let next = 0;
  return Array.from(runs, (run, i) => {
    const [c, extra] = classOf(run);
    const symbol = symbols[i] - 1;
    const length = lengthOfToken(table, symbol, c);
    const escape = length > 0 ? "" : text(c, CLASS_BITS) + text(symbol, symbolBits(counts.length - 1));
    const token = length > 0 ? 1 + symbol * table.classes + c : 0;
    const at = next + run;
    next = at + 1;
    return { word: text(words[token], table.lengths[token]), rest: escape + text(run, extra), run, at, code: symbols[i] };
  });
}

/**
 * The code word that a value is in, if any, and which of its zeros the value is; 0 if it is the value.
 * @param {CodeWord[]} words all of a checkpoint
 * @param {number} at index of the value
 */
function wordAt(words, at) {
  const word = words.find((one) => one.at >= at);
  return word && { ...word, zero: word.at === at ? 0 : at - (word.at - word.run) + 1 };
}

/** Shannon's bound for codes of single values, in bytes. @param {number[]} counts */
function entropyNbytes(counts) {
  const n = counts.reduce((sum, count) => sum + count, 0);
  return counts.reduce((bits, count) => bits - (count ? count * Math.log2(count / n) : 0), 0) / 8;
}

/** Bits of each value without a code: the number of its slot, or 0. @param {number} nKept */
const plainBits = (nKept) => 32 - Math.clz32(nKept);
