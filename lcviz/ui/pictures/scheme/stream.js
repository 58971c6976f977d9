// How many bits the codes of a checkpoint take, as codec.scheme.prefix writes them.

const UNIT = 65536; // elements
const MOST_UNITS = 32; // of a stream
const SYMBOLS_A_STREAM = 8192; // at least
const LEAST_STREAMS = 8; // if there are enough units

/** @typedef {"huffman" | "runlength"} Coder */

/**
 * Codes without loss.
 * @typedef {object} EncodedCodes
 * @property {CodeTable | null} table null if all elements have the same code
 * @property {boolean} reused whether the table is the last one, and takes no bytes
 * @property {number} bits of all streams
 */

/**
 * The elements of a stream that codes runs: enough streams, of enough symbols each.
 * @param {number} n elements
 * @param {number} symbols elements whose code is not 0
 */
function elementsOfStream(n, symbols) {
  let units = 1;
  const isTooShort = () => units * UNIT * symbols < SYMBOLS_A_STREAM * n && n > (LEAST_STREAMS - 1) * 2 * units * UNIT;
  while (2 * units <= MOST_UNITS && isTooShort()) units *= 2;
  return units * UNIT;
}

/**
 * A message: the codes of a change, and what its table is chosen by.
 * @typedef {object} Message
 * @property {number} elements of each stream but the last
 * @property {Tokens | null} tokens null if runs are not coded
 * @property {Choice} choice
 */

/**
 * Choose the table of a change.
 * @param {Quantized} quantized
 * @param {Coder} coder
 * @param {CodeTable | null} last the table of an earlier checkpoint
 * @returns {Message | null} null if all elements have the same code: then no bits are needed
 */
function messageOf({ codes, counts }, coder, last) {
  const k = counts.length;
  if (k === 1 || (k === 2 && counts[0] === 0)) return null;
  const elements = coder === "runlength" ? elementsOfStream(codes.length, codes.length - counts[0]) : UNIT;
  const tokens = coder === "runlength" ? tokensOf(codes, elements) : null;
  const all = { codes: counts, tokens: tokens && countTokens(tokens, k - 1) };
  return { elements, tokens, choice: chooseTable(all, last, Math.ceil(codes.length / elements)) };
}

/**
 * Encode the codes of a change.
 * @param {Quantized} quantized
 * @param {Coder} coder
 * @param {CodeTable | null} last the table of an earlier checkpoint
 * @returns {EncodedCodes}
 */
function encodeCodes(quantized, coder, last) {
  return messageOf(quantized, coder, last)?.choice ?? { table: null, reused: false, bits: 0 };
}

/**
 * Bytes of a change: of its code words, its table if that is new, and its levels.
 * @param {Quantized} quantized
 * @param {CodeTable | null} table
 * @param {boolean} reused whether the table is the last one
 * @param {number} bits of the code words
 */
function nbytesOf({ levels, size }, table, reused, bits) {
  const nLevels = size > 0 ? 1 : levels.length - 1; // equal steps store the size of one
  return Math.ceil(bits / 8) + (table && !reused ? table.nbytes : 0) + 4 * nLevels;
}

/**
 * Bytes of a change with a coder.
 * @param {Quantized} quantized
 * @param {Coder} coder
 * @param {CodeTable | null} last the table of an earlier checkpoint
 */
function nbytesWith(quantized, coder, last) {
  const { table, reused, bits } = encodeCodes(quantized, coder, last);
  return nbytesOf(quantized, table, reused, bits);
}
