// The loss over the run: of the live model, and of the model that a restart would load.

const OVER_STEPS = { unit: "step", height: 118, clickable: true }; // height: CSS pixels
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

/** A line through points. @param {string} name @param {string} colour @param {[number, number | null][]} points */
const lineOf = (name, colour, points, dash = "solid") => ({ name, colour, dash, x: points.map(([at]) => at), y: points.map(([, value]) => value) });

SAYS.loss = (/** @type {LossFacts} */ { step, last, losses, trial, kills }) => {
  const lines = [
    lineOf("live", "live", losses.map(([at, live]) => [at, live])),
    lineOf("restored", "restored", losses.map(([at, , restored]) => [at, restored]), "dash"),
  ];
  if (trial?.length) lines.push(lineOf("your try", "restored", trial, "dot"));
  const finite = lines.flatMap(({ y }) => y).filter((loss) => loss !== null);
  const [least, most] = [Math.min(...finite), Math.max(...finite)];
  const end = Math.max(last, step, ...losses.map(([at]) => at), ...kills, 1);
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
    ...OVER_STEPS,
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
