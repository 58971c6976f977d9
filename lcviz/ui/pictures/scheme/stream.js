// How many bytes the codes of a checkpoint take, as codec.scheme.stream and codec.scheme.prefix write them.

const UNIT = 65536; // elements
const MOST_UNITS = 32; // of a stream
const SYMBOLS_A_STREAM = 8192; // at least
const LEAST_STREAMS = 8; // if there are enough units
const FEW = 2 ** 17; // values in equal steps, up to which run-length coding may take a context code instead

/** @typedef {"huffman" | "runlength" | "context"} Coder */

/**
 * How the codes of an alphabet are written.
 * @typedef {object} Stage
 * @property {Coder} coder
 * @property {Matrix[]} matrices rows and columns of its tensors
 * @property {CodeTable | null} last the table of an earlier checkpoint
 */

/**
 * Codes without loss.
 * @typedef {object} EncodedCodes
 * @property {CodeTable | null} table null if all elements have the same code, or have a context code
 * @property {boolean} reused whether the table is the last one, and takes no bytes
 * @property {boolean} shared whether they have a context code: then no value has a word of its own
 * @property {number} bits of all code words, or of the context code
 * @property {number} coded bytes of code words, table and levels
 * @property {number} nbytes of all these in a record, with the sizes of the streams
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
 * A message: what the codes of a change are written with.
 * @typedef {object} Message
 * @property {number} elements of each stream but the last
 * @property {Choice | null} choice null where there are no code words
 * @property {Uint8Array[] | null} direct the streams of a context code, if it is shorter
 * @property {number} most an upper bound of `nbytes` in EncodedCodes
 * @property {Uint32Array[] | null} [byStream] tokens of each stream, if they were counted
 */

/**
 * Choose how a change is written.
 * @param {Quantized} quantized
 * @param {Stage} stage
 * @returns {Message}
 */
function messageOf(quantized, { coder, matrices, last }) {
  const { codes, counts, levels, uniform } = quantized;
  const k = counts.length;
  const own = 4 * (uniform ? Math.min(k - 1, 1) : levels.length - 1); // equal steps store the size of one
  const countsRuns = coder !== "huffman";
  const elements = countsRuns ? elementsOfStream(codes.length, codes.length - counts[0]) : UNIT;
  if (k === 1 || (k === 2 && counts[0] === 0)) return { elements, choice: null, direct: null, most: own };
  const byStream = countsRuns ? countTokens(codes, elements, Math.min(k - 1, MOST_SYMBOLS + 1)) : null;
  const streams = Math.ceil(codes.length / elements);
  const choice = chooseTable({ codes: counts, tokens: byStream && summed(byStream), uniform }, last, streams);
  const most = 4 * (Math.ceil(choice.bits / 32) + 2 * streams - 1) + (choice.reused ? 0 : choice.table.nbytes);
  const isDirect = coder === "context" || (coder === "runlength" && uniform && codes.length <= FEW);
  const contexts = isDirect ? contextStreams(quantized, matrices) : null;
  const nbytes = contexts && contextNbytes(contexts);
  if (nbytes !== null && nbytes < most) return { elements, choice: null, direct: contexts, most: own + nbytes };
  return { elements, choice, direct: null, most: own + most, byStream };
}

/** @param {Uint32Array[]} arrays of one length */
function summed(arrays) {
  const sums = new Uint32Array(arrays[0].length);
  for (const counts of arrays) for (let i = 0; i < sums.length; i++) sums[i] += counts[i];
  return sums;
}

/**
 * Encode the codes of a change.
 * @param {Quantized} quantized
 * @param {Stage} stage
 * @returns {EncodedCodes}
 */
function encodeCodes(quantized, stage) {
  const { elements, choice, direct, most, byStream } = messageOf(quantized, stage);
  const levels = 4 * (quantized.uniform ? Math.min(quantized.counts.length - 1, 1) : quantized.levels.length - 1);
  if (!choice) {
    const bits = 8 * (direct ?? []).reduce((sum, { length }) => sum + length, 0);
    return { table: null, reused: false, shared: direct !== null, bits, coded: bits / 8 + levels, nbytes: most };
  }
  const { table, reused, bits } = choice;
  const streams = byStream && table.classes > 1 ? bitsOfStreams(byStream, table, quantized.counts.length - 1) : bitsOfParts(quantized, table, elements, streamEnds(quantized.codes.length, elements));
  const rest = (reused ? 0 : table.nbytes) + levels;
  const words = streams.reduce((sum, own) => sum + 4 * Math.ceil(own / 32), 0);
  return { table, reused, shared: false, bits, coded: Math.ceil(bits / 8) + rest, nbytes: words + 4 * streams.length + rest };
}

/** Where each stream of n elements ends. @param {number} n @param {number} elements of each stream but the last */
const streamEnds = (n, elements) => Array.from({ length: Math.ceil(n / elements) }, (_, i) => Math.min((i + 1) * elements, n));

/**
 * Bits of each token: of its word, or the escape, and of what follows it.
 * @param {CodeTable} table of runs
 * @param {number} n the number of symbols
 */
function bitsOfTokens(table, n) {
  const escaped = table.lengths[0] + CLASS_BITS + symbolBits(n);
  return Uint8Array.from({ length: n * CLASSES_OF_RUNS }, (_, i) => (lengthOfToken(table, Math.floor(i / CLASSES_OF_RUNS), i % CLASSES_OF_RUNS) || escaped) + extraBits(i % CLASSES_OF_RUNS));
}

/** Bits of tokens. @param {Uint32Array} counts how often each occurs @param {Uint8Array | Int16Array} bitsOf each */
function bitsOfCounts(counts, bitsOf) {
  let bits = 0;
  for (let i = 0; i < counts.length; i++) if (counts[i]) bits += counts[i] * bitsOf[i];
  return bits;
}

/** @param {Uint32Array[]} byStream tokens @param {CodeTable} table of runs @param {number} n the number of symbols */
function bitsOfStreams(byStream, table, n) {
  const bitsOf = bitsOfTokens(table, n);
  return byStream.map((counts) => bitsOfCounts(counts, bitsOf));
}

/**
 * Bits of each part of a message.
 * @param {Quantized} quantized
 * @param {CodeTable} table
 * @param {number} elements of each stream but the last
 * @param {number[]} ends of the parts; the last is that of the message
 */
function bitsOfParts({ codes, counts }, table, elements, ends) {
  const runs = table.classes > 1;
  const bitsOf = runs ? bitsOfTokens(table, counts.length - 1) : table.lengths;
  let [begin, next, stream] = [0, 0, elements];
  return ends.map((end) => {
    let bits = 0;
    for (let i = begin; i < end; i++) {
      if (i === stream) {
        next = stream;
        stream += elements;
      }
      const code = codes[i];
      if (!runs) {
        bits += bitsOf[code];
      } else if (code !== 0) {
        bits += bitsOf[(code - 1) * CLASSES_OF_RUNS + classNumber(i - next)];
        next = i + 1;
      }
    }
    begin = end;
    return bits;
  });
}
