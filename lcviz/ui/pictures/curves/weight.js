// One weight over the steps of a run, and what one step does to it.

/**
 * @typedef {object} WeightFacts
 * @property {number} step
 * @property {number} last the end of the axis
 * @property {string} where tensor and place
 * @property {number} [first] the beginning of the axis, if not 0
 * @property {string} [unit] of the axis, if not "step"
 * @property {[number, number | null][]} [trained] step and u; missing where only records are known
 * @property {[number, number | null][]} restored step and ũ after it
 * @property {boolean} exact whether the step stores it as it is
 * @property {number | null} u
 * @property {number | null} track before the step
 * @property {number | null} delta
 * @property {number | null} coded what δ becomes
 * @property {[number, number] | null} bucket exponent and sign; null if nothing changes
 * @property {ValueCode | null} code null at a stream's end, where zeros need no bits
 * @property {boolean} [carries] missing where only records are known
 * @property {boolean} [from_record] whether only records are known, and no training
 */

SAYS.weight = (/** @type {WeightFacts} */ facts) => ({
  title: "One weight",
  about: facts.where,
  text: weightSentence(facts),
  lines: [...(facts.trained ? [lineOf("u trained", "live", facts.trained)] : []), { ...lineOf("ũ restored", "restored", facts.restored), stairs: true }],
  marks: [{ step: facts.step, text: `${facts.unit ?? "step"} ${facts.step}`, strong: false }],
  range: [facts.first ?? 0, facts.last],
  log: false,
  ...OVER_STEPS,
  unit: facts.unit ?? "step",
});

/** @param {WeightFacts} facts */
function weightSentence({ step, exact, u, track, delta, coded, bucket, code, carries, from_record: fromRecord }) {
  if (fromRecord && exact) return "Stored exactly in this step.";
  if (fromRecord) return `ũ ${coded ? `moves by ${numberText(coded, "+")}` : "stays"}. Code: ${codeText(code)}.`;
  if (exact) return `Stored exactly in step ${step}: ${numberText(u)}.`;
  const before = (track ?? 0) < 0 ? `(${numberText(track)})` : numberText(track); // so that no two signs meet
  const change = carries ? `δ = u − ũ = ${numberText(u)} − ${before} = ${numberText(delta, "+")}` : `Changed by ${numberText(delta, "+")} since the last checkpoint`;
  const levelText = coded ? numberText(coded, "+") : `0: ${carries ? "it stays in the next δ" : "it is lost"}`;
  return `${change}, bucket ${bucket ? bucketText(...bucket) : "none: δ is 0"}, level ${levelText}. Code: ${codeText(code)}.`;
}
