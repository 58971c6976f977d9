// A training that saves checkpoints: its states, and the chain that each setting makes of them.

const PROBE = 256; // held-out digits that measure a model
const LAST = 600; // the last iteration
const INTERVAL = 10; // iterations between checkpoints
const RECENT = 40; // iterations whose weights are stored: a race needs their losses

/**
 * What the page is given: sizes that do not depend on the weights.
 * @typedef {object} RecordSizes
 * @property {number} base bytes of the first record, which is exact
 * @property {number} header bytes of a record without its codes
 * @property {number} full bytes of a whole checkpoint
 * @property {number} rival bytes of the header of SCAR's and TOPN's records
 */

/**
 * A checkpoint in a chain.
 * @typedef {Saved & { step: number, live: Float32Array, before: Float32Array, after: Float32Array, nbytes: number, restored: Measured }} Checkpoint
 * before, after: the track
 */

/** Whether two settings save alike. @param {Setting} a @param {Setting} b */
const sameSetting = (a, b) => JSON.stringify(a) === JSON.stringify(b);

/** The checkpoints of a training, saved with one setting. */
class Chain {
  /**
   * @param {Setting} setting
   * @param {Float32Array} weights those of the base
   * @param {RecordSizes} sizes
   * @param {Digits} heldOut
   */
  constructor(setting, weights, sizes, heldOut) {
    this.setting = { ...setting };
    this.sizes = sizes;
    this.heldOut = heldOut;
    this.tracker = new Tracker(weights.slice(), this.setting, MATRICES, sizes.header);
    this.last = weights; // those of the checkpoint before
    /** @type {Checkpoint[]} */
    this.checkpoints = [];
  }

  /**
   * @param {number} step
   * @param {Float32Array} live the weights; they must not change afterwards
   */
  save(step, live) {
    const before = this.tracker.track.slice();
    const saved = this.tracker.step(live, this.last);
    const after = this.tracker.track.slice();
    this.last = live;
    const nbytes = this.sizes.header + saved.encoded.nbytes;
    const restored = measure(after, this.heldOut, PROBE);
    this.checkpoints.push({ ...saved, step, live, before, after, nbytes, restored });
  }

  /** The checkpoint of a step, if it is saved. @param {number} step */
  at(step) {
    return this.checkpoints.find((checkpoint) => checkpoint.step === step);
  }
}

/** A training from a seed that is saved every INTERVAL iterations. */
class Run {
  /**
   * @param {{ train: Digits, heldOut: Digits }} data
   * @param {RecordSizes} sizes
   * @param {number} seed
   * @param {Setting} setting its own
   */
  constructor(data, sizes, seed, setting) {
    this.data = data;
    this.sizes = sizes;
    this.seed = seed;
    this.training = new Training(data.train, seed);
    this.base = this.training.parameters.slice();
    this.iteration = 0;
    /** @type {{ step: number, weights: Float32Array }[]} every state that was saved */
    this.states = [];
    /** @type {Measured[]} of the live model, by checkpoint; the first is the base's */
    this.live = [measure(this.base, data.heldOut, PROBE)];
    /** @type {{ iteration: number, weights: Float32Array }[]} the live model of the last iterations */
    this.recent = [{ iteration: 0, weights: this.base }];
    /** @type {number[]} iterations at which it was killed */
    this.kills = [];
    this.own = this.chain(setting);
    /** @type {Chain | null} the whole run in another setting */
    this.trial = null;
  }

  /** An empty chain of this run. @param {Setting} setting */
  chain(setting) {
    return new Chain(setting, this.base, this.sizes, this.data.heldOut);
  }

  /** The newest step that is saved; 0 for the base. */
  get newest() {
    return this.states.at(-1)?.step ?? 0;
  }

  get finished() {
    return this.iteration >= LAST;
  }

  /** Train one iteration, and save if it is time. */
  advance() {
    this.iteration += 1;
    this.training.iterate(this.iteration);
    const weights = this.training.parameters.slice();
    this.recent.push({ iteration: this.iteration, weights });
    if (this.recent.length > RECENT) this.recent.shift();
    if (this.iteration % INTERVAL) return;
    this.states.push({ step: this.iteration, weights });
    this.live.push(measure(weights, this.data.heldOut, PROBE));
    this.own.save(this.iteration, weights);
    this.replay(0);
  }

  /**
   * Try a setting on the whole run; `replay` does the work.
   * @param {Setting} setting
   */
  use(setting) {
    if (sameSetting(setting, this.own.setting)) this.trial = null;
    else if (!this.trial || !sameSetting(setting, this.trial.setting)) this.trial = this.chain(setting);
  }

  /**
   * Save the states once more in the trial's setting, for some milliseconds.
   * @param {number} patience
   */
  replay(patience) {
    const until = performance.now() + patience;
    while (this.trial && !this.isReplayed) {
      const { step, weights } = this.states[this.trial.checkpoints.length];
      this.trial.save(step, weights);
      if (performance.now() > until) break;
    }
  }

  /** Whether the chain that the page shows has all states. */
  get isReplayed() {
    return this.shown.checkpoints.length === this.states.length;
  }

  /** The chain that the page shows. */
  get shown() {
    return this.trial ?? this.own;
  }

  /** The training crashes: whatever is not in a checkpoint is gone. */
  kill() {
    this.kills.push(this.iteration);
  }

  /** Go on from the newest checkpoint, as the page shows it. */
  goOn() {
    this.own = this.shown;
    this.trial = null;
    const { step, after } = /** @type {Checkpoint} */ (this.own.checkpoints.at(-1));
    this.iteration = step;
    this.training.parameters.set(after);
    this.own.last = after;
    this.recent = this.recent.filter(({ iteration }) => iteration < step);
    this.recent.push({ iteration: step, weights: after });
  }
}
