// Held-out examples, and what the live and the restored model make of them.

/**
 * @typedef {object} ExamplesFacts
 * @property {"images" | "text" | "ratings"} of what they are
 * @property {{ truth: number, live: number, restored: number, pixels?: string, user?: number, item?: number }[]} shown
 * classes, bytes or ratings; pixels: base64 of side * side bytes
 * @property {number | null} live accuracy of the live model on all held-out examples, of ratings the root mean
 * square error; null if not measured
 * @property {number | null} restored likewise
 * @property {number} side of the images in pixels; 0 if there are none
 * @property {boolean} is_trial whether the restored model is saved as a visitor tries
 */

SAYS.examples = (/** @type {ExamplesFacts} */ facts) => {
  const { of, shown, is_trial: isTrial, side } = facts;
  const below = isTrial ? "your try" : "restored";
  const named = { images: String, text: byteText, ratings: (/** @type {number | null} */ rating) => (rating === null ? "not finite" : rating.toFixed(1).replace("-", "−")) }[of];
  const examples = shown.map(({ truth, live, restored, pixels = null, user, item }) => {
    const [liveText, restoredText] = [named(live), named(restored)];
    const rating = significant(truth, 6).replace("-", "−");
    return {
      name: { images: `a ${truth}`, text: byteText(truth), ratings: rating }[of],
      pixels,
      live: liveText,
      restored: restoredText,
      live_wrong: of !== "ratings" && live !== truth,
      restored_wrong: of !== "ratings" && restored !== truth,
      differ: liveText !== restoredText,
      title: of === "ratings" ? `User ${user}, item ${item}: given ${rating}.` : `Class ${named(truth)}; live ${liveText}, restored ${restoredText}.`,
    };
  });
  const [differ, wrong] = [examples.filter((one) => one.differ).length, examples.filter((one) => one.live_wrong).length];
  const crossed = wrong ? ` Crossed out: ${wrong} that the live model gets wrong.` : "";
  const scores = [scoreData(of, "live", "live", facts.live), scoreData(of, isTrial ? "whole-run" : "restored", below, facts.restored)];
  return {
    title: of === "ratings" ? "Guesses" : "Reads",
    number: 3,
    about: { images: "held-out examples", text: "held-out text, byte by byte", ratings: "held-out ratings" }[of],
    text: `Live above, ${below} below: ${differ || "none"} of ${shown.length} differ.${crossed}`,
    examples,
    scores: scores.filter((score) => score !== null),
    side,
    letters: of === "text",
    rows: side ? [] : [of === "text" ? "text" : "given", "live", below],
  };
};

/** @param {ExamplesFacts["of"]} of @param {string} whose @param {string} name @param {number | null} metric */
function scoreData(of, whose, name, metric) {
  if (metric === null) return null;
  if (of === "ratings") return { name: `RMSE ${name}`, text: quantity(`${whose}-rmse`, metric, metric.toFixed(2)) };
  return { name, text: quantity(`${whose}-accuracy`, metric, percentText(metric)) };
}

/** A byte as one visible character. @param {number} byte */
function byteText(byte) {
  const symbol = { 9: "⇥", 10: "↵", 32: "␣" }[byte];
  return symbol ?? (byte > 32 && byte < 127 ? String.fromCharCode(byte) : "·");
}
