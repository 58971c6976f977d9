// Which code table is cheapest, and whether the last one is used again, as codec.scheme.tables.

/**
 * A canonical prefix code.
 * @typedef {object} CodeTable
 * @property {Uint8Array} lengths of the words: of codes, or of the escape and the tokens
 * @property {number} classes 1 for the paper's code of single values, else the classes of runs that
 * have words
 * @property {number} nbytes on disk
 */

/**
 * How often each code occurs, and each symbol after a run of each class; null if runs are not coded.
 * @typedef {object} Counts
 * @property {number[]} codes
 * @property {Uint32Array | null} tokens
 * @property {boolean} uniform whether only the first symbols, the most frequent ones, may have words
 */

/**
 * The table of a message. bits: of the message without the table. reused: whether it is the last one.
 * @typedef {{ table: CodeTable, bits: number, reused: boolean }} Choice
 */

/** @param {Uint8Array} lengths @param {number} classes @returns {CodeTable} */
const tableOf = (lengths, classes) => ({ lengths, classes, nbytes: tableNbytes(lengths) });

/**
 * Bits of a message with this table; null if the table cannot write it.
 * @param {CodeTable} table
 * @param {Counts} counts
 * @returns {number | null}
 */
function costOf(table, { codes, tokens }) {
  const { lengths, classes } = table;
  if (classes === 1) {
    if (codes.length !== lengths.length || codes.some((count, code) => count > 0 && lengths[code] === 0)) return null;
    return codes.reduce((bits, count, code) => bits + count * lengths[code], 0);
  }
  if (tokens === null) return null;
  const escaped = lengths[0] + CLASS_BITS + symbolBits(codes.length - 1);
  return tokens.reduce((bits, count, i) => {
    const c = i % CLASSES_OF_RUNS;
    return bits + count * ((lengthOfToken(table, Math.floor(i / CLASSES_OF_RUNS), c) || escaped) + extraBits(c));
  }, 0);
}

/**
 * Bits of a token's word; 0 if it has none, and is escaped.
 * @param {CodeTable} table
 * @param {number} symbol counted from 0
 * @param {number} c the class of the run
 */
const lengthOfToken = (table, symbol, c) =>
  c < table.classes ? (table.lengths[1 + symbol * table.classes + c] ?? 0) : 0;

/**
 * The cheapest table, its own bytes included: a new one or the last one.
 * @param {Counts} counts
 * @param {CodeTable | null} last
 * @param {number} streams each may end with up to 31 unused bits
 * @returns {Choice}
 */
function chooseTable(counts, last, streams) {
  const { table, bits } = newTable(counts, streams);
  const reusedBits = last && costOf(last, counts);
  const isReused = last && reusedBits !== null && reusedBits <= bits + 8 * table.nbytes;
  return isReused ? { table: last, bits: reusedBits, reused: true } : { table, bits, reused: false };
}

/** The cheapest new table. @param {Counts} counts @param {number} streams */
function newTable(counts, streams) {
  const runs = counts.tokens && tableOfTokens(counts, counts.tokens);
  if (runs && counts.codes.length > MOST_TOKENS) return { table: runs, bits: bitsWith(runs, counts) };
  // A code needs two words: where all values move by one step, 0 gets the other one.
  const isOne = counts.codes.filter(Boolean).length < 2;
  const plain = tableOf(codeLengths(isOne ? [1, ...counts.codes.slice(1)] : counts.codes), 1);
  const plainBits = bitsWith(plain, counts);
  if (!runs) return { table: plain, bits: plainBits };
  const bits = bitsWith(runs, counts);
  const most = 32 * (Math.ceil(bits / 32) + streams - 1) + 8 * runs.nbytes;
  const isShorter = most < 32 * Math.ceil(plainBits / 32) + 8 * plain.nbytes;
  return isShorter ? { table: runs, bits } : { table: plain, bits: plainBits };
}

/** Bits of a message with a table that was made for it. @param {CodeTable} table @param {Counts} counts */
const bitsWith = (table, counts) => /** @type {number} */ (costOf(table, counts));

/** @param {Counts} counts @param {Uint32Array} tokens */
function tableOfTokens({ codes, uniform }, tokens) {
  const rows = tokens.length / CLASSES_OF_RUNS;
  const largest = tokens.reduce((most, count, i) => (count > 0 ? Math.max(most, i % CLASSES_OF_RUNS) : most), 0);
  // At least 2: a table of 1 class is a plain one.
  let [classes, symbols] = [Math.max(largest + 1, 2), Math.min(rows, MOST_SYMBOLS)];
  if (!uniform) {
    classes = Math.min(classes, CLASSES_OF_RUNS, Math.floor((MOST_TOKENS - 1) / symbols));
  } else if (classes * symbols > MOST_TOKENS - 1) {
    classes = bestClasses(tokens, classes, symbolBits(codes.length - 1));
    symbols = Math.min(symbols, Math.floor((MOST_TOKENS - 1) / classes));
  }
  const counts = new Uint32Array(1 + symbols * classes);
  tokens.forEach((count, i) => {
    const [symbol, c] = [Math.floor(i / CLASSES_OF_RUNS), i % CLASSES_OF_RUNS];
    counts[c < classes && symbol < symbols ? 1 + symbol * classes + c : 0] += count;
  });
  if (!counts.subarray(1).some((count) => count > 0)) counts[1] = 1; // a code needs two words
  counts[0] = Math.max(counts[0], 1); // the escape always has a word
  return tableOf(codeLengths(counts), classes);
}

/**
 * The number of classes for the fewest bits, by Shannon's bound: the more classes have words, the fewer
 * symbols can have them.
 * @param {Uint32Array} tokens
 * @param {number} most
 * @param {number} symbolBits
 */
function bestClasses(tokens, most, symbolBits) {
  const total = tokens.reduce((sum, count) => sum + count, 0);
  let [best, fewest] = [most, Infinity];
  for (const classes of [...[2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, CLASSES_OF_RUNS].filter((n) => n < most), most]) {
    const end = CLASSES_OF_RUNS * Math.floor((MOST_TOKENS - 1) / classes);
    const counts = tokens.filter((count, i) => count > 0 && i < end && i % CLASSES_OF_RUNS < classes);
    const escaped = Math.max(counts.reduce((left, count) => left - count, total), 1);
    const bits = sumInPairs(Array.from([...counts, escaped], (count) => count * binaryLogarithm(Math.max(total / count, 1)))) + escaped * (CLASS_BITS + symbolBits);
    if (bits < fewest) [best, fewest] = [classes, bits];
  }
  return best;
}
