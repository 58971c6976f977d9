// Beyond the paper: equal steps with a dead zone, as codec.scheme.uniform, and the step sizes that a
// distance or a budget chooses, as codec.scheme.distance and codec.scheme.budget.

const OFFSET = 0.375; // with a budget, a change of (1 - OFFSET) steps or more moves a value
const NEAREST = 0.5; // the same with a distance
const MOST_STEPS = 16383; // from zero to the furthest level
const MOST_STEPS_PLAIN = 2047; // the same with a code of single values
const SAMPLE = 2 ** 18; // values that are sampled from a larger change
const BLOCK = 256; // values that are sampled together
const FINE = 17; // lower bits of a magnitude that share a bin: an octave has 64 bins
const FINE_BINS = 256 << 6;
const SMALLEST = 2 ** -149;
const LARGEST = (2 - 2 ** -23) * 2 ** 127;
const PASSES = 12; // that a search takes at most
const CLOSE = 1.0005; // step sizes of a smaller ratio are not worth another pass

/**
 * A change that is quantized in steps, and the values before it.
 * @typedef {object} Changing
 * @property {Float32Array} delta
 * @property {Float32Array} before
 * @property {number} changed the sum of squares of delta
 * @property {Quantized["codes"]} [codes] memory for the codes, which each quantization fills anew
 */

/**
 * Equal steps, and what they leave of the change.
 * @typedef {Quantized & { left: number, beyond: boolean }} Steps left: a sum of squares. beyond: whether
 * a change is larger than the last step
 */

/**
 * Quantize a change in steps of one size. Codes 1, 2, 3, 4 ... stand for 1, -1, 2, -2 ... steps.
 * @param {Changing} changing
 * @param {number} size a float32
 * @param {number} offset OFFSET or NEAREST
 * @param {number} [most] steps that a code may stand for
 * @param {number} [end] from this index on, a value moves only if it would also move in steps of size `other`
 * @param {number} [other]
 * @returns {Steps}
 */
function quantizeInSteps({ delta, before, changed, codes = new Uint8Array(delta.length) }, size, offset, most = MOST_STEPS, end = delta.length, other = size) {
  const scale = { size, offset, most, end, other, levels: stepLevels(size, 2 * most + 1), counts: new Uint32Array(2 * most + 2) };
  const left = changed + sumOfParts(delta.length, (from, to) => quantizePart(delta, before, codes, scale, from, to));
  const { counts, levels } = scale;
  const beyond = counts[2 * most + 1] > 0;
  counts[0] += counts[2 * most + 1];
  const k = counts.subarray(0, 2 * most + 1).findLastIndex((count) => count > 0) + 1;
  const room = roomFor(k, codes);
  if (room !== codes) return quantizeInSteps({ delta, before, changed, codes: room }, size, offset, most, end, other);
  return { codes, levels: levels.slice(0, k), counts: [...counts.subarray(0, k)], buckets: [], size: k > 1 ? size : 0, uniform: true, left: Math.max(left, 0), beyond };
}

/**
 * Quantize some values. Hardly a branch depends on one: a processor that guesses wrongly takes twice as long.
 * @param {Float32Array} delta
 * @param {Float32Array} before
 * @param {Quantized["codes"]} codes they are written here
 * @param {{ size: number, offset: number, most: number, end: number, other: number, levels: Float32Array, counts: Uint32Array }} scale
 * counts: of each code, and of the changes beyond all codes
 * @param {number} from
 * @param {number} to
 * @returns {number} what the steps leave, less the change: both as sums of squares
 */
function quantizePart(delta, before, codes, { size, offset, most, end, other, levels, counts }, from, to) {
  const [words, perStep, perOther] = [bitsOfValues(delta), 1 / size, 1 / other];
  let left = 0;
  for (let i = from; i < to; i++) {
    const change = delta[i];
    const magnitude = Math.abs(change);
    let steps = Math.min(magnitude * perStep + offset, most + 1) | 0;
    if (i >= end && magnitude * perOther + offset < 1) steps = 0;
    let code = 2 * steps - (((words[i] >>> 31) ^ 1) & (-steps >>> 31));
    if (steps > most) {
      counts[2 * most + 1] += 1;
      code = 0;
    } else counts[code] += 1;
    codes[i] = code;
    // What a decoder does: the level and the sum are each rounded once.
    const rest = before[i] + change - Math.fround(before[i] + levels[code]);
    left += rest * rest - change * change;
  }
  return left;
}

/** The level of each code. @param {number} size of a step @param {number} k how many codes */
function stepLevels(size, k) {
  const levels = new Float32Array(k);
  for (let code = 1; code < k; code++) levels[code] = stepsOfCode(code) * size;
  return levels;
}

/** How many steps a code stands for, with their sign. @param {number} code */
const stepsOfCode = (code) => (code % 2 === 1 ? (code + 1) / 2 : -code / 2 || 0);

/** How large the changes are. */
class Magnitudes {
  /** @param {Float32Array} delta @param {boolean} sampled whether a part of a large change will do */
  constructor(delta, sampled) {
    const stride = BLOCK * (sampled ? Math.max(Math.floor(delta.length / SAMPLE), 1) : 1);
    const [words, count] = [bitsOfValues(delta), new Float64Array(FINE_BINS)];
    let [largest, n] = [0, 0];
    for (let begin = 0; begin < words.length; begin += stride) {
      const end = Math.min(begin + BLOCK, words.length);
      for (let i = begin; i < end; i++) {
        const magnitude = words[i] & MAGNITUDE;
        if (magnitude === 0) continue;
        count[magnitude >>> FINE] += 1;
        if (magnitude > largest) largest = magnitude;
      }
      n += end - begin;
    }
    this.largest = new Float32Array(Uint32Array.of(largest).buffer)[0];
    this.n = n;
    /** Bins with members: their ends, and how many they have. @type {[number, number, number][]} */
    this.bins = [];
    this.below = new Float64Array(FINE_BINS + 1);
    count.forEach((members, bin) => {
      this.below[bin + 1] = this.below[bin] + members;
      if (members) this.bins.push([edgeOf(bin), edgeOf(bin + 1), members]);
    });
    this.energy = this.bins.reduce((sum, [low, high, members]) => sum + (members * (low * low + low * high + high * high)) / 3, 0);
  }

  /** About how many changes have at least a magnitude. @param {number} magnitude */
  atLeast(magnitude) {
    let bin = Math.min(new Uint32Array(Float32Array.of(Math.min(magnitude, LARGEST)).buffer)[0] >>> FINE, FINE_BINS - 1);
    if (edgeOf(bin) > magnitude) bin -= 1; // it was rounded up
    const [low, high] = [edgeOf(bin), edgeOf(bin + 1)];
    const below = this.below[bin] + ((this.below[bin + 1] - this.below[bin]) / (high - low)) * (magnitude - low);
    return this.below[FINE_BINS] - Math.min(below, this.below[bin + 1]);
  }

  /** About how many bits a value takes: Shannon's bound for single values. @param {number} size @param {number} offset */
  entropy(size, offset) {
    const most = Math.min(Math.floor(this.largest / size + offset) + 1, MOST_STEPS);
    let [bits, reached] = [0, this.atLeast((1 - offset) * size)];
    const zeros = Math.max(this.n - reached, 0);
    const add = (/** @type {number} */ members) => (members > 0 ? members * Math.log2((2 * this.n) / members) : 0); // either sign is as likely
    for (let step = 1; step <= most; step++) {
      const next = this.atLeast((step + 1 - offset) * size);
      bits += add(reached - next);
      reached = next;
    }
    return (bits + add(zeros) - zeros) / Math.max(this.n, 1); // 0 has no sign
  }

  /** The share of the sum of squares that steps leave, about. @param {number} size @param {number} offset */
  shareLeft(size, offset) {
    const left = this.bins.reduce((sum, [low, high, members]) => sum + (members * (squaresUpTo(high / size, offset) - squaresUpTo(low / size, offset))) / (high - low), 0);
    return (left * (size * size * size)) / Math.max(this.energy, 1e-300);
  }
}

/** The lower end of a bin of magnitudes. @param {number} bin */
const edgeOf = (bin) => (bin < 255 << 6 ? new Float32Array(Uint32Array.of(bin << FINE).buffer)[0] : 2 ** 128 * (bin - (255 << 6) + 1));

/** The integral from 0 to y of (x - floor(x + offset))^2. @param {number} y @param {number} offset */
function squaresUpTo(y, offset) {
  const q = Math.floor(y + offset);
  if (q <= 0) return (y * y * y) / 3;
  const [above, below, rest] = [(1 - offset) ** 3 / 3, offset ** 3 / 3, y - q];
  return above + (q - 1) * (above + below) + (rest * rest * rest) / 3 + below;
}

/** The boundary between sizes, by bisection: isFine says on which side a size is. @param {number} low @param {number} high @param {(size: number) => boolean} isFine @returns {[number, number]} */
function between(low, high, isFine) {
  while (high > low * 1.001) {
    const middle = Math.sqrt(low) * Math.sqrt(high);
    [low, high] = isFine(middle) ? [middle, high] : [low, middle];
  }
  return [low, high];
}

/** The smallest size with which the largest change is at most so many steps. @param {number} largest @param {number} most @param {number} offset */
function finestSize(largest, most, offset) {
  const size = Math.max(Math.fround(largest / (most + 1 - offset)), SMALLEST);
  return largest / size + offset >= most + 1 ? nextFloat(size) : size;
}

/** The float32 above a positive one. @param {number} value */
const nextFloat = (value) => new Float32Array(Uint32Array.of(bitsOfValues(Float32Array.of(value))[0] + 1).buffer)[0];

/** @param {Coder} coder */
const mostSteps = (coder) => (coder === "huffman" ? MOST_STEPS_PLAIN : MOST_STEPS);

/**
 * Quantize a change in the largest equal steps that leave at most a share of it.
 * @param {Changing} changing
 * @param {number} distance ||what is left|| / ||delta||
 * @param {Coder} coder
 * @returns {Steps}
 */
function stepsLeaving(changing, distance, coder) {
  return searched(changing, (magnitudes) => distanceSearch(changing, magnitudes, distance, mostSteps(coder)));
}

/**
 * Search with a sample of the magnitudes; with all if a change is larger than the sampled ones.
 * @template T
 * @param {Changing} changing
 * @param {(magnitudes: Magnitudes) => T | null} search
 * @returns {T}
 */
function searched({ delta }, search) {
  const answer = search(new Magnitudes(delta, true)) ?? search(new Magnitudes(delta, false));
  if (!answer) throw new RangeError("changes that equal steps cannot express");
  return answer;
}

/** @param {Changing} changing @param {Magnitudes} magnitudes @param {number} distance @param {number} most @returns {Steps | null} */
function distanceSearch(changing, magnitudes, distance, most) {
  const { largest } = magnitudes;
  const offset = NEAREST;
  const finest = finestSize(largest, most, offset);
  const quantized = (/** @type {number} */ size) => quantizeInSteps(changing, Math.max(Math.fround(size), finest), offset, most);
  if (!largest) {
    const steps = quantized(SMALLEST);
    return steps.counts.length > 1 || steps.beyond ? null : steps; // a sample may miss all changes
  }
  const coarsest = Math.max(largest / (1 - offset), finest);
  let [fitting, tooCoarse, ratio] = [0, 0, 1];
  for (let pass = 0; pass < PASSES; pass++) {
    const aim = (0.995 * distance) ** 2 / ratio;
    let [size] = between(fitting || finest, tooCoarse || coarsest, (middle) => magnitudes.shareLeft(middle, offset) <= aim);
    if (fitting && tooCoarse && !(fitting * CLOSE < size && size < tooCoarse / CLOSE)) size = Math.sqrt(fitting) * Math.sqrt(tooCoarse);
    const newest = quantized(size);
    if (newest.beyond) return null;
    const left = distanceOf(newest, changing);
    if (left <= distance) {
      fitting = size;
      if (left >= 0.98 * distance || size >= coarsest) return newest;
    } else {
      tooCoarse = size;
      if (size <= finest * CLOSE) return null;
    }
    if (tooCoarse > 0 && tooCoarse <= fitting * CLOSE) break;
    ratio = Math.max(left ** 2 / Math.max(magnitudes.shareLeft(size, offset), 1e-30), 1e-9);
  }
  const best = quantized(fitting || finest); // again: a later pass has other codes
  return distanceOf(best, changing) <= distance ? best : null;
}

/** @param {{ left: number }} steps @param {{ changed: number }} changing */
const distanceOf = ({ left }, { changed }) => (left > 0 ? Math.sqrt(left / changed) : 0);

/** Equal steps with an upper bound of their bytes. @typedef {Steps & { nbytes: number, lacking: number }} Fitted lacking: bytes of the smallest change, if even that does not fit; else 0 */

/**
 * Quantize a change in the smallest equal steps whose bytes fit.
 * @param {Changing} changing
 * @param {number} limit bytes
 * @param {Stage} stage
 * @returns {Fitted}
 */
function stepsWithin(changing, limit, stage) {
  return searched(changing, (magnitudes) => new BudgetSearch(changing, magnitudes, Math.max(limit, 0), stage).steps);
}

const AIM = 0.992; // share of the limit that the next try is chosen for
const USED = 0.975; // share of the limit from which on the search ends
const MOST_MARGIN = 1.01; // a size that differs so much from those tried is always worth another pass

/** Step sizes between which the smallest that fits lies. */
class BudgetSearch {
  /** @param {Changing} changing @param {Magnitudes} magnitudes @param {number} limit @param {Stage} stage */
  constructor(changing, magnitudes, limit, stage) {
    this.changing = changing;
    this.magnitudes = magnitudes;
    this.limit = limit;
    this.stage = stage;
    this.most = mostSteps(stage.coder);
    this.tooFine = 0; // the sizes nearest to each other that were tried; 0 for none
    this.fitting = 0;
    this.keptTooFine = 0; // values that move with the size that is too fine
    /** @type {Fitted | null} */
    this.best = null;
    /** @type {Fitted | null} the last one that was tried, whose codes are in memory */
    this.newest = null;
    this.isBeyond = false; // whether a change is larger than the magnitudes say
  }

  /** Steps of a size, or of the finest that can be. @param {number} size @param {number} [first] changes that are kept at most @param {number} [end] see quantizeInSteps @param {number} [other] @returns {Fitted} */
  fit(size, first, end, other) {
    const { largest } = this.magnitudes;
    const finest = largest ? finestSize(largest, this.most, OFFSET) : SMALLEST;
    const steps = quantizeInSteps(this.changing, Math.max(Math.fround(size), finest), OFFSET, this.most, end, other && Math.fround(other));
    this.isBeyond ||= steps.beyond;
    const kept = first === undefined ? steps : firstOf(steps, first);
    return (this.newest = { ...kept, nbytes: messageOf(kept, this.stage).most, lacking: 0 });
  }

  /** The steps; null if they need other magnitudes. @returns {Fitted | null} */
  get steps() {
    const answer = this.search();
    return this.isBeyond ? null : answer;
  }

  search() {
    const { largest } = this.magnitudes;
    const { limit } = this;
    if (!largest) return this.fit(1);
    this.narrow();
    const { best } = this;
    if (!best || best.counts.length === 1) {
      // Even the largest values are too many: keep the first of them.
      const { nbytes } = this.fit(largest, 1);
      if (nbytes > limit) return { ...this.fit(Math.min(4 * largest, LARGEST)), lacking: nbytes };
      const n = mostThat(1, keptBy(this.fit(largest)), (count) => this.fit(largest, count).nbytes <= limit);
      return this.fit(largest, n);
    }
    if (best.nbytes < USED * limit && this.keptTooFine > keptBy(best)) {
      // No single size keeps only a part of many values of nearly equal magnitude: the first ones do.
      const part = this.blend();
      if (best.nbytes < part.nbytes && part.nbytes <= limit) return part;
    }
    return best === this.newest ? best : this.fit(this.fitting);
  }

  /** The size that is too fine, in as many of the first blocks as nearly fill the limit. */
  blend() {
    const { limit, tooFine, fitting } = this;
    let [low, high] = [0, Math.ceil(this.changing.delta.length / BLOCK)];
    const part = (/** @type {number} */ n) => this.fit(tooFine, undefined, BLOCK * n, fitting);
    while (low + 1 < high) {
      const middle = Math.floor((low + high) / 2);
      const { nbytes } = part(middle);
      if (USED * limit <= nbytes && nbytes <= limit) return /** @type {Fitted} */ (this.newest);
      [low, high] = nbytes <= limit ? [middle, high] : [low, middle];
    }
    return part(low);
  }

  /** Try sizes until one nearly fills the limit. */
  narrow() {
    const { magnitudes, limit, most } = this;
    const { largest } = magnitudes;
    const n = this.changing.delta.length;
    const finest = Math.max(largest / (most + 1 - OFFSET), SMALLEST);
    const coarsest = Math.max(largest / (1 - OFFSET), SMALLEST);
    let ratio = 1.012; // usual, of the bytes to the estimate
    for (let pass = 0; pass < PASSES; pass++) {
      const bits = (8 * AIM * limit) / ratio / n;
      const [, estimated] = between(this.tooFine || finest, this.fitting || coarsest, (middle) => magnitudes.entropy(middle, OFFSET) > bits);
      const size = this.nextSize(estimated, finest, coarsest);
      const newest = this.fit(size);
      if (this.isBeyond) return;
      if (newest.nbytes <= limit) {
        [this.fitting, this.best] = [size, newest];
        const isEnough = keptBy(newest) > 0 && newest.nbytes >= USED * limit; // nothing is never enough
        if (isEnough || size <= finest * CLOSE ** 2) {
          this.keptTooFine = 0;
          return;
        }
      } else {
        [this.tooFine, this.keptTooFine] = [size, keptBy(newest)];
      }
      const apart = this.best && this.keptTooFine > keptBy(this.best) ? MOST_MARGIN : CLOSE;
      if (this.tooFine >= coarsest / CLOSE ** 2 || (this.fitting > 0 && this.fitting <= this.tooFine * apart)) return;
      ratio = Math.max(newest.nbytes / Math.max((n * magnitudes.entropy(size, OFFSET)) / 8, 1), 1e-3);
    }
  }

  /** The estimate, or a size further away from those tried. @param {number} estimate @param {number} finest @param {number} coarsest */
  nextSize(estimate, finest, coarsest) {
    const { tooFine, fitting } = this;
    if (tooFine && fitting) {
      const margin = Math.min((fitting / tooFine) ** 0.1, MOST_MARGIN);
      if (!(tooFine * margin < estimate && estimate < fitting / margin)) return Math.sqrt(tooFine) * Math.sqrt(fitting);
    } else if (fitting && estimate > fitting / MOST_MARGIN) {
      return Math.max(fitting / 2, finest);
    } else if (tooFine && estimate < tooFine * MOST_MARGIN) {
      return Math.min(tooFine * 2, coarsest);
    }
    return estimate;
  }
}

/** How many values move. @param {Quantized} quantized */
const keptBy = ({ codes, counts }) => codes.length - counts[0];

/** The largest number from low to high for which something is true, as it is for low. @param {number} low @param {number} high @param {(n: number) => boolean} isTrue */
function mostThat(low, high, isTrue) {
  while (low < high) {
    const middle = Math.floor((low + high + 1) / 2);
    [low, high] = isTrue(middle) ? [middle, high] : [low, middle - 1];
  }
  return low;
}

/** Keep only the first changes. @param {Steps} steps @param {number} most @returns {Steps} */
function firstOf(steps, most) {
  const { codes } = steps;
  const counts = steps.counts.map(() => 0);
  for (let i = 0, kept = 0; i < codes.length; i++) {
    if (codes[i] !== 0 && ++kept > most) codes[i] = 0;
    counts[codes[i]] += 1;
  }
  const k = Math.max(counts.findLastIndex((count) => count > 0), 0) + 1;
  return { ...steps, counts: counts.slice(0, k), levels: steps.levels.slice(0, k) };
}

/** The smallest budget that is sure to hold so many bytes, as codec.scheme.budget advises it. @param {number} nbytes @param {number} n values */
function advisedBudget(nbytes, n) {
  const share = (1.25 * nbytes) / (4 * n); // other steps may need more
  const digits = 2 - Math.ceil(Math.log10(share));
  return Math.ceil(share * 10 ** digits) / 10 ** digits;
}
