// What the top of the page says.

/**
 * @typedef {object} HeadlineFacts
 * @property {number} step
 * @property {number} full bytes of the state in float32
 * @property {number} nbytes of the record
 * @property {{ kind: string, full: number, nbytes: number }[]} kinds weights, m and v, if there are moments
 * @property {{ full: number, nbytes: number, newest: number }} so_far bytes of all records up to the step;
 * the newest step
 * @property {{ iteration: number, last: number, rate: number | null, end: string } | { files: string[] } | null} status of the
 * run; of a series, two neighbours; null for a recorded chain. end: "finished", "killed", … or ""
 * @property {{ cost: Cost | null, when: "now" | "then" | "dead", raced: { rework: number, capped: boolean } | null } | null} crash
 * the cost is that of what is tried; null until it is known
 * @property {{ of: "classes" | "ratings", live: number, restored: number } | null} reads accuracy on held-out
 * examples, or the root mean square error; null if not measured
 * @property {{ distance: number, behind: number } | null} [rest] where nothing is trained here: what the step
 * leaves, as shares of its change and of all that was trained
 * @property {KeptSetting | null} own the run's own setting, if another one is tried; else both are null
 * @property {KeptSetting | null} tried
 */

/**
 * How much is kept of a change, and how it is coded.
 * @typedef {object} KeptSetting
 * @property {string} kept in words
 * @property {string} coder its title
 * @property {string} scope "model" or "tensor"
 * @property {boolean} carries
 */

SAYS.headline = (/** @type {HeadlineFacts} */ facts) => {
  const { full, nbytes, status } = facts;
  const so_far = soFarText(facts);
  const apart = apartTexts(facts);
  const kinds = apart.length ? ` ${apart.map(([name, text]) => `${name}: ${text}`).join("; ")}.` : "";
  const lost = facts.crash && crashTexts(facts.crash, facts.step, facts.tried ? "whole-run-crash-cost" : "crash-cost");
  const lostSentence = lost && `${lost.when} ${lost.verb} ${lost.price}${lost.more}`;
  const rest = restBlocks(facts);
  const crash = rest.length ? `${rest[0].value} ${rest[0].label}, ${rest[1].value} ${rest[1].label}` : facts.crash ? (lostSentence ?? "") : "what a step left out is not recorded";
  const reads = readsBlock(facts);
  const sign = { "costs about": "≈ ", "costs more than": "> " }[lost?.verb ?? ""] ?? "";
  const consequences = [reads, lost && { value: sign + capital(lost.price.replace("less than", "<")), label: `${lost.when} ${sign ? "costs" : lost.verb}${lost.more.replace(" of them", "")}` }];
  return {
    title: "Size",
    about: "",
    text: `${nbytesText(full)} becomes ${nbytesText(nbytes)}, ${timesText(full / nbytes)} times smaller.${kinds} ${capital(so_far)}.${reads ? ` ${reads.value} ${reads.label}.` : ""}${crash && ` ${capital(crash)}.`}`,
    sizes: [
      { value: quantity("float32-bytes", full, nbytesText(full)), label: "in float32" },
      { value: quantity("checkpoint-bytes", nbytes, nbytesText(nbytes)), label: "in this checkpoint" },
      { value: `${timesText(full / nbytes)} ×`, label: "smaller" },
    ],
    consequences: [...consequences.filter(Boolean), ...rest],
    share: Math.min(nbytes / full, 1),
    apart,
    so_far,
    status: !status ? `step ${facts.step}, recorded` : "files" in status ? status.files.join(" → ") : statusText(status),
    crash,
    kept: facts.own && facts.tried ? `only a try: ${ownText(facts.own, facts.tried)}` : null,
  };
};

/** @param {number} full @param {number} nbytes */
const smallerText = (full, nbytes) => `${nbytesText(full)} → ${nbytesText(nbytes)}, ${timesText(full / nbytes)}× smaller`;

/** Weights, and m and v together. @param {HeadlineFacts} facts @returns {[string, string][]} */
function apartTexts({ kinds }) {
  const [weights, ...moments] = kinds;
  if (!moments.length) return [];
  const [full, nbytes] = moments.reduce(([a, b], one) => [a + one.full, b + one.nbytes], [0, 0]);
  return [["weights", smallerText(weights.full, weights.nbytes)], ["m and v", smallerText(full, nbytes)]];
}

/** The size of all records up to the step, with the base. @param {HeadlineFacts} facts */
function soFarText({ step, so_far: { full, nbytes, newest }, tried, rest }) {
  const [name, span] = tried ? ["whole-run", "whole run"] : rest ? ["run", "whole series"] : ["run", "run so far"];
  const shown = step < newest ? (rest ? `up to file ${step + 1}` : `up to step ${step}`) : span;
  return `${shown}: ${quantity(`${name}-float32-bytes`, full, nbytesText(full))} → ${quantity(`${name}-bytes`, nbytes, nbytesText(nbytes))}, ${timesText(full / nbytes)}× smaller`;
}

/** What the run does, in words. @param {{ iteration: number, last: number, rate: number | null, end: string }} status */
function statusText({ iteration, last, rate, end }) {
  const pace = rate === null ? "" : `, ${significant(rate)} per second`;
  return `iteration ${iteration} of ${last}${pace}${end && `, ${end}`}`;
}

/** The run's own settings where a tried one differs. @param {KeptSetting} own @param {KeptSetting} tried */
function ownText(own, tried) {
  /** @type {string[]} */
  const texts = [];
  if (tried.kept !== own.kept) texts.push(own.kept);
  if (tried.coder !== own.coder) texts.push(coderText(own.coder));
  if (tried.scope !== own.scope) texts.push(own.scope === "model" ? "one code" : "a code for each tensor");
  const parts = texts.length ? [`has ${enumerated(texts)}`] : [];
  if (tried.carries !== own.carries) parts.push(`${own.carries ? "keeps" : "loses"} what is dropped`);
  return `the run ${enumerated(parts)}`;
}

/**
 * What a crash costs: when it comes, what it does, its price, and what else is to say.
 * @param {NonNullable<HeadlineFacts["crash"]>} crash @param {number} step of the picture @param {string} name of the number
 */
function crashTexts({ cost, when, raced }, step, name) {
  const which = { now: "a crash now", then: `a crash at ${step}`, dead: "this crash" }[when];
  if (raced) {
    const price = quantity(name, raced.rework, iterationsText(raced.rework));
    return { when: which, verb: raced.capped ? "costs more than" : "costs", price, more: notSavedText(cost?.unsaved ?? 0, raced.rework) };
  }
  return cost && { when: which, ...lostWork(cost, name, when === "then" ? step : Infinity) };
}

/** What a step leaves. @param {HeadlineFacts} facts */
const restBlocks = ({ rest }) =>
  rest
    ? [
        { value: quantity("distance", rest.distance, percentText(rest.distance)), label: "of this change is left out" },
        { value: quantity("behind", rest.behind, percentText(rest.behind)), label: "behind after a restart" },
      ]
    : [];

/** What a restart would make of held-out examples. @param {HeadlineFacts} facts */
function readsBlock({ reads, tried }) {
  if (!reads) return null;
  const { of, live, restored } = reads;
  const whose = tried ? "whole-run" : "restored";
  if (of === "ratings") return { value: quantity(`${whose}-rmse`, restored, restored.toFixed(2)), label: `RMSE of a restart, live ${live.toFixed(2)}` };
  return { value: quantity(`${whose}-accuracy`, restored, percentText(restored)), label: `read by a restart, live ${percentText(live)}` };
}
