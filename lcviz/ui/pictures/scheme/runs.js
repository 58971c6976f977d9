// Beyond the paper: one code word for a run of zeros and the code that ends it, as codec.scheme.runlength.

const CLASSES_OF_RUNS = 84;
const MOST_CODES = 32768; // of an alphabet
const CLASS_BITS = 7; // of the class after an escape
const MOST_TOKENS = 4096;
const MOST_SYMBOLS = (MOST_TOKENS - 2) >> 1; // that can have words, after runs of two classes

let classNumbers = new Uint8Array(0); // of runs, by their length

/** The class of every run in a stream. @param {number} elements of the stream */
function classesOfRuns(elements) {
  if (classNumbers.length < elements) classNumbers = new Uint8Array(elements).map((_, run) => classNumber(run));
  return classNumbers;
}

/**
 * How often each symbol follows a run of each class, in each stream.
 * @param {Quantized["codes"]} codes
 * @param {number} elements of each stream but the last
 * @param {number} rows of the symbols; the last one also counts all symbols beyond
 * @returns {Uint32Array[]} rows of CLASSES_OF_RUNS
 */
function countTokens(codes, elements, rows) {
  const counts = Array.from({ length: Math.ceil(codes.length / elements) }, () => new Uint32Array((rows + 1) * CLASSES_OF_RUNS));
  const rowOf = new Uint32Array(MOST_CODES).map((_, code) => Math.min(code, rows) * CLASSES_OF_RUNS);
  const classOfRun = classesOfRuns(elements);
  let run = 0;
  sumOfParts(codes.length, (from, to) => {
    if (from % elements === 0) run = 0; // a stream has whole parts
    run = countPart(codes, counts[Math.floor(from / elements)], rowOf, classOfRun, run, from, to);
    return 0;
  });
  return counts.map((all) => all.subarray(CLASSES_OF_RUNS));
}

/**
 * Count the tokens of a part. A zero counts, too, in a row of its own: no branch depends on a code.
 * @param {Quantized["codes"]} codes
 * @param {Uint32Array} counts
 * @param {Uint32Array} rowOf where the counts of each code begin
 * @param {Uint8Array} classOfRun the class of each run
 * @param {number} run zeros before the part
 * @param {number} from
 * @param {number} to
 * @returns {number} zeros at its end
 */
function countPart(codes, counts, rowOf, classOfRun, run, from, to) {
  for (let i = from; i < to; i++) {
    const code = codes[i];
    counts[rowOf[code] + classOfRun[run]] += 1;
    run = (run + 1) & ~(-code >> 31);
  }
  return run;
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
