// What pictures say: sentences that several share, and words that explain themselves.

/** @param {string} text */
const capital = (text) => text.slice(0, 1).toUpperCase() + text.slice(1);

/** A coder within a sentence. @param {string} title */
const coderText = (title) => title.toLowerCase().replace("huffman", "Huffman");

/** A ratio of sizes, in words. @param {number} ratio */
const timesText = (ratio) => ratio.toFixed(ratio >= 9.95 ? 0 : 1);

/**
 * What words mean, by these in small letters: titles of pictures, and words in their texts.
 * @type {{ titles: Record<string, object>, words: Record<string, { help: string, link?: string }> }}
 */
const GLOSSARY = { titles: {}, words: {} };

/**
 * What pictures say: kind of picture -> a function of its facts. It adds title, about, text and what else
 * is drawn. Facts without such a function are drawn as they are.
 * @type {Record<string, (facts: any) => object>}
 */
const SAYS = {};

/** What is drawn of facts. @param {any} facts with `kind`, where one module draws several kinds */
function said(facts) {
  const say = SAYS[facts.kind ?? facts.picture];
  return say ? withTerms({ ...facts, ...say(facts) }) : facts;
}

/**
 * What is drawn, with the meaning of its title and of the first of each word in its text. Numbers are
 * marked already.
 * @param {any} data
 */
function withTerms(data) {
  const forms = Object.keys(GLOSSARY.words).sort((a, b) => b.length - a.length);
  const pattern = new RegExp(`\\{\\{.*?\\}\\}|\\[\\[.*?\\]\\]|(?<![\\p{L}])(?:${forms.join("|")})(?![\\p{L}])`, "giu");
  /** @type {Record<string, object>} */
  const terms = {};
  const seen = new Set();
  const text = data.text.replace(pattern, (/** @type {string} */ match) => {
    const word = match.replace(/^\[\[|\]\]$/g, "");
    const meaning = GLOSSARY.words[word.toLowerCase()];
    if (!meaning || seen.has(meaning.help)) return match.startsWith("[[") ? word : match;
    seen.add(meaning.help);
    terms[word] = meaning;
    return `[[${word}]]`;
  });
  return { ...GLOSSARY.titles[data.title.toLowerCase()], ...data, text, terms: { ...terms, ...data.terms } };
}

/**
 * What a crash costs, estimated from the loss curve.
 * @typedef {object} Cost
 * @property {number | null} price in iterations; null if the restored model has no finite loss
 * @property {number} unsaved how many of them no checkpoint has; 0 unless the run is dead
 * @property {number} step the newest measured one, up to the step that is restored
 */

/**
 * The estimated price of a crash: what it does, its price, and what else is to say.
 * @param {Cost} cost @param {string} name of its number @param {number} [most] iterations that were trained
 */
function lostWork({ price, unsaved, step }, name, most = Infinity) {
  if (price === null) return { verb: "loses", price: "the run", more: `: the model restored from step ${step} has no finite loss` };
  if (price < 0.05) return { verb: "costs", price: quantity(name, price, "less than 0.1 iterations"), more: "" };
  const rough = Math.min(roughly(price), most);
  return { verb: "costs about", price: quantity(name, price, iterationsText(rough)), more: notSavedText(unsaved, rough) };
}

/** An estimate with the one digit that it is good for. @param {number} price */
const roughly = (price) => Number(price.toPrecision(1));

/** How many iterations of a price no checkpoint has. @param {number} unsaved @param {number} price */
const notSavedText = (unsaved, price) =>
  unsaved > 0 && unsaved < Number(price.toFixed(1)) ? `, ${unsaved} of them not saved` : "";

/** What happens to what a checkpoint leaves out. @param {boolean} carries @param {string} verb "stay" or "stays" */
const leftOut = (carries, verb = "stay") => (carries ? `${verb} in the next δ` : `${verb === "stay" ? "are" : "is"} lost`);

/** The buttons for x; the last is for equal steps at the same size. */
const KEEPS = [["1", "1"], ["2", "2"], ["3", "3"], ["4", "4"], ["all", "all"], ["steps", "equal steps"]];

/**
 * The bits that encode a value.
 * @typedef {object} ValueCode
 * @property {string} word its bits; "" if all values are alike, or where values share bits
 * @property {number} extra_bits that follow
 * @property {number | null} run zeros that the word is for; null where every value has a word of its own
 * @property {number} zero which of these zeros the value is; 0 if it is the value after them
 * @property {boolean} escaped
 * @property {string} shared what several values share instead of words of their own; "" if nothing
 */

/** @param {ValueCode | null} code */
function codeText(code) {
  if (!code) return "none: zeros at a stream's end need no bits";
  const { word, extra_bits: extra, run, zero, escaped, shared } = code;
  if (shared) return `a part of ${shared}, without a word of its own`;
  if (!word) return "none: all values have the same level";
  const text = `${word}${extra ? ` + ${pluralText(extra, "bit")}` : ""}${escaped ? ", an escape" : ""}`;
  if (run === null) return text;
  if (zero) return `${text}: zero ${zero} of a run of ${run}`;
  return run ? `${text}: ${pluralText(run, "zero")}, then it` : `${text}: no zeros before it`;
}
