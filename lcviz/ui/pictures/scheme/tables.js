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
  const plain = tableOf(codeLengths(counts.codes), 1);
  const plainBits = /** @type {number} */ (costOf(plain, counts));
  if (counts.tokens === null) return { table: plain, bits: plainBits };
  const runs = tableOfTokens(counts.tokens, counts.codes.length - 1);
  const bits = /** @type {number} */ (costOf(runs, counts));
  const most = 32 * (Math.ceil(bits / 32) + streams - 1) + 8 * runs.nbytes;
  const isShorter = most < 32 * Math.ceil(plainBits / 32) + 8 * plain.nbytes;
  return isShorter ? { table: runs, bits } : { table: plain, bits: plainBits };
}

/** @param {Uint32Array} tokens @param {number} n the number of symbols */
function tableOfTokens(tokens, n) {
  const largest = tokens.reduce((most, count, i) => (count > 0 ? Math.max(most, i % CLASSES_OF_RUNS) : most), 0);
  // At least 2: a table of 1 class is a plain one.
  const classes = Math.min(Math.max(largest + 1, 2), CLASSES_OF_RUNS, Math.floor((MOST_TOKENS - 1) / n));
  const counts = new Uint32Array(1 + n * classes);
  tokens.forEach((count, i) => {
    const c = i % CLASSES_OF_RUNS;
    counts[c < classes ? 1 + Math.floor(i / CLASSES_OF_RUNS) * classes + c : 0] += count;
  });
  if (!counts.subarray(1).some((count) => count > 0)) counts[1] = 1; // a code needs two words
  counts[0] = Math.max(counts[0], 1); // the escape always has a word
  return tableOf(codeLengths(counts), classes);
}
