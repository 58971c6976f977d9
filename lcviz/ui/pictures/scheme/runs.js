// Beyond the paper: one code word for a run of zeros and the code that ends it, as codec.scheme.runlength.

const CLASSES_OF_RUNS = 84;
const CLASS_BITS = 7; // of the class after an escape
const MOST_TOKENS = 4096;

/**
 * Where the tokens of each stream are. A token is a run of zeros and the code that ends it; zeros
 * behind the last code of a stream belong to none.
 * @typedef {object} Tokens
 * @property {Uint32Array} runs
 * @property {Uint16Array} symbols
 * @property {number[]} ends of each stream
 */

/** The class of a run, and how many extra bits tell it from others of its class. @param {number} run */
function classOf(run) {
  if (run < 16) return [run, 0];
  const power = 31 - Math.clz32(run);
  return [4 * power + ((run >>> (power - 2)) & 3), power - 2];
}

/**
 * @param {Uint16Array} codes
 * @param {number} elements of each stream but the last
 * @returns {Tokens}
 */
function tokensOf(codes, elements) {
  const [runs, symbols, ends] = [new Uint32Array(codes.length), new Uint16Array(codes.length), /** @type {number[]} */ ([])];
  let n = 0;
  for (let begin = 0; begin < codes.length; begin += elements) {
    const end = Math.min(begin + elements, codes.length);
    for (let i = begin, next = begin; i < end; i++) {
      if (codes[i] === 0) continue;
      runs[n] = i - next;
      symbols[n] = codes[i];
      next = i + 1;
      n += 1;
    }
    ends.push(n);
  }
  return { runs: runs.subarray(0, n), symbols: symbols.subarray(0, n), ends };
}

/**
 * How often each symbol follows a run of each class.
 * @param {Tokens} tokens
 * @param {number} n the number of symbols
 * @returns {Uint32Array} n rows of CLASSES_OF_RUNS
 */
function countTokens(tokens, n) {
  const counts = new Uint32Array(n * CLASSES_OF_RUNS);
  tokens.symbols.forEach((symbol, i) => {
    counts[(symbol - 1) * CLASSES_OF_RUNS + classOf(tokens.runs[i])[0]] += 1;
  });
  return counts;
}

/** The extra bits of a class. @param {number} c */
const extraBits = (c) => (c < 16 ? 0 : (c >> 2) - 2);

/** Bits of symbol - 1 after an escape. @param {number} n the number of symbols */
const symbolBits = (n) => 32 - Math.clz32(n - 1);
