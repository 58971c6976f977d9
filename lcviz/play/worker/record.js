// One checkpoint taken apart, as lcviz.lab.anatomy: what the pictures of a step show.

/**
 * All buckets of a change, with what removing each would cost.
 * @typedef {object} Dissected
 * @property {Quantized} all every value's bucket, promoted or not
 * @property {number} nKept buckets, or equal steps, that the record keeps
 * @property {Float64Array} energy of each bucket the sum of squares
 * @property {Float64Array} residual of each bucket the sum of squared distances to its level
 */

/** @param {{ delta: Float32Array, quantized: Quantized, codes?: Uint8Array }} checkpoint codes: memory for those of all buckets @returns {Dissected} */
function dissect({ delta, quantized, codes }) {
  const all = quantize(delta, Infinity, codes);
  const [energy, residual] = [new Float64Array(all.buckets.length), new Float64Array(all.buckets.length)];
  sumOfParts(delta.length, (from, to) => energyOfPart(delta, all, energy, residual, from, to));
  return { all, nKept: quantized.levels.length - 1, energy, residual };
}

/** @param {Float32Array} delta @param {Quantized} all @param {Float64Array} energy @param {Float64Array} residual @param {number} from @param {number} to */
function energyOfPart(delta, { codes, levels }, energy, residual, from, to) {
  for (let i = from; i < to; i++) {
    const [code, change] = [codes[i], delta[i]];
    if (code === 0) continue;
    const rest = change - levels[code];
    energy[code - 1] += change * change;
    residual[code - 1] += rest * rest;
  }
  return 0;
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
 * @property {string} word its bits, the first one first; where values share bits, how many it has of them
 * @property {string} rest extra bits of a run; after an escape also its class and its symbol
 * @property {number} run zeros before the value
 * @property {number} at index of the value
 * @property {number} code of the value; 0 only where every value has a word of its own
 * @property {number} zero which of its zeros was asked for; 0 for the value
 */

/**
 * The first code words of a checkpoint; none if no bits are needed. Where values share the bits, the
 * first changes with their shares.
 * @param {Coded} coded
 * @param {number} most
 * @returns {CodeWord[]}
 */
function codeWordsOf(coded, most) {
  if (coded.encoded.shared) return sharesOf(coded, most);
  const { codes } = coded.quantized;
  const words = [];
  for (let at = 0; at < codes.length && words.length < most; at++) {
    const word = wordAt(coded, at);
    if (!word) break;
    words.push(word);
    at = word.at;
  }
  return words;
}

/** What has been coded, and how. @typedef {{ quantized: Quantized, encoded: EncodedCodes, matrices: Matrix[] }} Coded */

/**
 * The code word that a value is in; null if it is in none.
 * @param {Coded} coded
 * @param {number} value its index
 * @returns {CodeWord | null}
 */
function wordAt({ quantized: { codes, counts }, encoded: { table } }, value) {
  if (table === null) return null;
  const words = codeWords(table.lengths);
  const text = (/** @type {number} */ bits, /** @type {number} */ n) => Array.from({ length: n }, (_, i) => (bits >> i) & 1).join("");
  if (table.classes === 1) return { word: text(words[codes[value]], table.lengths[codes[value]]), rest: "", run: 0, at: value, code: codes[value], zero: 0 };
  const elements = elementsOfStream(codes.length, codes.length - counts[0]);
  const begin = value - (value % elements);
  const end = Math.min(begin + elements, codes.length);
  let [at, next] = [value, value];
  while (at < end && codes[at] === 0) at += 1;
  while (next > begin && codes[next - 1] === 0) next -= 1;
  if (at === end) return null;
  const [c, extra] = classOf(at - next);
  const symbol = codes[at] - 1;
  const length = lengthOfToken(table, symbol, c);
  const token = length > 0 ? 1 + symbol * table.classes + c : 0;
  const escape = length > 0 ? "" : text(c, CLASS_BITS) + text(symbol, symbolBits(counts.length - 1));
  return { word: text(words[token], table.lengths[token]), rest: escape + text(at - next, extra), run: at - next, at, code: codes[at], zero: at === value ? 0 : value - next + 1 };
}

/** The first changes of a context code, with the bits of each and of the zeros before it. @param {Coded} coded @param {number} most @returns {CodeWord[]} */
function sharesOf({ quantized, matrices }, most) {
  const [own] = matricesOfStreams(matrices);
  const codes = quantized.codes.subarray(0, own.reduce((sum, [rows, columns]) => sum + rows * columns, 0));
  const costs = new Float64Array(codes.length);
  contextStream(codes, own, quantized.codes.length > MOST_SINGLE, /** @type {ContextSymbols} */ (contextSymbols(quantized)), costs);
  const words = [];
  for (let at = 0, next = 0, bits = 0; at < codes.length && words.length < most; at++) {
    bits += costs[at];
    if (codes[at] === 0) continue;
    words.push({ word: bits.toFixed(1), rest: "", run: at - next, at, code: codes[at], zero: 0 });
    [next, bits] = [at + 1, 0];
  }
  return words;
}

/** Shannon's bound for codes of single values, in bytes. @param {number[]} counts */
function entropyNbytes(counts) {
  const n = counts.reduce((sum, count) => sum + count, 0);
  return counts.reduce((bits, count) => bits - (count ? count * Math.log2(count / n) : 0), 0) / 8;
}

/** Bits of each value without a code: the number of its slot, or 0. @param {number} nKept */
const plainBits = (nKept) => 32 - Math.clz32(nKept);
