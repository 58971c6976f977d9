// Beyond the paper: one code word for a run of zeros and the code that ends it, as codec.scheme.runlength.

const CLASSES_OF_RUNS = 84;
const CLASS_BITS = 7; // of the class after an escape
const MOST_TOKENS = 4096;
const MOST_SYMBOLS = (MOST_TOKENS - 2) >> 1; // that can have words, after runs of two classes

/**
 * How often each symbol follows a run of each class, in each stream.
 * @param {Quantized["codes"]} codes
 * @param {number} elements of each stream but the last
 * @param {number} rows of the symbols; the last one also counts all symbols beyond
 * @returns {Uint32Array[]} rows of CLASSES_OF_RUNS
 */
function countTokens(codes, elements, rows) {
  return Array.from({ length: Math.ceil(codes.length / elements) }, (_, stream) => {
    const counts = new Uint32Array(rows * CLASSES_OF_RUNS);
    const begin = stream * elements;
    const end = Math.min(begin + elements, codes.length);
    for (let i = begin, next = begin; i < end; i++) {
      if (codes[i] === 0) continue;
      counts[(Math.min(codes[i], rows) - 1) * CLASSES_OF_RUNS + classNumber(i - next)] += 1;
      next = i + 1;
    }
    return counts;
  });
}

/** The class of a run. @param {number} run */
function classNumber(run) {
  if (run < 16) return run;
  const power = 31 - Math.clz32(run);
  return 4 * power + ((run >>> (power - 2)) & 3);
}

/** The class of a run, and how many extra bits tell it from others of its class. @param {number} run */
function classOf(run) {
  const c = classNumber(run);
  return [c, extraBits(c)];
}

/** The extra bits of a class. @param {number} c */
const extraBits = (c) => (c < 16 ? 0 : (c >> 2) - 2);

/** Bits of symbol - 1 after an escape. @param {number} n the number of symbols */
const symbolBits = (n) => 32 - Math.clz32(n - 1);
