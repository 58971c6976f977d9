// The page's worker: it owns the run, and answers what the page and its pictures ask. It never stops
// the page itself.

const SLICE = 10; // milliseconds of work between two looks at messages
const CALM = 120; // milliseconds between two pictures while the training is at full speed
const LEAST_BUDGET = 0.001; // of equal steps
const RATED = 20; // iterations whose rate is shown

/** @type {Setting} */
const FIRST_SETTING = { x: 2, most: null, budget: null, distance: null, coder: "runlength", carries: true };

/**
 * What the page asks for when it opens, from its address.
 * @typedef {object} Opening
 * @property {number} seed
 * @property {Partial<Setting>} own the run's own setting, where it differs from FIRST_SETTING
 * @property {Partial<Setting>} setting what is tried, likewise
 * @property {number | null} step to show; null for the newest
 * @property {number} at train up to this iteration
 * @property {number[]} kills crash at these iterations, and go on after all but the last
 * @property {boolean} dead whether the last crash is the end
 * @property {boolean} raced whether to race back from it
 * @property {number | null} followed
 * @property {boolean} byWorth
 */

/**
 * What the pictures of any checkpoint are drawn from.
 * @typedef {object} Shown
 * @property {Saved & { nbytes: number }} checkpoint
 * @property {Setting} setting it was saved with
 * @property {Matrix[]} matrices rows and columns of the tensors
 * @property {Dissected} dissected
 * @property {number} nKept buckets or steps that the record keeps
 * @property {number} followed index of a parameter
 * @property {(at: number) => [number, number] | null} pixelOf row and column of a parameter in the picture of δ
 * @property {boolean} isTrial whether the checkpoint is of a setting that is only tried
 * @property {boolean} byWorth whether bars show what removing them costs
 * @property {{ loss: number, without: number[] } | null} worth
 * @property {number | null} raised the budget that took the place of one that held no change
 * @property {boolean} playing
 * @property {CoderFacts[]} coders
 * @property {Record<string, number>} [sizes] coder -> bytes, where not all are computed yet
 */

/**
 * What the pictures of a training's checkpoint are drawn from, besides.
 * @typedef {Shown & { run: Run, checkpoint: Checkpoint, chain: Chain, rate: number, dead: boolean, raced: Raced | null }} View
 * chain: that has the checkpoint. rate: iterations a second
 */

/** The run that a visitor steers, and what is shown of it. */
class Player {
  /**
   * @param {{ train: Digits, heldOut: Digits }} data
   * @param {RecordSizes} sizes
   * @param {CoderFacts[]} coders
   * @param {(answer: object) => void} post
   */
  constructor(data, sizes, coders, post) {
    this.data = data;
    this.sizes = sizes;
    this.coders = coders;
    this.post = post;
    /** @type {Setting} what the page shows the whole run saved with */
    this.setting = { ...FIRST_SETTING };
    /** @type {number | null} to show; null for the newest */
    this.step = null;
    /** @type {number | null} */
    this.followed = null;
    /** @type {number | null} a budget that took the place of one that held no change in some step */
    this.raised = null;
    this.chosen = 0; // how often a visitor has chosen a weight
    this.byWorth = false;
    /** @type {number | null} iterations a second; null for full speed */
    this.speed = 10;
    this.run = new Run(data, sizes, 0, FIRST_SETTING);
    this.playing = false;
    this.dead = false;
    this.target = 0; // train up to this iteration at once
    /** @type {Raced | null} */
    this.raced = null;
    /** @type {number[]} when the last iterations ended */
    this.endTimes = [];
    this.messages = 0; // that the page has sent, but "drawn"
    this.changed = true; // whether there is something new to show
    this.isPageReady = true; // whether it has drawn the last answer
    this.working = false;
    this.shownAt = 0; // milliseconds, of the last answer
    /** @type {number | undefined} */
    this.shownStep = undefined;
  }

  /** A new training. @param {number} seed @param {Setting} own */
  begin(seed, own = FIRST_SETTING) {
    this.run = new Run(this.data, this.sizes, seed, own);
    this.run.use(this.setting);
    this.playing = false;
    this.dead = false;
    this.target = 0;
    this.raced = null;
    this.endTimes = [];
  }

  /** @param {Opening} opening */
  open(opening) {
    // Crashes after which it went on decided its weights. An address has one setting for all of them.
    Object.assign(this.setting, FIRST_SETTING, opening.own);
    this.begin(opening.seed, { ...this.setting });
    this.repeat(opening.kills, opening.dead);
    this.playing = false; // it went on after each but the last
    this.use({ ...FIRST_SETTING, ...opening.setting });
    if (opening.raced) this.race();
    this.show(opening.step);
    this.followed = opening.followed;
    this.byWorth = opening.byWorth;
    this.target = this.dead ? 0 : opening.at;
  }

  /** Crash at these iterations, and go on each time, but after the last if it is the end. @param {number[]} kills @param {boolean} isEnd */
  repeat(kills, isEnd) {
    kills.forEach((kill, i) => {
      while (this.run.iteration < kill) this.run.advance();
      this.crash();
      if (this.dead && (i < kills.length - 1 || !isEnd)) this.goOn();
    });
  }

  /** Train; a run that is over begins again, saved as is tried now. */
  play() {
    if (this.dead) return;
    this.target = 0;
    if (this.run.finished) {
      this.begin(this.run.seed, { ...this.setting });
      this.target = INTERVAL; // at once: there is nothing to see before
    }
    this.playing = true;
    this.step = null;
    this.endTimes = [];
  }

  pause() {
    this.playing = false;
    this.target = 0;
  }

  /** Train up to the next checkpoint. */
  next() {
    this.playing = false;
    this.step = null;
    if (!this.run.finished && !this.dead) this.target = this.run.newest + INTERVAL;
  }

  /** Train anew, at once, saved as is tried now. @param {number} seed */
  reset(seed) {
    this.begin(seed, { ...this.setting });
    this.target = LAST;
  }

  /** While it plays, crash now. At rest, crash at the step that is shown: the training is repeated up to there. */
  crash() {
    if (this.dead || !this.run.newest) return;
    const { run, step } = this;
    if (!this.playing && step !== null && step < run.newest) {
      // The same training once more, up to there.
      this.begin(run.seed, { ...run.own.setting });
      this.step = null;
      this.repeat([...run.kills.filter((kill) => kill < step), step], true);
      return;
    }
    this.run.replay(Infinity);
    this.run.kill();
    this.dead = true;
    this.playing = false;
    this.target = 0;
    this.step = null; // what a restart would load
    this.raced = null;
  }

  race() {
    if (!this.dead) return;
    this.run.replay(Infinity);
    this.raced = { ...raceBack(this.run), estimate: estimatedPrice(this.run, this.run.shown, this.run.newest) };
  }

  goOn() {
    if (!this.dead) return;
    this.run.replay(Infinity);
    this.run.goOn();
    this.dead = false;
    this.raced = null;
    if (!this.run.finished) this.play();
  }

  /** Show a step; null for the newest. @param {number | null} step */
  show(step) {
    this.step = step === null ? null : Math.max(Math.round(step / INTERVAL), 1) * INTERVAL;
  }

  /** @param {Partial<Setting>} change */
  use(change) {
    Object.assign(this.setting, change);
    this.run.use(this.setting);
    this.raced = null;
  }

  /** What a picture has sent. @param {string} event @param {any} value */
  heard(event, value) {
    const checkpoint = this.shown();
    if (!checkpoint) return;
    /** @type {Record<string, () => void>} */
    const acts = {
      back: () => this.use(this.run.own.setting),
      pixel: () => this.follow(weightAt(value[0], value[1])),
      word: () => this.follow(value),
      bucket: () => this.follow(largestOf(event, value, checkpoint, (i) => i < N_WEIGHTS)),
      bar: () => this.follow(largestOf(event, value, checkpoint, (i) => i < N_WEIGHTS)),
      // All of this step's buckets: then all of every step.
      cut: () => this.use(cutChosen(value, checkpoint.delta)),
      bits: () => this.use(this.bitsChosen(value, checkpoint)),
      coder: () => this.use({ coder: value }),
      view: () => (this.byWorth = value === "error"),
      step: () => this.show(value),
    };
    acts[event]?.();
  }

  /** @param {string} button of KEEPS, in words.js @param {Checkpoint} checkpoint @returns {Partial<Setting>} */
  bitsChosen(button, { nbytes }) {
    // Equal steps at the size of the checkpoint on the page.
    const budget = Math.max(Number((nbytes / (4 * N)).toFixed(4)), LEAST_BUDGET);
    if (button === "steps") return { budget, distance: null, most: null };
    return bitsOfButton(button);
  }

  /** @param {number | null} weight */
  follow(weight) {
    if (weight === null) return;
    this.followed = weight;
    this.chosen += 1;
  }

  /** The checkpoint to show, as tried or, until that is computed, as the run saved it; none before the first. */
  shown() {
    const { run } = this;
    const step = Math.min(this.step ?? run.newest, run.newest);
    return run.trial?.at(step) ?? run.own.at(step);
  }

  /** What its pictures are drawn from. @returns {View | null} */
  view() {
    const { run } = this;
    const checkpoint = this.shown();
    if (!checkpoint) return null;
    const { newest, trial } = run;
    const isTrial = trial !== null && trial.at(checkpoint.step) === checkpoint;
    const chain = isTrial ? trial : run.own;
    const dissected = dissect(checkpoint);
    // Until the step that was asked for is saved, another one stands for it.
    const followed = this.followed ?? firstWeight(checkpoint, 0, N_WEIGHTS);
    if (this.step === null || this.step <= newest) this.followed = followed;
    const measures = this.byWorth && !this.playing && !checkpoint.quantized.uniform;
    return {
      run,
      checkpoint,
      chain,
      setting: chain.setting,
      matrices: MATRICES,
      dissected,
      nKept: dissected.nKept,
      followed,
      pixelOf,
      isTrial,
      byWorth: this.byWorth,
      worth: measures ? lossesWithout(checkpoint, dissected, this.data.heldOut) : null,
      raised: this.raised === chain.setting.budget ? this.raised : null,
      playing: this.playing,
      rate: this.rate,
      dead: this.dead,
      raced: this.raced,
      coders: this.coders,
    };
  }

  /** Iterations a second, of the last ones. */
  get rate() {
    const { endTimes } = this;
    return endTimes.length > 1 ? (1000 * (endTimes.length - 1)) / (endTimes[endTimes.length - 1] - endTimes[0]) : 0;
  }

  /** Send the page all pictures. */
  answer() {
    const { run } = this;
    const view = this.view();
    this.post({
      pictures: view && picturesOf(view),
      state: {
        iteration: run.iteration,
        newest: run.newest,
        finished: run.finished,
        playing: this.playing,
        dead: this.dead,
        raced: Boolean(this.raced),
        kills: run.kills,
        step: this.step,
        shown: view?.checkpoint.step ?? 0,
        followed: this.followed,
        chosen: this.chosen,
        byWorth: this.byWorth,
        setting: this.setting,
        own: run.own.setting,
        isOwn: !run.trial,
        seed: run.seed,
        speed: this.speed,
        heard: this.messages,
        isAtRest: this.isAtRest,
        isCatchingUp: this.isCatchingUp,
        saved: run.shown.checkpoints.length,
        states: run.states.length,
      },
    });
    this.isPageReady = false;
    this.changed = false;
    this.shownAt = performance.now();
    this.shownStep = view?.checkpoint.step;
  }

  /** Work for a moment, show what has changed, and go on as long as there is something to do. */
  work() {
    const until = performance.now() + SLICE;
    const { run } = this;
    while (this.isCatchingUp && performance.now() < until) {
      run.advance();
      this.changed ||= run.iteration % INTERVAL === 0 || !this.isCatchingUp;
    }
    if (this.playing) this.advance(until);
    const before = run.trial?.checkpoints.length;
    run.replay(Math.max(until - performance.now(), 1));
    if (run.trial?.tracker.leastBudget) this.use({ budget: (this.raised = run.trial.tracker.leastBudget) });
    this.changed ||= before !== run.trial?.checkpoints.length;
    const isFast = this.isCatchingUp || (this.playing && !this.speed);
    if (this.changed && this.isPageReady && (!isFast || this.isAwaited || performance.now() - this.shownAt > CALM)) this.answer();
    // Once the page has drawn the last answer, it calls again.
    this.working = !this.isAtRest;
    if (this.working) later(() => this.work(), this.playing && this.speed ? 5 : 0);
  }

  /** Whether there is nothing to do until somebody asks for something. */
  get isAtRest() {
    return !this.playing && !this.isCatchingUp && this.run.isReplayed;
  }

  /** Whether iterations are still due at once. */
  get isCatchingUp() {
    return this.run.iteration < Math.min(this.target, LAST);
  }

  /** Whether the step that was asked for is there, but was not shown yet. */
  get isAwaited() {
    return this.shownStep !== this.step && this.step !== null && this.step <= this.run.newest;
  }

  /** Train as fast as the speed allows. @param {number} until */
  advance(until) {
    const { run, endTimes } = this;
    do {
      const last = endTimes[endTimes.length - 1] ?? 0;
      if (this.speed && performance.now() - last < 1000 / this.speed) break;
      run.advance();
      endTimes.push(performance.now());
      if (endTimes.length > RATED) endTimes.shift();
      this.changed = true;
    } while (!run.finished && performance.now() < until);
    if (run.finished) this.playing = false;
  }

  /** Begin to work, if that is not under way. */
  wake() {
    if (!this.working) this.work();
  }
}

/** @param {string} button "all" or x @returns {Partial<Setting>} */
const bitsOfButton = (button) => ({ x: button === "all" ? null : Number(button), budget: null, distance: null, most: null });

/** The setting of a cut: all of a step's buckets are all of every step. @param {number} most buckets @param {Float32Array} delta @returns {Partial<Setting>} */
const cutChosen = (most, delta) => (most < bucketsOf(delta).length ? { most } : { x: null, most: null });

/** The largest change in a bucket or a bar; null if there is none. @param {string} event "bucket" or "bar" @param {any} value @param {Moved} checkpoint @param {(at: number) => boolean} isSeen */
function largestOf(event, value, { delta, quantized }, isSeen) {
  const [all, each] = [quantize(delta, Infinity), stepsOfBar(quantized)];
  const isOne = event === "bucket" ? (/** @type {number} */ i) => isIn(all.buckets[all.codes[i] - 1], value) : (/** @type {number} */ i) => delta[i] !== 0 && barOf(quantized.codes[i], each) === value;
  return largestAmong(delta, isOne, isSeen);
}

/** Whether a bucket is that of an exponent and a sign. @param {ExponentBucket | undefined} bucket @param {number[]} key */
const isIn = (bucket, [exponent, sign]) => bucket !== undefined && bucket.exponent === exponent && bucket.sign === sign;

/** The facts of all pictures of a step, by place. @param {View} view */
function picturesOf(view) {
  return {
    headline: headlineFacts(view),
    weights: weightsFacts(view, DIGITS_PLACE),
    buckets: view.checkpoint.quantized.uniform ? stepsFacts(view) : bucketsFacts(view),
    bits: bitsFacts(view),
    weight: weightFacts(view),
    loss: lossFacts(view),
    examples: examplesFacts(view),
    ...(view.dead && view.raced ? { race: raceFacts(view.raced) } : {}),
  };
}

const channel = new MessageChannel(); // a timer of 0 waits for 4 milliseconds
/** @type {() => void} */
let next = () => {};
channel.port2.onmessage = () => next();

/** Call a function after some milliseconds, or once messages have been read. @param {() => void} act @param {number} milliseconds */
function later(act, milliseconds) {
  if (milliseconds) {
    setTimeout(act, milliseconds);
  } else {
    next = act;
    channel.port1.postMessage(null);
  }
}

/** Bytes of a text in base64 that were deflated. @param {string} text */
async function inflated(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
