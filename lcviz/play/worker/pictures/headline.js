// The facts of the top of the page: how small the checkpoint is, and what a crash would cost.

const SMOOTHED = 5; // checkpoints whose mean loss gives the price of a crash

/** @param {View} view @returns {HeadlineFacts & { picture: string }} */
function headlineFacts({ run, checkpoint, chain, isTrial, playing, rate, dead, raced, setting, coders }) {
  const past = chain.checkpoints.filter(({ step }) => step <= checkpoint.step);
  const lc = raced?.outcomes.at(-1);
  const loaded = dead || isTrial ? run.shown : run.own; // a restart loads what is tried
  const step = dead ? run.newest : checkpoint.step; // of what a restart loads
  return {
    picture: "headline",
    step: checkpoint.step,
    full: 4 * N,
    nbytes: checkpoint.nbytes,
    kinds: [],
    so_far: {
      full: 4 * N * (past.length + 1),
      nbytes: past.reduce((sum, saved) => sum + saved.nbytes, run.sizes.base),
      newest: run.newest,
    },
    status: {
      iteration: run.iteration,
      last: LAST,
      rate: playing ? rate : null,
      end: dead ? "killed" : run.finished && !playing ? "finished" : "",
    },
    crash: {
      cost: loaded.at(step) ? crashCost(run, loaded, step, dead) : null,
      when: dead ? "dead" : checkpoint.step === run.newest ? "now" : "then",
      raced: dead && lc ? { rework: lc.rework, capped: lc.capped } : null,
    },
    reads: { of: "classes", live: run.live[checkpoint.step / INTERVAL].accuracy, restored: checkpoint.restored.accuracy },
    own: isTrial ? keptSetting(run.own.setting, coders) : null,
    tried: isTrial ? keptSetting(setting, coders) : null,
  };
}

/** @param {Setting} setting @param {CoderFacts[]} coders @returns {KeptSetting} */
function keptSetting({ x, most, budget, coder, carries }, coders) {
  let kept = x === null ? "all buckets" : pluralText(x, "bit");
  if (most !== null) kept = pluralText(most, "slot");
  if (budget !== null) kept = `budget ${percentText(budget)}`;
  return { kept, coder: coders.find(({ name }) => name === coder)?.title ?? coder, scope: "model", carries };
}

/** What a crash would cost that restarts from a step. @param {Run} run @param {Chain} chain @param {number} step @param {boolean} dead @returns {Cost} */
const crashCost = (run, chain, step, dead) => ({ price: estimatedPrice(run, chain, step), unsaved: dead ? run.iteration - run.newest : 0, step });

/** Iterations; null if the restored model has no finite loss. @param {Run} run @param {Chain} chain @param {number} step that is restored */
function estimatedPrice(run, chain, step) {
  const past = chain.checkpoints.filter((saved) => saved.step <= step);
  const steps = [0, ...past.map((saved) => saved.step)];
  const live = recentMeans(run.live.slice(0, steps.length).map(({ loss }) => loss));
  const restored = recentMeans([run.live[0].loss, ...past.map((saved) => saved.restored.loss)]);
  const behind = iterationsBehind(steps, live, restored[restored.length - 1]);
  // At the newest, what came after it is lost, too.
  return behind === null ? null : behind + (step === run.newest ? run.iteration - step : 0);
}

/** The mean of each value and up to SMOOTHED - 1 before it, finite ones only. @param {number[]} values */
function recentMeans(values) {
  return values.map((_, i) => {
    const finite = values.slice(Math.max(i - SMOOTHED + 1, 0), i + 1).filter(Number.isFinite);
    return finite.length ? finite.reduce((sum, value) => sum + value, 0) / finite.length : NaN;
  });
}

/**
 * How many iterations a restored model is behind: those since the live curve, straight between steps,
 * was last at its loss; null if that is not finite.
 * @param {number[]} steps rising
 * @param {number[]} live losses
 * @param {number} restored
 */
function iterationsBehind(steps, live, restored) {
  if (!Number.isFinite(restored)) return null;
  const last = steps[steps.length - 1];
  for (let i = steps.length - 1; i >= 0; i--) {
    if (live[i] < restored) continue;
    if (i === steps.length - 1 || live[i] === restored) return last - steps[i];
    const share = (live[i] - restored) / (live[i] - live[i + 1]);
    return last - steps[i] - share * (steps[i + 1] - steps[i]);
  }
  return last;
}
