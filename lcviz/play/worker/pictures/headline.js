// The top of the page: how small the checkpoint is, and what a crash would cost, as lcviz.live.headline.

const SMOOTHED = 5; // checkpoints whose mean loss gives the price of a crash
const CODER_NAMES = { runlength: "run-length Huffman", huffman: "Huffman (paper)" };

/** @type {Record<string, string>} title of a picture, in small letters -> what it means */
const TITLE_HELP = {};
/** @type {Record<string, string>} word that texts explain, in small letters -> what it means */
const WORD_HELP = {};

/**
 * A text with the first of each word marked, and what those mean. Numbers are marked already.
 * @param {string} text
 */
function withTerms(text) {
  const forms = Object.keys(WORD_HELP).sort((a, b) => b.length - a.length);
  /** @type {Record<string, { help: string }>} */
  const terms = {};
  const seen = new Set();
  const pattern = new RegExp(`\\{\\{.*?\\}\\}|\\[\\[.*?\\]\\]|(?<![\\p{L}])(?:${forms.join("|")})(?![\\p{L}])`, "giu");
  const result = text.replace(pattern, (match) => {
    const word = match.replace(/^\[\[|\]\]$/g, "");
    const help = WORD_HELP[word.toLowerCase()] ?? "";
    if (help === "" || seen.has(help)) return match.startsWith("[[") ? word : match;
    seen.add(help);
    terms[word] = { help };
    return `[[${word}]]`;
  });
  return { text: result, terms };
}

/** A picture's data: what it is about, its text, and the rest. @param {string} name @param {string} title @param {string} about @param {string} text @param {object} values @param {number | null} number */
function pictureData(name, title, about, text, values, number = null) {
  const help = TITLE_HELP[title.toLowerCase()];
  return { picture: name, title, about, number, ...(help ? { help } : {}), ...withTerms(text), ...values };
}

/** @param {View} view */
function headlinePicture(view) {
  const { run, checkpoint, isTrial } = view;
  const [full, nbytes] = [4 * N, checkpoint.nbytes];
  const times = timesText(full / nbytes);
  const past = view.chain.checkpoints.filter(({ step }) => step <= checkpoint.step);
  const soFar = past.reduce((sum, saved) => sum + saved.nbytes, run.sizes.base);
  const fullSoFar = full * (past.length + 1);
  let span = isTrial ? "whole run" : "run so far";
  if (checkpoint.step < run.newest) span = `up to step ${checkpoint.step}`;
  const name = isTrial ? "whole-run" : "run";
  const so_far = `${span}: ${quantity(`${name}-float32-bytes`, fullSoFar, nbytesText(fullSoFar))} → ${quantity(`${name}-bytes`, soFar, nbytesText(soFar))}, ${timesText(fullSoFar / soFar)}× smaller`;
  const crash = crashText(view);
  const sentence = `${nbytesText(full)} becomes ${nbytesText(nbytes)}, ${times} times smaller.`;
  return pictureData("headline", "Size", "", `${sentence} ${capital(so_far)}. ${capital(crash)}.`, {
    full: quantity("float32-bytes", full, nbytesText(full)),
    record: quantity("checkpoint-bytes", nbytes, nbytesText(nbytes)),
    times: `${times}× smaller`,
    share: Math.min(nbytes / full, 1),
    so_far,
    status: statusText(view),
    crash,
    kept: isTrial ? `only a try: the run has ${ownText(run.own.setting, view.setting)}` : null,
  });
}

/** @param {string} text */
const capital = (text) => text.slice(0, 1).toUpperCase() + text.slice(1);

/** A ratio of sizes, in words. @param {number} ratio */
const timesText = (ratio) => ratio.toFixed(ratio >= 9.95 ? 0 : 1);

/** What the run does, in words. @param {View} view */
function statusText({ run, playing, rate, dead }) {
  const now = `iteration ${run.iteration} of ${LAST}`;
  if (dead) return `${now}, killed`;
  if (playing) return `${now}, ${significant(rate)} per second`;
  return run.finished ? `${now}, finished` : now;
}

/** How much of a change is kept. @param {Setting} setting */
function keptText({ x, most, budget }) {
  if (budget !== null) return `budget ${percentText(budget)}`;
  if (most !== null) return pluralText(most, "slot");
  return x === null ? "all buckets" : pluralText(x, "bit");
}

/** The run's own settings where another one differs. @param {Setting} own @param {Setting} other */
function ownText(own, other) {
  const texts = [];
  if (keptText(other) !== keptText(own)) texts.push(keptText(own));
  if (other.coder !== own.coder) texts.push(CODER_NAMES[own.coder]);
  if (other.carries !== own.carries) texts.push(own.carries ? "the track" : "no track");
  return enumerated(texts);
}

/** The price of a crash: of this one, or of one now. @param {View} view */
function crashText({ run, checkpoint, dead, raced }) {
  const lc = raced?.outcomes.at(-1);
  if (dead && lc) return `this crash costs ${lc.capped ? "more than " : ""}${quantity("crash-cost", lc.rework, iterationsText(lc.rework))}`;
  const when = dead ? "this crash" : checkpoint.step === run.newest ? "a crash now" : `a crash at ${run.iteration}`;
  // A restart loads what is tried.
  return `${when} ${lostWorkText(run, dead ? run.shown : run.own, "crash-cost")}`;
}

/** What a crash now would cost in a chain, estimated from the loss curve. @param {Run} run @param {Chain} chain @param {string} name */
function lostWorkText(run, chain, name) {
  const price = estimatedPrice(run, chain);
  if (price === null) return `loses the run: the model restored from step ${run.newest} has no finite loss`;
  if (price < 0.05) return `costs ${quantity(name, price, "less than 0.1 iterations")}`;
  return `costs about ${quantity(name, price, iterationsText(price))}`;
}

/** Iterations; null if the restored model has no finite loss. @param {Run} run @param {Chain} chain */
function estimatedPrice(run, chain) {
  const steps = [0, ...chain.checkpoints.map(({ step }) => step)];
  const live = recentMeans(run.live.slice(0, steps.length).map(({ loss }) => loss));
  const restored = recentMeans([run.live[0].loss, ...chain.checkpoints.map((saved) => saved.restored.loss)]);
  const behind = iterationsBehind(steps, live, restored[restored.length - 1]);
  return behind === null ? null : behind + run.iteration - run.newest;
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
