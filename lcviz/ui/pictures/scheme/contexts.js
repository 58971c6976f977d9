// Beyond the paper: an adaptive arithmetic code that expects rows and columns to change together, as
// codec.scheme.context. FORMAT.md has every number, under "A context code".

const STREAM = 2 ** 18; // elements, at least, of every stream but the last
const MOST_COLUMNS = 2 ** 15; // of a row
const MOST_SINGLE = 2 ** 14; // elements: in larger alphabets octets share a decision
const OCTET = 8;
const [ROW, OCTETS, ABOVE_0, ABOVE, SIZES, BITS_BELOW, SIGNS, N_CONTEXTS] = contextPlaces();
const RATES = Uint32Array.from({ length: 61 }, (_, n) => Math.floor(131072 / (2 * n + 3)));
const FIRST_CONTEXTS = firstContexts();

/** Rows and columns of a tensor: its first dimension, and all others. @typedef {[number, number]} Matrix */

/** Where the contexts of each decision begin, and how many there are in all. */
function contextPlaces() {
  const places = [0];
  for (const n of [75, 9 * 24, 27 * 24, 24 * 24, 13 * 24, 3 * 14, 27]) places.push(places[places.length - 1] + n);
  return places;
}

/** The chance of each context, and how often it seems to have been used. */
function firstContexts() {
  const [chances, uses] = [new Uint32Array(N_CONTEXTS).fill(32768), new Uint8Array(N_CONTEXTS)];
  chances.fill(20000, ABOVE, BITS_BELOW);
  for (let a = 0; a < 24; a++) {
    const first = Math.min(Math.max(Math.floor((65536 * 2 ** a) / (2 ** a + 2896)), 200), 65000);
    chances.fill(first, OCTETS + 9 * a, OCTETS + 9 * (a + 1));
    for (const g of [0, 1, 2]) {
      const begin = ABOVE_0 + 9 * (24 * g + a);
      chances.fill(g === 1 ? Math.max(first, 9830) : first, begin, begin + 9);
    }
  }
  uses.fill(2, OCTETS, ABOVE);
  return { chances, uses };
}

/** 16 times the binary logarithm of a whole number from 1 on, roughly. @param {number} v */
function logarithm(v) {
  let more = 0;
  for (; v >= 2 ** 31; v = Math.floor(v / 2)) more += 16;
  const p = 31 - Math.clz32(v);
  return more + 16 * p + (p < 4 ? v << (4 - p) : v >>> (p - 4)) - 16;
}

/** Matrices of rows that are not too long; a column is a row. @param {Matrix[]} matrices @returns {Matrix[]} */
const withShortRows = (matrices) =>
  matrices.flatMap(([rows, columns]) => {
    const [n, w] = columns === 1 ? [1, rows] : [rows, columns];
    if (n === 0 || w === 0) return [];
    if (w <= MOST_COLUMNS) return [/** @type {Matrix} */ ([n, w])];
    const parts = Array.from({ length: Math.ceil(w / MOST_COLUMNS) }, (_, i) => /** @type {Matrix} */ ([1, Math.min(w - i * MOST_COLUMNS, MOST_COLUMNS)]));
    return Array.from({ length: n }, () => parts).flat();
  });

/** The matrices of each stream: whole rows. @param {Matrix[]} matrices */
function matricesOfStreams(matrices) {
  /** @type {Matrix[][]} */
  const streams = [];
  let filled = STREAM;
  for (const [rows, columns] of withShortRows(matrices)) {
    for (let left = rows; left > 0; ) {
      if (filled >= STREAM) {
        streams.push([]);
        filled = 0;
      }
      const n = Math.min(left, Math.ceil((STREAM - filled) / columns));
      streams[streams.length - 1].push([n, columns]);
      left -= n;
      filled += n * columns;
    }
  }
  return streams;
}

/**
 * Integers of codes, as a context code sees them: null if two levels of buckets have one exponent and
 * sign. q: of each code. weights: m, by |q|. signs: by |q|, 0 where levels of both signs have it.
 * @param {Quantized} quantized
 */
function contextSymbols({ levels, uniform }) {
  if (uniform) return { q: Int32Array.from(levels, (_, code) => stepsOfCode(code)), weights: Uint8Array.from({ length: 16384 }, (_, a) => Math.min(a, 31)), signs: new Int8Array(16384) };
  const bits = bitsOfValues(levels);
  const rungs = [...new Set(Array.from(bits.subarray(1), (word) => (word >>> 23) & 255))].sort((a, b) => a - b);
  const q = Int32Array.from(bits, (word, code) => (code ? (1 + rungs.indexOf((word >>> 23) & 255)) * (word >>> 31 ? -1 : 1) : 0));
  if (new Set(q).size < q.length) return null;
  const both = new Set(q);
  const signs = Int8Array.from({ length: rungs.length + 1 }, (_, a) => (both.has(a) && both.has(-a) ? 0 : both.has(a) ? 1 : -1));
  return { q, weights: Uint8Array.from(signs, (_, a) => (a ? 2 ** Math.min(a - 1, 6) : 0)), signs };
}

/** @typedef {NonNullable<ReturnType<typeof contextSymbols>>} ContextSymbols */

/** Writes decisions into an interval that they narrow. */
class Interval {
  /** @param {number} room bytes that are likely to be enough */
  constructor(room) {
    this.chances = FIRST_CONTEXTS.chances.slice();
    this.uses = FIRST_CONTEXTS.uses.slice();
    this.low = 0; // 40 bits
    this.span = 2 ** 40;
    this.bytes = new Uint8Array(room);
    this.n = 0; // of them that are written
  }

  /** Bits so far. */
  get bits() {
    return 8 * this.n + 40 - Math.log2(this.span);
  }

  /** @param {number} context @param {boolean} one */
  decide(context, one) {
    const chance = this.chances[context];
    const bound = Math.floor(this.span / 65536) * chance;
    if (one) this.raise(this.span - bound); // 0 takes the lower part: a stream of zeros needs no bytes
    this.span = one ? bound : this.span - bound;
    for (; this.span < 2 ** 32; this.span *= 256) this.shift();
    const n = this.uses[context];
    const learnt = chance + Math.floor((((one ? 65536 : 0) - chance) * RATES[n]) / 65536);
    this.chances[context] = Math.min(Math.max(learnt, 32), 65504);
    if (n < 60) this.uses[context] = n + 1;
  }

  /** Move the lower end up. @param {number} by */
  raise(by) {
    this.low += by;
    if (this.low < 2 ** 40) return;
    this.low -= 2 ** 40;
    let at = this.n - 1;
    for (; this.bytes[at] === 255; at--) this.bytes[at] = 0;
    this.bytes[at] += 1;
  }

  /** Write the highest byte of the lower end. */
  shift() {
    if (this.n === this.bytes.length) {
      const more = new Uint8Array(2 * this.n);
      more.set(this.bytes);
      this.bytes = more;
    }
    const byte = Math.floor(this.low / 2 ** 32);
    this.bytes[this.n++] = byte;
    this.low = (this.low - byte * 2 ** 32) * 256;
  }

  /** The bytes, with the shortest number of the interval at their end: a reader adds zeros. */
  finish() {
    for (let n = 0; n < 6; n++) {
      const unit = 2 ** (40 - 8 * n);
      const number = Math.ceil(this.low / unit) * unit;
      if (number >= this.low + this.span) continue;
      this.raise(number - this.low);
      for (let i = 0; i < n; i++) this.shift();
      break;
    }
    while (this.n && this.bytes[this.n - 1] === 0) this.n -= 1;
    return this.bytes.subarray(0, this.n);
  }
}

/** @param {number} activity */
const capped = (activity) => Math.min(Math.max(activity >> 4, 0), 23);

/**
 * One stream of a context code.
 * @param {Quantized["codes"]} codes of its elements
 * @param {Matrix[]} matrices
 * @param {boolean} octets whether eight neighbours share a decision
 * @param {ContextSymbols} symbols
 * @param {Float64Array | null} costs the bits of each element are added to it; null to save the time
 */
function contextStream(codes, matrices, octets, { q: qOf, weights, signs }, costs = null) {
  const interval = new Interval(codes.length + 16);
  let spent = 0;
  /** Share the bits since the last call among elements. @param {number} from @param {number} to */
  const share = (from, to) => {
    if (!costs) return;
    for (let i = from; i < to; i++) costs[i] += (interval.bits - spent) / (to - from);
    spent = interval.bits;
  };
  /** Whether a code from one place to another is not 0. @param {number} from @param {number} to */
  const changes = (from, to) => {
    for (let i = from; i < to; i++) if (codes[i] !== 0) return true;
    return false;
  };
  let [base, mean] = [0, 205];
  for (const [rows, columns] of matrices) {
    const width = octets && columns > OCTET ? OCTET : columns;
    const inOctets = width < columns;
    const n = Math.ceil(columns / width);
    const [sums, agreed, above, lastRows, terms] = Array.from({ length: 5 }, () => new Int32Array(columns));
    const [octetSums, octetCounts, octetTerms] = Array.from({ length: 3 }, () => new Int32Array(n));
    const logs = Int32Array.from(sums, (_, j) => logarithm(j + 2));
    lastRows.fill(-2);
    let [total, changing, before] = [0, 0, 2];
    for (let i = 0; i < rows; i++, base += columns) {
      if (i > 0) mean = Math.max(Math.floor((4096 * total) / (i * columns)), 1);
      if ((i & (i - 1)) === 0) {
        for (let j = 0; j < columns; j++) terms[j] = logarithm(4096 * sums[j] + 2 * mean) - logs[j];
        for (let g = 0; g < n; g++) octetTerms[g] = logarithm(4096 * octetSums[g] + 2 * mean * Math.min(width, columns - g * width)) - logs[g * width];
      }
      if (columns >= OCTET) {
        const some = changes(base, base + columns);
        interval.decide(ROW + 3 * (logarithm(Math.floor((4096 * changing) / (i + 1)) + 1) >> 3) + before, some);
        share(base, base + columns);
        before = some ? 1 : 0;
        changing += before;
        if (!some) continue;
      }
      const rest = logarithm(mean) + logarithm(i + 2);
      let rowTerm = logarithm(2 * mean) - rest;
      let [rowSum, rowSign, left, leftAt, octetLeft] = [0, 0, 0, -2, 0];
      for (let g = 0; g < n; g++) {
        const [first, end] = [g * width, Math.min((g + 1) * width, columns)];
        let [known, count] = [0, 0]; // known: g of FORMAT.md
        if (inOctets) {
          const some = changes(base + first, base + end);
          interval.decide(OCTETS + 9 * capped(rowTerm + octetTerms[g]) + 3 * octetLeft + octetCounts[g], some);
          share(base + first, base + end);
          if (!some) {
            octetLeft = octetCounts[g] = 0;
            continue;
          }
          known = 1;
        }
        for (let j = first; j < end; j++) {
          const q = qOf[codes[base + j]];
          const activity = capped(rowTerm + terms[j]);
          const beside = leftAt === j - 1 ? left : 0;
          const up = lastRows[j] === i - 1 ? above[j] : 0;
          // The last element of an octet must have changed if no other one has.
          if (known !== 1 || j < end - 1) interval.decide(ABOVE_0 + 9 * (24 * known + activity) + 3 * Math.min(Math.abs(beside), 2) + Math.min(Math.abs(up), 2), q !== 0);
          if (q !== 0) {
            if (inOctets) [known, count] = [2, count + 1];
            const a = Math.abs(q);
            writeMagnitude(interval, a, activity, Math.abs(beside), Math.abs(up));
            if (signs[a] === 0) interval.decide(SIGNS + 13 + 9 * Math.sign(rowSign * agreed[j]) + 3 * Math.sign(beside) + Math.sign(up), q < 0);
            rowSum += weights[a];
            sums[j] += weights[a];
            rowTerm = logarithm(4096 * rowSum + 2 * mean) - rest;
            terms[j] = logarithm(4096 * sums[j] + 2 * mean) - logs[j];
            if (inOctets) {
              octetSums[g] += weights[a];
              octetTerms[g] = logarithm(4096 * octetSums[g] + 2 * mean * (end - first)) - logs[first];
            }
            if (agreed[j] !== 0) rowSign += q > 0 === agreed[j] > 0 ? 1 : -1;
            [left, leftAt, above[j], lastRows[j]] = [q, j, q, i];
          }
          share(base + j, base + j + 1);
        }
        if (inOctets) octetLeft = octetCounts[g] = Math.min(count, 2);
      }
      for (let j = 0; j < columns; j++) if (lastRows[j] === i) agreed[j] += above[j] > 0 === rowSign >= 0 ? 1 : -1;
      total += rowSum;
    }
    mean = Math.max(Math.floor((4096 * total) / (rows * columns)), 1);
  }
  return interval.finish();
}

/** |q| of an element that changes. @param {Interval} interval @param {number} a @param {number} activity @param {number} beside @param {number} up */
function writeMagnitude(interval, a, activity, beside, up) {
  for (let h = 1; h <= 8; h++) {
    interval.decide(ABOVE + 24 * activity + 8 * (Number(beside > h) + Number(up > h)) + h - 1, a > h);
    if (a <= h) return;
  }
  const size = 31 - Math.clz32(a - 8);
  for (let h = 0; h < 13; h++) {
    interval.decide(SIZES + 13 * activity + h, size > h);
    if (size <= h) break;
  }
  for (let k = 0; k < size; k++) interval.decide(BITS_BELOW + 3 * size + Math.min(k, 2), ((a - 8) >> (size - 1 - k)) % 2 === 1);
}

/** Streams that are written already: a large change takes seconds. @type {WeakMap<Quantized, Uint8Array[]>} */
const WRITTEN = new WeakMap();

/**
 * The streams of a context code; null if it cannot be used.
 * @param {Quantized} quantized
 * @param {Matrix[]} matrices of the tensors
 * @param {number} [until] time at which to stop, between two streams; the next call goes on
 */
function contextStreams(quantized, matrices, until = Infinity) {
  const symbols = contextSymbols(quantized);
  if (!symbols) return null;
  const { codes } = quantized;
  const streams = WRITTEN.get(quantized) ?? [];
  WRITTEN.set(quantized, streams);
  let end = 0;
  matricesOfStreams(matrices).forEach((own, i) => {
    const begin = end;
    end = own.reduce((sum, [rows, columns]) => sum + rows * columns, begin);
    if (i === streams.length && performance.now() < until) streams.push(contextStream(codes.subarray(begin, end), own, codes.length > MOST_SINGLE, symbols));
  });
  return streams;
}

/** Bytes of these streams, with the list of their sizes: 7 bits a byte. @param {Uint8Array[]} streams */
const contextNbytes = (streams) => streams.reduce((sum, { length }) => sum + length + Math.max(Math.ceil((32 - Math.clz32(length)) / 7), 1), 0);
