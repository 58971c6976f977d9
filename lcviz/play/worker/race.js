// The race back after a crash: what it costs with each method, as lcviz.lab.recovery.

const CAP = 100; // iterations after the crash in which a method must be back
const SMOOTH = 5; // the trend of a loss is its mean over so many iterations before and after
const BEFORE = 30; // iterations before the crash that are drawn
const NEGLIGIBLE = 0.01; // of what an iteration gains, on average

/**
 * What a crash costs with one method.
 * @typedef {object} Outcome
 * @property {string} name
 * @property {number} nbytes of a checkpoint, on average
 * @property {number} rework the price in iterations; if capped, those that were trained
 * @property {boolean} capped whether the loss was never back
 * @property {number[]} onTrend the smoothed loss, from the checkpoint on
 */

/**
 * @typedef {object} Raced
 * @property {number} failAt the iteration of the crash
 * @property {number} since iterations since the newest checkpoint
 * @property {number[]} before the trend up to the crash
 * @property {number[]} trend of the training that did not crash, from the crash on
 * @property {Outcome[]} outcomes full, SCAR, TOPN, LC
 * @property {number | null} [estimate] of LC's price, before the race
 */

/** The mean of each loss and up to w before and after it; without the last w. @param {number[]} losses */
function smoothed(losses, w = SMOOTH) {
  return losses.slice(0, losses.length - w).map((_, t) => {
    const part = losses.slice(Math.max(t - w, 0), t + w + 1);
    return part.reduce((sum, loss) => sum + loss, 0) / part.length;
  });
}

/**
 * After how many iterations trend + excess is at or below the trend's first value, linear in between;
 * null if never.
 * @param {number[]} trend loss of the undisturbed training, from the crash on
 * @param {number[]} excess of the restored training, at the same iterations or fewer
 */
function crossing(trend, excess) {
  const fall = trend.length > 1 ? (trend[0] - trend[trend.length - 1]) / (trend.length - 1) : 0;
  const gaps = excess.map((more, i) => Math.min(trend[i] + more - trend[0], more <= NEGLIGIBLE * fall ? 0 : Infinity));
  let last = NaN;
  for (let r = 0; r < gaps.length; r++) {
    const rises = r === 0 && gaps[1] > 0;
    if (gaps[r] <= 0 && !rises) return r === 0 || !Number.isFinite(last) ? r : r - 1 + last / (last - gaps[r]);
    last = gaps[r];
  }
  return null;
}

/**
 * Race back from a crash of a run now: full, SCAR and TOPN saved the same states; SCAR and TOPN with
 * the bytes that LC took.
 * @param {Run} run
 * @returns {Raced}
 */
function raceBack(run) {
  const [{ data, iteration: failAt, newest, states }, chain] = [run, run.shown];
  const since = failAt - newest;
  const nbytes = chain.checkpoints.reduce((sum, saved) => sum + saved.nbytes, 0) / chain.checkpoints.length;
  const fits = Math.floor(Math.min(nbytes, 4 * N)) - run.sizes.rival;
  const [scar, topn] = [PIXEL_BLOCKS, SINGLE_BLOCKS].map((blocks) => new Prioritized(run.base, blocks, fits));
  const spent = [0, 0];
  for (const { weights } of states) {
    [scar, topn].forEach((rival, i) => {
      rival.step(weights);
      spent[i] += (rival.spent + run.sizes.rival) / states.length;
    });
  }
  const restored = [
    { name: "full", nbytes: run.sizes.full, weights: states[states.length - 1].weights },
    { name: "SCAR", nbytes: spent[0], weights: scar.track },
    { name: "TOPN", nbytes: spent[1], weights: topn.track },
    { name: "LC", nbytes, weights: chain.checkpoints[chain.checkpoints.length - 1].after },
  ];
  const firstLoss = Math.max(failAt - BEFORE - SMOOTH, 0);
  const training = new Training(data.train, run.seed);
  const loss = () => measure(training.parameters, data.heldOut, PROBE).loss;
  // Its losses before the crash; then on without a crash.
  const recent = run.recent.filter(({ iteration }) => iteration >= firstLoss);
  const losses = recent.map(({ weights }) => measure(weights, data.heldOut, PROBE).loss);
  training.parameters.set(run.training.parameters);
  for (let t = failAt + 1; t <= failAt + CAP + SMOOTH; t++) {
    training.iterate(t);
    losses.push(loss());
  }
  const trend = smoothed(losses);
  const at = failAt - recent[0].iteration; // the crash, among the losses; after a restart there are fewer
  const drawn = Math.min(BEFORE, at);
  const undisturbed = losses.slice(at);
  const outcomes = restored.map(({ name, nbytes: size, weights }) => {
    training.parameters.set(weights);
    const own = [loss()];
    /** @type {number | null} */
    let back = null;
    const isBack = () => own.length > since + 1 && (back = crossing(trend.slice(at), own.slice(since).map((value, i) => value - undisturbed[i]))) !== null;
    while (own.length <= since + CAP && !isBack()) {
      training.iterate(newest + own.length);
      own.push(loss());
    }
    isBack();
    const onTrend = own.map((value, i) => trend[at - since + i] + value - losses[at - since + i]);
    return { name, nbytes: size, rework: back === null ? own.length - 1 : since + back, capped: back === null, onTrend };
  });
  return { failAt, since, before: trend.slice(at - drawn, at + 1), trend: trend.slice(at), outcomes };
}
