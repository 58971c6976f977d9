// The codes of a checkpoint as bits, as codec.scheme.prefix; and the track that they move.

const UNIT = 65536; // elements
const MOST_UNITS = 32; // of a stream
const SYMBOLS_A_STREAM = 8192; // at least
const LEAST_STREAMS = 8; // if there are enough units

/**
 * Codes without loss.
 * @typedef {object} EncodedCodes
 * @property {CodeTable | null} table null if every element has the last code
 * @property {boolean} reused whether the table is the last one, and takes no bytes
 * @property {Uint32Array} streams bits of each
 * @property {Uint32Array} words each stream begins a new one; the first bit is the lowest
 */

/**
 * The elements of a stream that codes runs: enough streams, of enough symbols each.
 * @param {number} n elements
 * @param {number} symbols elements whose code is not 0
 */
function elementsOfStream(n, symbols) {
  let units = 1;
  while (
    2 * units <= MOST_UNITS &&
    units * UNIT * symbols < SYMBOLS_A_STREAM * n &&
    n > (LEAST_STREAMS - 1) * 2 * units * UNIT
  ) {
    units *= 2;
  }
  return units * UNIT;
}

/**
 * Encode the codes of a change.
 * @param {Quantized} quantized
 * @param {"huffman" | "runlength"} coder
 * @param {CodeTable | null} last the table of an earlier checkpoint
 * @returns {EncodedCodes}
 */
function encodeCodes({ codes, counts }, coder, last) {
  const k = counts.length;
  if (k === 1 || (k === 2 && counts[0] === 0)) {
    return { table: null, reused: false, streams: new Uint32Array(), words: new Uint32Array() };
  }
  const elements = coder === "runlength" ? elementsOfStream(codes.length, codes.length - counts[0]) : UNIT;
  const tokens = coder === "runlength" ? tokensOf(codes, elements) : null;
  const all = { codes: counts, tokens: tokens && countTokens(tokens, k - 1) };
  const { table, reused } = chooseTable(all, last, Math.ceil(codes.length / elements));
  const writers = tokens && table.classes > 1 ? writeTokens(tokens, table, k - 1) : writeCodes(codes, table, elements);
  return {
    table,
    reused,
    streams: Uint32Array.from(writers, (writer) => writer.bits),
    words: Uint32Array.from(writers.flatMap((writer) => writer.words)),
  };
}

/**
 * @param {Uint16Array} codes
 * @param {CodeTable} table
 * @param {number} elements of each stream but the last
 */
function writeCodes(codes, table, elements) {
  const words = codeWords(table.lengths);
  const writers = [];
  for (let begin = 0; begin < codes.length; begin += elements) {
    const writer = new BitWriter();
    for (const code of codes.subarray(begin, begin + elements)) writer.write(words[code], table.lengths[code]);
    writers.push(writer);
  }
  return writers;
}

/**
 * @param {Tokens} tokens
 * @param {CodeTable} table
 * @param {number} n the number of symbols
 */
function writeTokens({ runs, symbols, ends }, table, n) {
  const words = codeWords(table.lengths);
  let i = 0;
  return ends.map((end) => {
    const writer = new BitWriter();
    for (; i < end; i++) {
      const [c, extra] = classOf(runs[i]);
      const length = lengthOfToken(table, symbols[i] - 1, c);
      if (length > 0) {
        writer.write(words[1 + (symbols[i] - 1) * table.classes + c], length);
      } else {
        writer.write(words[0], table.lengths[0]);
        writer.write(c, CLASS_BITS);
        writer.write(symbols[i] - 1, symbolBits(n));
      }
      writer.write(runs[i], extra); // its lowest bits
    }
    return writer;
  });
}

/** What a restart would load. Each checkpoint moves it towards the weights; it keeps what is missing. */
class Tracker {
  /**
   * @param {Float32Array} weights those of the first checkpoint, which is exact
   * @param {number | null} x bits of priority promotion, null for all buckets
   * @param {"huffman" | "runlength"} coder
   */
  constructor(weights, x, coder) {
    this.track = weights.slice();
    [this.x, this.coder] = [x, coder];
    /** @type {CodeTable | null} */
    this.table = null; // the last one that was written
  }

  /**
   * One checkpoint: the change since the track, in codes and bits. The track moves.
   * @param {Float32Array} weights
   */
  step(weights) {
    const delta = new Float32Array(weights.length);
    for (let i = 0; i < delta.length; i++) delta[i] = weights[i] - this.track[i];
    const quantized = quantize(delta, this.x);
    const encoded = encodeCodes(quantized, this.coder, this.table);
    if (encoded.table) this.table = encoded.table;
    const { codes, levels } = quantized;
    for (let i = 0; i < delta.length; i++) {
      if (codes[i] > 0) this.track[i] += levels[codes[i]]; // adding 0 would turn -0 into 0
    }
    return { quantized, encoded };
  }
}
