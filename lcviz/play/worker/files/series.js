// A series of states that were trained one after another, and what a setting makes of it.

/**
 * A step between two files, as a chain has it.
 * @typedef {object} Step
 * @property {Quantized} quantized
 * @property {EncodedCodes} encoded
 * @property {number} nbytes of its record, without the header
 * @property {number} changed the sum of squares of its change
 * @property {number} left the same of what it leaves
 * @property {number} trained the same of what was trained since the first file
 */

/** @typedef {Step & { delta: Float32Array, before: Float32Array, live: Float32Array, after: Float32Array }} ShownStep */

const ROW_NBYTES = 6; // before the codes of an alphabet
const HEADER_NBYTES = 179; // of a delta's header and its row, without the numbers whose length varies

/** Bytes of a record's header that a budget pays for, as codec.record.record.header_nbytes. @param {number} budget @param {number} n values @param {string} name of the file */
function budgetedHeader(budget, n, name) {
  const step = name.match(/\d+/g)?.at(-1) ?? "0";
  return HEADER_NBYTES + String(budget).length + String(Number(step)).length + 2 * String(Math.floor(4 * n * budget)).length;
}

/** States in files, and their chain in a setting. States stay as they are in their files until one is saved or shown. */
class Series {
  /** @param {StateFile[]} states in the order of the training, at least two */
  constructor(states) {
    this.states = states;
    this.tensors = states[0].tensors;
    this.n = this.tensors.reduce((sum, { n }) => sum + n, 0);
    /** @type {Matrix[]} */
    this.matrices = this.tensors.map(({ shape }) => [shape[0] ?? 1, shape.slice(1).reduce((product, size) => product * size, 1)]);
    this.first = weightsOf(states[0]);
    /** @type {Step[]} */
    this.steps = [];
    this.tracker = new Tracker(this.first, FILES_SETTING, this.matrices);
    /** @type {Float32Array | null} the weights before, where the next step needs them */
    this.last = this.first;
    /** @type {ShownStep | null} the last one, once it is saved */
    this.newest = null;
    /** @type {number[]} what was trained up to each step, as a sum of squares */
    this.trained = [];
    /** @type {Exact[]} what each step takes without loss, where it is known */
    this.exact = [];
  }

  /** Save all states in another setting; `advance` does the work. @param {Setting} setting */
  use(setting) {
    if (sameSetting(setting, this.tracker.setting)) return;
    this.steps = [];
    this.newest = null; // its memory is needed
    this.tracker = new Tracker(this.first, { ...setting }, this.matrices);
    this.last = this.first;
  }

  /** How many steps there are in all. */
  get length() {
    return this.states.length - 1;
  }

  get isSaved() {
    return this.steps.length === this.length;
  }

  /** Whether a distance or a budget chooses equal steps. */
  get isInSteps() {
    const { distance, budget } = this.tracker.setting;
    return distance !== null || budget !== null;
  }

  /** Save the next state. */
  advance() {
    const i = this.steps.length;
    const live = weightsOf(this.states[i + 1]);
    const before = i === this.length - 1 ? this.tracker.track.slice() : null; // the last step is shown first
    const { budget } = this.tracker.setting;
    if (budget !== null) this.tracker.headerNbytes = budgetedHeader(budget, this.n, this.states[i + 1].name);
    const { delta, quantized, encoded, changed } = this.tracker.step(live, this.last);
    const codes = quantized.levels.length > 256 ? quantized.codes : new Uint8Array(quantized.codes);
    const left = squaresBetween(live, this.tracker.track);
    this.trained[i] ??= squaresBetween(live, this.first);
    this.steps.push({ quantized: { ...quantized, codes }, encoded, nbytes: ROW_NBYTES + encoded.nbytes, changed, left, trained: this.trained[i] });
    this.last = this.tracker.setting.carries ? null : live;
    this.newest = before && { ...this.steps[i], delta, before, live, after: this.tracker.track };
  }

  /** A step with all that its pictures need. @param {number} i its number, from 0 on @returns {ShownStep} */
  shown(i) {
    if (this.newest && i === this.length - 1) return this.newest;
    const before = this.first.slice();
    for (const { quantized } of this.steps.slice(0, i)) move(before, quantized);
    const live = weightsOf(this.states[i + 1]);
    const { delta } = changeOf(live, before, this.tracker.setting.carries ? null : weightsOf(this.states[i]));
    const after = before.slice();
    move(after, this.steps[i].quantized);
    return { ...this.steps[i], delta, before, live, after };
  }

  /** What a step takes without loss. @param {number} step from 1 on */
  exactOf(step) {
    return (this.exact[step] ??= changesByGap(this.states[step - 1], this.states[step]));
  }

  /** A value in every file, and in the track after it. @param {number} at its index @returns {[number, number][]} */
  valuesAt(at) {
    const t = this.tensors.findLastIndex(({ begin }) => begin <= at);
    const one = (/** @type {StateFile} */ { values, tensors }) => weightsOf({ tensors: [{ ...tensors[t], n: 1, begin: 0 }], values: [values[t].subarray(at - tensors[t].begin, at - tensors[t].begin + 1)] })[0];
    let track = this.first[at];
    return [[track, track], ...this.steps.map(({ quantized: { codes, levels } }, i) => {
      if (codes[at]) track = Math.fround(track + levels[codes[at]]);
      return /** @type {[number, number]} */ ([one(this.states[i + 1]), track]);
    })];
  }
}

/** @param {Float32Array} one @param {Float32Array} other */
function squaresBetween(one, other) {
  let sum = 0;
  for (let i = 0; i < one.length; i++) {
    const gap = one[i] - other[i];
    sum += gap * gap;
  }
  return sum;
}
