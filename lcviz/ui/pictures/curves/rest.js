// What each step of a series leaves: of its change, and of all that was trained.

const FAR = 0.35; // behind: from here on a restart is of little use, as codec.scheme.remainder

/**
 * @typedef {object} RestFacts
 * @property {number} step that the other pictures show, from 1 on
 * @property {string} name of its file
 * @property {[number, number][]} rests of each step: the share of its change, and of all trained since
 * the first file
 */

SAYS.rest = (/** @type {RestFacts} */ { step, name, rests }) => {
  const [distance, behind] = rests[step - 1];
  const verdict = behind > FAR ? ` From ${percentText(FAR)} on, a restart is of little use.` : "";
  return {
    title: "Left out",
    number: 5,
    about: "and how far a restart is behind, in %",
    text: `${name}: ${percentText(distance)} of δ is left out. A restart from it is behind by ${percentText(behind)} of all that was trained since the first file.${verdict}`,
    lines: [
      lineOf("left of δ", "other", rests.map(([share], i) => [i + 2, 100 * share])),
      lineOf("behind", "restored", rests.map(([, share], i) => [i + 2, 100 * share])),
    ],
    marks: [{ step: step + 1, text: `file ${step + 1}`, strong: false }],
    range: [1, rests.length + 1],
    log: false,
    ...OVER_STEPS,
    unit: "file",
  };
};
