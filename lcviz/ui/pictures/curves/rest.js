// What each step of a series leaves: of its change, and of all that was trained.

const FAR = 0.35; // behind: from here on a restart is of little use, as codec.scheme.remainder

/**
 * @typedef {object} RestFacts
 * @property {number} step that the other pictures show
 * @property {string} name of its file
 * @property {[number, number, number][]} rests step, share of its change, share of all trained since the
 * first file
 * @property {number} last step
 */

SAYS.rest = (/** @type {RestFacts} */ { step, name, rests, last }) => {
  const [, distance, behind] = rests[step - 1];
  const verdict = behind > FAR ? ` From ${percentText(FAR)} on a restart is of little use.` : "";
  return {
    title: "Distance",
    number: 5,
    about: "what each file leaves, in %",
    text: `${name}: ${percentText(distance)} of its change is left out. A restart is ${percentText(behind)} of all that was trained since the first file behind.${verdict}`,
    lines: [
      lineOf("of the change", "other", rests.map(([at, share]) => [at, 100 * share])),
      lineOf("of all trained", "restored", rests.map(([at, , share]) => [at, 100 * share])),
    ],
    marks: [{ step, text: `file ${step + 1}`, strong: false }],
    range: [0, last],
    log: false,
    ...OVER_STEPS,
    unit: "step",
  };
};
