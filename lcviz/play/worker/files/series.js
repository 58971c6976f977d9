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

/** @typedef {Step & { step: number, delta: Float32Array, before: Float32Array, live: Float32Array, after: Float32Array, codes: Uint8Array }} ShownStep step: its number, from 1 on. codes: memory for those of all buckets */

const ROW_NBYTES = 6; // before the codes of an alphabet
const HEADER_NBYTES = 177; // of a delta's header and its row, without the numbers whose length varies
const EXACT_NBYTES = 32; // assumed of tensors that are stored exactly: only its number of digits counts
const BLOCK_NBYTES = 2 ** 14; // of a record's arrays that have a digest, at least
const MOST_BLOCKS = 2 ** 10; // of a record
const DIGEST_LETTERS = 22;

/** Bytes of a record's header that a budget pays for, as codec.record.record.header_nbytes. @param {number} budget @param {number} n values @param {StateFile} state */
function budgetedHeader(budget, n, { name, exact }) {
  const step = name.match(/\d+/g)?.at(-1) ?? "0";
  const whole = Math.floor(4 * n * budget);
  const more = digestsNbytes(whole);
  const entry = more && `,"more":{"dtype":"U8","shape":[${more}],"data_offsets":[0,${more}]}`.length;
  const begin = more + (exact.length ? EXACT_NBYTES : 0);
  return HEADER_NBYTES + [budget, Number(step), whole, begin, begin + whole].join("").length + entry + more;
}

/** Bytes of the digests of a record's blocks, as codec.record.chunks. @param {number} nbytes of its arrays */
function digestsNbytes(nbytes) {
  if (nbytes <= 2 * BLOCK_NBYTES) return 0;
  let block = BLOCK_NBYTES;
  while (block * MOST_BLOCKS < nbytes) block *= 2;
  const text = '{"head":"","chunks":""}'.length + DIGEST_LETTERS + 4 * Math.ceil((16 * Math.ceil(nbytes / block)) / 3);
  return 8 * Math.ceil(text / 8);
}

/** States in files, and their chain in a setting. All steps and settings share the same memory. */
class Series {
  /** @param {StateFile[]} states in the order of the training, at least two */
  constructor(states) {
    this.states = states;
    this.tensors = states[0].tensors;
    const n = this.tensors.reduce((sum, tensor) => sum + tensor.n, 0);
    this.n = n;
    /** @type {Matrix[]} */
    this.matrices = this.tensors.map(({ shape }) => [shape[0] ?? 1, shape.slice(1).reduce((product, size) => product * size, 1)]);
    const [live, before, delta, track] = Array.from({ length: 4 }, () => new Float32Array(n));
    this.memory = { live, before, delta, codes: new Uint8Array(n) };
    this.codes = states.slice(1).map(() => new Uint8Array(n)); // of each step
    /** @type {number[]} what was trained up to each step, as a sum of squares */
    this.trained = [];
    /** @type {Exact[]} what each step takes without loss, where it is known */
    this.exact = [];
    /** @type {Step[]} */
    this.steps = [];
    /** @type {ShownStep | null} the step that memory holds */
    this.inMemory = null;
    this.tracker = new Tracker(weightsOf(states[0], track), { ...FILES_SETTING }, this.matrices);
  }

  /** Save all states in a setting; `advance` does the work. @param {Setting} setting */
  use(setting) {
    if (sameSetting(setting, this.tracker.setting)) return;
    this.steps = [];
    this.inMemory = null;
    this.tracker = new Tracker(weightsOf(this.states[0], this.tracker.track), { ...setting }, this.matrices);
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
    const { states, tracker, memory } = this;
    const { live, before, delta } = memory;
    const i = this.steps.length;
    weightsOf(states[i + 1], live);
    this.trained[i] ??= squaresBetween(live, weightsOf(states[0], before));
    if (i === this.length - 1) before.set(tracker.track); // the last step is shown first
    const { budget } = tracker.setting;
    if (budget !== null) tracker.headerNbytes = budgetedHeader(budget, this.n, states[i + 1]);
    const { quantized, encoded, changed, left } = tracker.step(live, this.lost(i), { delta, codes: this.codes[i] });
    this.steps.push({ quantized, encoded, nbytes: ROW_NBYTES + encoded.nbytes, changed, left, trained: this.trained[i] });
    if (this.isSaved) this.hold(i);
  }

  /** The weights before a step, in the memory of its change, if what was left out of that step is lost. @param {number} i */
  lost(i) {
    return this.tracker.setting.carries ? null : weightsOf(this.states[i], this.memory.delta);
  }

  /** Say which step memory holds. @param {number} i */
  hold(i) {
    return (this.inMemory = { ...this.steps[i], ...this.memory, step: i + 1, after: this.tracker.track });
  }

  /** A step with all that its pictures need. @param {number} i its number, from 0 on @returns {ShownStep} */
  shown(i) {
    if (this.inMemory?.step === i + 1) return this.inMemory;
    const { states, memory } = this;
    const { live, before, delta } = memory;
    const { track } = this.tracker;
    weightsOf(states[0], before);
    for (const { quantized } of this.steps.slice(0, i)) move(before, quantized);
    changeOf(weightsOf(states[i + 1], live), before, this.lost(i), delta);
    track.set(before);
    move(track, this.steps[i].quantized);
    return this.hold(i);
  }

  /** What a step takes without loss. @param {number} step from 1 on */
  exactOf(step) {
    return (this.exact[step] ??= changesByGap(this.states[step - 1], this.states[step]));
  }

  /** A value in every file, and in the track after it. @param {number} at its index @returns {[number, number][]} */
  valuesAt(at) {
    const t = this.tensors.findLastIndex(({ begin }) => begin <= at);
    const one = (/** @type {StateFile} */ { values, tensors }) => weightsOf({ tensors: [{ ...tensors[t], n: 1, begin: 0 }], values: [values[t].subarray(at - tensors[t].begin, at - tensors[t].begin + 1)] }, new Float32Array(1))[0];
    let track = one(this.states[0]);
    return [[track, track], ...this.steps.map(({ quantized: { codes, levels } }, i) => {
      if (codes[at]) track = Math.fround(track + levels[codes[at]]);
      return /** @type {[number, number]} */ ([one(this.states[i + 1]), track]);
    })];
  }
}

/** @param {Float32Array} one @param {Float32Array} other */
const squaresBetween = (one, other) => sumOfParts(one.length, (from, to) => squaresOfPart(one, other, from, to));

/** @param {Float32Array} one @param {Float32Array} other @param {number} from @param {number} to */
function squaresOfPart(one, other, from, to) {
  let sum = 0;
  for (let i = from; i < to; i++) {
    const gap = one[i] - other[i];
    sum += gap * gap;
  }
  return sum;
}
