// The loss over the run, as lcviz.live.loss_picture; and held-out digits, as lcviz.live.examples_picture.

const FLAT = 8; // largest over smallest loss: above this the axis is logarithmic
const NEAR = 0.15; // share of the axis: the texts of closer marks are drawn at different heights
const EXAMPLES = 10;

/** @param {View} view */
function lossPicture({ run, checkpoint, isTrial }) {
  const steps = [0, ...run.own.checkpoints.map(({ step }) => step)];
  const live = run.live.map(({ loss }) => loss);
  const restored = [live[0], ...run.own.checkpoints.map((saved) => saved.restored.loss)];
  const trial = (run.trial?.checkpoints ?? []).map((saved) => ({ step: saved.step, loss: saved.restored.loss }));
  /** @param {string} name @param {string} colour @param {string} dash @param {number[]} x @param {number[]} losses */
  const line = (name, colour, dash, x, losses) => ({ name, colour, dash, x, y: losses.map((loss) => (Number.isFinite(loss) ? loss : null)) });
  const lines = [line("live", "down", "solid", steps, live), line("restored", "up", "dash", steps, restored)];
  if (trial.length) lines.push(line("your try", "good", "solid", trial.map(({ step }) => step), trial.map(({ loss }) => loss)));
  const finite = lines.flatMap(({ y }) => y).filter((loss) => loss !== null);
  const { step } = checkpoint;
  /** @type {{ step: number, text: string, strong: boolean, above?: boolean }[]} */
  const marks = [{ step, text: `step ${step}`, strong: false }];
  for (const kill of run.kills) {
    const near = Math.abs(kill - step) < NEAR * LAST;
    marks.push({ step: kill, text: near ? "killed" : `killed at ${kill}`, strong: true, above: near });
  }
  const at = steps.indexOf(step);
  let text = `At step ${step}: live ${lossOf("live", live[at])}, restored ${lossOf("restored", restored[at])}${gapText(live[at], restored[at])}.`;
  const tried = trial.find((one) => one.step === step);
  if (run.trial && tried) {
    text += ` Saved as you try: restored ${lossOf("whole-run", tried.loss)} at step ${step}`;
    text += isTrial && trial.length === run.states.length ? `; a crash now ${lostWorkText(run, run.trial, "whole-run-crash-cost")}.` : ".";
  }
  return pictureData("curves", "Loss", "held out · live and restored", text, {
    lines,
    marks,
    range: [0, LAST],
    log: Math.min(...finite) > 0 && Math.max(...finite) > FLAT * Math.min(...finite),
    unit: "step",
    height: CURVE_HEIGHT,
    clickable: true,
  }, 4);
}

/** @param {string} whose @param {number} loss */
const lossOf = (whose, loss) => quantity(`${whose}-loss`, loss, shortLossText(loss));

/** The gap in percent of the live loss. @param {number} live @param {number} restored */
function gapText(live, restored) {
  if (!Number.isFinite(restored) || !Number.isFinite(live) || live <= 0) return "";
  return `, ${percentText(Math.abs(restored / live - 1))} ${restored >= live ? "above" : "below"}`;
}

/** Held-out digits, and what both models read. @param {View} view */
function examplesPicture({ run, checkpoint, isTrial }) {
  const { heldOut } = run.data;
  const [live, restored] = [checkpoint.live, checkpoint.after].map((weights) => predict(weights, heldOut, EXAMPLES));
  const measured = run.live[checkpoint.step / INTERVAL];
  const below = isTrial ? "your try" : "restored";
  const examples = live.map((guess, i) => {
    const truth = heldOut.classes[i];
    return {
      name: `a ${truth}`,
      pixels: imageOf(heldOut, i),
      live: String(guess),
      restored: String(restored[i]),
      live_wrong: guess !== truth,
      restored_wrong: restored[i] !== truth,
      differ: guess !== restored[i],
      title: `Class ${truth}; live ${guess}, restored ${restored[i]}.`,
    };
  });
  const differ = examples.filter((example) => example.differ).length;
  const wrong = examples.filter((example) => example.live_wrong).length;
  const crossed = wrong ? ` Crossed out: ${wrong} that the live model gets wrong.` : "";
  /** @param {string} whose @param {string} name @param {number} accuracy */
  const score = (whose, name, accuracy) => ({ name, text: quantity(`${whose}-accuracy`, accuracy, percentText(accuracy)) });
  return pictureData("examples", "Reads", "held-out examples", `Live above, ${below} below: ${differ || "none"} of ${EXAMPLES} differ.${crossed}`, {
    examples,
    scores: [score("live", "live", measured.accuracy), score(isTrial ? "whole-run" : "restored", below, checkpoint.restored.accuracy)],
    side: SIDE,
    letters: false,
    rows: [],
  }, 5);
}

/** @type {Map<number, string>} the images that were drawn */
const IMAGES = new Map();

/** The pixels of a held-out digit, 28 x 28, as base64. @param {Digits} heldOut @param {number} i */
function imageOf({ pixels }, i) {
  const drawn = IMAGES.get(i);
  if (drawn) return drawn;
  const image = new Float64Array(PIXELS);
  enlarge(pixels.subarray(i * SOURCE_PIXELS, (i + 1) * SOURCE_PIXELS), image);
  const text = base64(Uint8Array.from(image, (value) => Math.round(255 * value)));
  IMAGES.set(i, text);
  return text;
}
