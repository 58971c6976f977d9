// How many bytes the change of an exact tensor's bits takes, as codec.scheme.residual.

const LEAST_NBYTES = 1024; // of an array: with fewer, tables cost about what they save
const SAMPLED = 2 ** 15; // elements that are sampled first
const STRETCH = 512; // neighbours among them
const WORTH = 0.97; // of an array's bytes: not tried if the sample predicts a larger residual
const FIELDS = 64; // exponents that are counted apart
const LITERAL = 32; // in a sample, larger symbols are counted by eights
const MOST_CONTEXTS = 3;
const CONTEXT_BITS = 600; // roughly what one more context costs
const CONTEXT_NBYTES = 6; // before its table
const COUNTED = 8; // units, at least, that are counted for the tables of a large array
const MOST = 8; // if less than one in so many elements stays, no runs are counted
const ONCE = 64; // an element of a sample counts as so many; a symbol without any counts as 1
/** Bits of the mantissa. @type {Record<string, number>} */
const MANTISSAS = { F32: 23, BF16: 7, F16: 10 };

/**
 * An array and the next one.
 * @typedef {object} Pair
 * @property {Uint16Array | Uint32Array} old
 * @property {Uint16Array | Uint32Array} next
 * @property {number} magnitude all bits of an element but its sign
 * @property {number} mantissa bits of a magnitude below its exponent
 * @property {number} half symbols that keep the sign; as many change it
 */

/**
 * Bytes of the residual that leads from one array to the next; null if none would be smaller than the array, if that is small, or if a sample promises no gain.
 * @param {Uint16Array | Uint32Array} old the bits of the values
 * @param {Uint16Array | Uint32Array} next
 * @param {string} dtype "F32", "BF16" or "F16"
 * @returns {number | null}
 */
function residualNbytes(old, next, dtype) {
  if (old.byteLength < LEAST_NBYTES) return null;
  const [n, bits] = [old.length, 8 * old.BYTES_PER_ELEMENT - 1];
  const pair = { old, next, magnitude: 2 ** bits - 1, mantissa: MANTISSAS[dtype], half: 8 * bits };
  const sample = sampledContexts(pair);
  if (!sample) return null;
  const { bounds, counts } = sample;
  const totals = counts.map((own) => own.reduce((sum, count) => sum + count));
  const total = totals.reduce((sum, own) => sum + own);
  const changed = counts.reduce((sum, own) => sum - own[0], total);
  const elements = elementsOfStream(n, Math.floor(Math.floor((changed * n) / total) / counts.length));
  const contextOf = Uint8Array.from({ length: 2 ** (bits - pair.mantissa) }, (_, exponent) => bounds.filter((bound) => bound <= exponent).length);
  const isMost = counts.every((own, c) => MOST * own[0] < totals[c]);
  const plans = isMost ? counts.map((own) => planOfMost(own, total < n, pair)) : plansOf(pair, contextOf, counts.length, elements);
  const words = plans.map(() => 0);
  const memory = tokensOf(plans.length, pair);
  const ends = streamEnds(n, elements);
  ends.forEach((end, i) => {
    const stream = countSteps(pair, contextOf, memory, i * elements, end);
    plans.forEach((plan, c) => {
      if (plan) words[c] += Math.ceil((plan.stays * stream.elements[c] + bitsOfCounts(stream.tokens[c], plan.more)) / 32);
    });
  });
  const codes = plans.map((plan, c) => (plan && words[c] ? plan.table.nbytes + 4 * (ends.length + words[c]) : 0));
  const nbytes = codes.reduce((sum, own) => sum + CONTEXT_NBYTES + own, 1 + 2 * bounds.length);
  return nbytes < old.byteLength ? nbytes : null;
}

/** The symbol of a step: which way the magnitude goes, how far, and whether the sign changes; 0 if nothing does. @param {number} before @param {number} after @param {number} magnitude @param {number} half */
function symbolOf(before, after, magnitude, half) {
  if (before === after) return 0;
  const change = (after & magnitude) - (before & magnitude);
  const flips = (before ^ after) & ~magnitude ? 1 : 0;
  return 1 + (change < 0 ? 1 : 0) + 2 * classNumber(Math.abs(change) - 1 + flips) + flips * half;
}

/** Extra bits of a symbol from 1 on. @param {number} symbol @param {number} half */
const extraOfSymbol = (symbol, half) => extraBits(((symbol - 1) % half) >> 1);

/** The exponent at which each context but the first begins, and what symbols a sample has in each; null if it promises no gain. @param {Pair} pair */
function sampledContexts({ old, next, magnitude, mantissa, half }) {
  const n = old.length;
  const [length, last] = n > SAMPLED ? [STRETCH, SAMPLED / STRETCH - 1] : [n, 0];
  const starts = [...Array.from({ length: last }, (_, i) => Math.floor(i * ((n - length) / last))), n - length];
  const places = starts.flatMap((start) => Array.from({ length }, (_, i) => start + i));
  const exponents = places.map((i) => (old[i] & magnitude) >>> mantissa);
  const highest = exponents.reduce((most, exponent) => (exponent < magnitude >>> mantissa ? Math.max(most, exponent) : most), 0); // of finite values
  const lowest = Math.max(highest - (FIELDS - 1), 0);
  const rows = Array.from({ length: FIELDS }, () => new Uint32Array(2 * half + 1));
  const coarse = rows.map((counts) => counts.slice());
  let bits = 0;
  places.forEach((i, at) => {
    const row = Math.min(Math.max(exponents[at] - lowest, 0), FIELDS - 1);
    const symbol = symbolOf(old[i], next[i], magnitude, half);
    rows[row][symbol] += 1;
    coarse[row][symbol > LITERAL ? symbol - ((symbol - LITERAL - 1) % 8) : symbol] += 1;
    const extra = symbol && extraOfSymbol(symbol, half);
    if (extra) bits += extra + 3; // up to 3 tell apart what was counted together
  });
  const groups = joinedRows(coarse, (CONTEXT_BITS * places.length) / n);
  bits += groups.reduce((sum, { counts }) => sum + entropyOf(counts), 0);
  if (bits > WORTH * 8 * old.BYTES_PER_ELEMENT * places.length) return null;
  const counts = groups.map(({ first }, c) => summed(rows.slice(first, groups[c + 1]?.first)));
  return { bounds: groups.slice(1).map(({ first }) => lowest + first), counts };
}

/** Add up neighbouring rows until few are left, and each saves a cost in bits. The cheapest two go first. @param {Uint32Array[]} rows @param {number} cost */
function joinedRows(rows, cost) {
  const groups = rows.map((counts, first) => ({ first, counts, bits: entropyOf(counts) })).filter(({ counts }) => counts.some(Boolean));
  const together = (/** @type {number} */ i) => summed([groups[i].counts, groups[i + 1].counts]);
  const added = (/** @type {number} */ i) => entropyOf(together(i)) - groups[i].bits - groups[i + 1].bits;
  const more = groups.slice(1).map((_, i) => added(i));
  while (more.length) {
    const best = more.indexOf(Math.min(...more));
    if (groups.length <= MOST_CONTEXTS && more[best] >= cost) break;
    groups[best].counts = together(best);
    groups[best].bits += groups[best + 1].bits + more[best];
    groups.splice(best + 1, 1);
    more.splice(best, 1);
    for (const i of [best - 1, best]) if (i in more) more[i] = added(i);
  }
  return groups;
}

/** Shannon's bound in bits for a message with these counts. @param {Uint32Array} counts */
function entropyOf(counts) {
  const total = counts.reduce((sum, count) => sum + count);
  return total && total * binaryLogarithm(total) - counts.reduce((sum, count) => (count ? sum + count * binaryLogarithm(count) : sum), 0);
}

/** Memory for the tokens of contexts. @param {number} contexts @param {Pair} pair */
const tokensOf = (contexts, { half }) => Array.from({ length: contexts }, () => new Uint32Array(2 * half * CLASSES_OF_RUNS));

/** Tokens and elements of each context in a stream. @param {Pair} pair @param {Uint8Array} contextOf each exponent @param {Uint32Array[]} tokens memory for them @param {number} begin @param {number} end */
function countSteps({ old, next, magnitude, mantissa, half }, contextOf, tokens, begin, end) {
  for (const own of tokens) own.fill(0);
  const [elements, after] = [tokens, tokens].map(({ length }) => new Uint32Array(length)); // so far, and up to the last change
  for (let i = begin; i < end; i++) {
    const before = old[i];
    const c = contextOf[(before & magnitude) >>> mantissa];
    const run = elements[c] - after[c];
    elements[c] += 1;
    const symbol = symbolOf(before, next[i], magnitude, half);
    if (symbol === 0) continue;
    tokens[c][(symbol - 1) * CLASSES_OF_RUNS + classNumber(run)] += 1;
    after[c] = elements[c];
  }
  return { tokens, elements };
}

/** The plans of contexts; null where nothing changes. @param {Pair} pair @param {Uint8Array} contextOf each exponent @param {number} contexts @param {number} elements of a stream */
function plansOf(pair, contextOf, contexts, elements) {
  const stride = Math.max(Math.floor(pair.old.length / (COUNTED * UNIT)), 1);
  const ends = streamEnds(pair.old.length, stride > 1 ? UNIT : elements);
  const streams = ends.flatMap((end, i) => (i % stride ? [] : [countSteps(pair, contextOf, tokensOf(contexts, pair), ends[i - 1] ?? 0, end)]));
  const ns = summed(streams.map((stream) => stream.elements));
  return Array.from(ns, (n, c) => planOfRuns(summed(streams.map(({ tokens }) => tokens[c])), n, stride > 1, pair));
}

/** A plan for n elements. @param {Uint32Array} tokens @param {number} n @param {boolean} sampled whether any symbol may follow @param {Pair} pair */
function planOfRuns(tokens, n, sampled, { half }) {
  const symbols = Math.max(Math.ceil((tokens.findLastIndex(Boolean) + 1) / CLASSES_OF_RUNS), sampled ? 1 : 0);
  if (symbols === 0) return null;
  const codes = [n, ...new Uint32Array(sampled ? 2 * half : symbols)];
  const own = tokens.subarray(0, symbols * CLASSES_OF_RUNS);
  own.forEach((count, i) => {
    codes[0] -= count;
    codes[1 + Math.floor(i / CLASSES_OF_RUNS)] += count;
  });
  return planOf(sampled ? codes.map((count) => Math.max(count, 1)) : codes, own, half);
}

/** A plan where most elements change. @param {Uint32Array} counts of symbols @param {boolean} sampled whether any symbol may follow @param {Pair} pair */
const planOfMost = (counts, sampled, { half }) =>
  planOf(sampled ? Array.from(counts, (count) => Math.max(ONCE * count, 1)) : [...counts.subarray(0, counts.findLastIndex(Boolean) + 1)], null, half);

/** A table; the bits of an element that stays, and how many more each token takes. @param {number[]} codes @param {Uint32Array | null} tokens @param {number} half */
function planOf(codes, tokens, half) {
  const { table } = chooseTable({ codes, tokens, uniform: true }, null, 1);
  const ofRuns = table.classes > 1 ? bitsOfTokens(table, codes.length - 1) : null;
  const stays = ofRuns ? 0 : table.lengths[0];
  const more = Int16Array.from({ length: (codes.length - 1) * CLASSES_OF_RUNS }, (_, i) => {
    const symbol = 1 + Math.floor(i / CLASSES_OF_RUNS);
    return (ofRuns ? ofRuns[i] : table.lengths[symbol] - stays) + extraOfSymbol(symbol, half);
  });
  return { table, stays, more };
}
