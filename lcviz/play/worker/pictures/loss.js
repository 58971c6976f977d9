// The facts of the loss over the run, and of held-out digits.

const EXAMPLES = 10;

/** @param {View} view @returns {LossFacts & { picture: string, kind: string }} */
function lossFacts({ run, checkpoint }) {
  const { live, own, trial } = run;
  const all = [null, ...own.checkpoints];
  return {
    picture: "curves",
    kind: "loss",
    step: checkpoint.step,
    last: LAST,
    losses: all.map((saved, i) => [saved?.step ?? 0, finiteLoss(live[i].loss), finiteLoss(saved ? saved.restored.loss : live[0].loss)]),
    trial: trial && trial.checkpoints.map((saved) => [saved.step, finiteLoss(saved.restored.loss)]),
    kills: run.kills,
  };
}

/** @param {number} loss */
const finiteLoss = (loss) => (Number.isFinite(loss) ? loss : null);

/** Held-out digits, and what both models read. @param {View} view @returns {ExamplesFacts & { picture: string }} */
function examplesFacts({ run, checkpoint, isTrial }) {
  const { heldOut } = run.data;
  const [live, restored] = [checkpoint.live, checkpoint.after].map((weights) => predict(weights, heldOut, EXAMPLES));
  return {
    picture: "examples",
    of: "images",
    shown: live.map((guess, i) => ({ truth: heldOut.classes[i], live: guess, restored: restored[i], pixels: imageOf(heldOut, i) })),
    live: run.live[checkpoint.step / INTERVAL].accuracy,
    restored: checkpoint.restored.accuracy,
    side: SIDE,
    is_trial: isTrial,
  };
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
