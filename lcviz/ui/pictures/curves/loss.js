// The loss over the run: of the live model, and of the model that a restart would load.

const CURVE_HEIGHT = 118; // CSS pixels
const FLAT = 8; // largest over smallest loss: above this a linear axis shows a flat end, so it is log
const NEAR = 0.15; // share of the axis: the texts of closer marks are drawn at different heights

/**
 * @typedef {object} LossFacts
 * @property {number} step that the other pictures show
 * @property {number} last the axis ends here or later
 * @property {[number, number | null, number | null][]} losses step, rising, live and restored; null if not
 * finite
 * @property {[number, number | null][] | null} trial step and restored loss if the whole run were saved as a
 * visitor tries
 * @property {number[]} kills iterations
 */

SAYS.loss = (/** @type {LossFacts} */ { step, last, losses, trial, kills }) => {
  const columns = /** @type {(i: 1 | 2) => (number | null)[]} */ ((i) => losses.map((row) => row[i]));
  const steps = losses.map(([at]) => at);
  const lines = [
    { name: "live", colour: "down", dash: "solid", x: steps, y: columns(1) },
    { name: "restored", colour: "up", dash: "dash", x: steps, y: columns(2) },
  ];
  if (trial?.length) lines.push({ name: "your try", colour: "good", dash: "solid", x: trial.map(([at]) => at), y: trial.map(([, loss]) => loss) });
  const finite = /** @type {number[]} */ (lines.flatMap(({ y }) => y).filter((loss) => loss !== null));
  const [least, most] = [Math.min(...finite), Math.max(...finite)];
  const end = Math.max(last, step, ...steps, ...kills, 1);
  const marks = kills.map((kill) => {
    const above = Math.abs(kill - step) < NEAR * end;
    return { step: kill, text: above ? "killed" : `killed at ${kill}`, strong: true, above };
  });
  return {
    title: "Loss",
    number: 5,
    about: "held out · live and restored",
    text: lossSentence({ step, losses, trial }),
    lines,
    marks: [{ step, text: `step ${step}`, strong: false }, ...marks],
    range: [0, end],
    log: finite.length > 0 && least > 0 && most > FLAT * least,
    unit: "step",
    height: CURVE_HEIGHT,
    clickable: true,
  };
};

/** The losses of the step shown, or of the last one before it that was measured. @param {Pick<LossFacts, "step" | "losses" | "trial">} facts */
function lossSentence({ step, losses, trial }) {
  /** @template {any[]} R @param {R[]} rows */
  const before = (rows) => rows.findLast(([at]) => at <= step) ?? rows[0];
  const [at, live, restored] = before(losses);
  const text = `At step ${at}: live ${namedLoss("live", live)}, restored ${namedLoss("restored", restored)}${gapText(live, restored)}.`;
  if (!trial?.length) return text;
  const [triedAt, tried] = before(trial);
  return `${text} Saved as you try: restored ${namedLoss("whole-run", tried)} at step ${triedAt}.`;
}

/** @param {string} whose @param {number | null} loss */
const namedLoss = (whose, loss) => (loss === null ? "not finite" : quantity(`${whose}-loss`, loss, shortLossText(loss)));

/** The gap in percent of the live loss. @param {number | null} live @param {number | null} restored */
function gapText(live, restored) {
  if (live === null || restored === null || live <= 0) return "";
  return `, ${percentText(Math.abs(restored / live - 1))} ${restored >= live ? "above" : "below"}`;
}
