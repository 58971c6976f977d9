// A checkpoint's bytes by part, its first code words, and its size with other codes.

/**
 * A coder. short, title, summary: its names, and what it does.
 * @typedef {{ name: string, short: string, title: string, summary: string }} CoderFacts
 */

/**
 * One code word, or the bits that a change has a share of.
 * @typedef {object} WordFacts
 * @property {string} bits of the word; of a share their number
 * @property {number} sign 0 up, 1 down, 2 no change
 * @property {number | null} exponent of the value's bucket
 * @property {number | null} steps of the value, in equal steps
 * @property {number} run zeros before the value
 * @property {any} weight that the word is of; null if it is not known
 * @property {[number, number] | null} pixel its place in the picture of δ, if it has one
 * @property {boolean} here whether it is the followed weight's
 */

/**
 * @typedef {object} BitsFacts
 * @property {number} nbytes of the record
 * @property {number} n values
 * @property {boolean} is_trial
 * @property {"own" | "last" | "none"} table which code table is used
 * @property {{ title: string, a_title: string } | null} shared what values share instead of code words
 * @property {{ name: string, nbytes: number, step?: string }[]} parts step: of an optimizer's moment, in words
 * @property {number} weights_nbytes
 * @property {boolean} moments
 * @property {{ bits: number | null, nbytes: number }} plain without a code; bits of each value, if all have as many
 * @property {Record<string, number>} sizes coder -> bytes; without those that are not computed yet
 * @property {number} entropy bytes
 * @property {string} coder
 * @property {CoderFacts[]} all_coders
 * @property {WordFacts[]} words the first ones
 * @property {boolean} shares whether these are shares of bits, not code words
 * @property {{ code: ValueCode, sign: number, weight: any, pixel: [number, number] | null } | null} followed if
 * it is not among them
 * @property {boolean} [from_record] whether only records are known, and no training
 */

/** @type {Record<string, [string, string]>} part -> name of its number; what it is */
const PARTS = {
  header: ["header-bytes", "Digests that find every damaged byte, the step, settings, and where each part begins. It hardly grows with the model."],
  table: ["table-bytes", "Which code word stands for what, and the level of each bucket."],
  "code words": ["payload-bytes", "The changes themselves."],
  m: ["m-bytes", "Adam's mean of the gradients: its changes in STEP, one code for all tensors."],
  v: ["v-bytes", "Adam's mean of the squared gradients: its changes in STEP. An octave doubles it."],
  exact: ["exact-bytes", "Tensors and values that are stored exactly."],
};
const SHANNON = "Shannon's bound for codes of single values. Run-length coding gets below it where zeros cluster, a context code where changes do.";

SAYS.bits = (/** @type {BitsFacts} */ facts) => {
  const { parts, all_coders: coders, coder, words, followed } = facts;
  return {
    title: "Bits",
    number: 4,
    about: facts.is_trial ? "as you try" : "on disk",
    text: bitsSentence(facts),
    parts: parts.map((part) => partData(part, facts)),
    words: [...words.map(wordData), ...(followed ? [{ ...followed, bits: followed.code.word || "0", title: codeText(followed.code), here: true, after: true }] : [])],
    words_are: !words.length ? "No bits are needed: all values are alike." : facts.shares ? "Bits of each change and the zeros before it:" : "",
    compare: compared(facts),
    coders: facts.from_record ? [] : coders.map(({ name, short }) => [name, short]),
    coder,
  };
};

/** @param {BitsFacts} facts */
function bitsSentence({ nbytes, n, table, shared, moments, weights_nbytes: weights, parts, sizes, coder, entropy }) {
  const whole = quantity("checkpoint-bytes", nbytes, nbytesText(nbytes));
  const share = (/** @type {number} */ size) => `${nbytesText(size)} (${percentText(size / nbytes)})`;
  if (moments) {
    const both = parts.reduce((sum, part) => sum + (part.step ? part.nbytes : 0), 0);
    return `${whole}: ${share(weights)} weights, ${share(both)} m and v. Code words and bars are the weights'.`;
  }
  const why = coder === "runlength" ? ", shorter here than runs" : "";
  const code = shared ? shared.a_title + why : { own: "its own code table", last: "the last code table", none: "no code table" }[table];
  const less = shared ? "What changes together takes" : "Runs of zeros take";
  const beats = coder !== "huffman" && nbytesText(sizes[coder] ?? 0) !== nbytesText(entropy) && (sizes[coder] ?? 0) < entropy ? ` ${less} less than the entropy of single values.` : "";
  return `${whole}, ${significant(n ? (8 * nbytes) / n : 0)} bits per parameter, with ${code}.${beats}`;
}

/** @param {BitsFacts["parts"][number]} part @param {BitsFacts} facts */
function partData({ name, nbytes, step = "" }, { shared, moments }) {
  const [number, title] = PARTS[name];
  let label = name === "code words" && shared ? shared.title : name;
  if (moments && ["table", "code words"].includes(name)) label = `weights: ${label}`;
  return { name, label, nbytes, text: quantity(number, nbytes, nbytesText(nbytes)), title: title.replace("STEP", step) };
}

/** The same values without a code, with each coder, and Shannon's bound. @param {BitsFacts} facts */
function compared({ plain: { bits, nbytes }, sizes, all_coders: coders, coder, entropy }) {
  /** @param {string} name @param {number} size @param {string} title @param {string} number */
  const row = (name, size, title, number = "") => ({ name, nbytes: size, here: false, title, text: number ? quantity(number, size, nbytesText(size)) : nbytesText(size) });
  return [
    row(bits === null ? "fixed bits" : `${pluralText(bits, "bit")} each`, nbytes, "Without a code: each value is the number of its slot, or 0."),
    ...coders.filter(({ name }) => name in sizes).map(({ name, title, summary }) => ({ ...row(coderText(title), sizes[name], summary, `${name}-bytes`), here: name === coder })),
    row("entropy of values", entropy, SHANNON),
  ];
}

/** @param {WordFacts} word */
function wordData({ exponent, steps, run, ...word }) {
  if (word.sign === 2) return { ...word, title: "no change" };
  const change = steps === null ? bucketText(exponent ?? 0, word.sign) : `${word.sign ? "−" : "+"}${pluralText(steps, "step")}`;
  return { ...word, title: `${run ? `${pluralText(run, "zero")}, then ` : ""}${change}` };
}
