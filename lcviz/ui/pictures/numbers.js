// Numbers and units as text, as lcviz.text.

/** 1234567 -> "1.23 MB". Decimal units: 1 kB is 1,000 bytes. @param {number} n */
function nbytesText(n) {
  for (const [unit, size] of /** @type {[string, number][]} */ ([["GB", 1e9], ["MB", 1e6], ["kB", 1e3]])) {
    if (n >= 0.9995 * size) {
      const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.max(1, (n / size) * 1.0005))));
      return `${groupedNumber(n / size, digits)} ${unit}`;
    }
  }
  return `${n.toFixed(0)} B`;
}

/** A loss with so many digits after the point. @param {number | null} loss */
function lossText(loss, digits = 6) {
  if (loss === null) return "not finite";
  return Math.abs(loss) < 1e4 ? loss.toFixed(digits) : significant(loss);
}

const GROUPED = [0, 1, 2].map((digits) => new Intl.NumberFormat("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits }));

/** A number with grouped thousands. @param {number} n @param {number} digits after the point, up to two */
const groupedNumber = (n, digits = 0) => GROUPED[digits].format(n); // toLocaleString would make a format for each number

/** A number rounded to so many significant digits. @param {number} n */
const significant = (n, digits = 3) => String(Number(n.toPrecision(digits)));

/** 0.0343 -> "3.43 %". @param {number} share */
function percentText(share) {
  if (!Number.isFinite(share)) return "not finite";
  const value = 100 * share;
  if (value > 0 && value < 0.01) return "< 0.01 %";
  return `${value.toFixed(value < 99.95 ? 2 : 0)} %`;
}

/** A loss with three significant digits. @param {number} loss */
function shortLossText(loss) {
  if (!Number.isFinite(loss)) return "not finite";
  return Math.abs(loss) >= 1e3 && Math.abs(loss) < 1e5 ? loss.toFixed(0) : loss.toPrecision(3);
}

const SUBNORMAL = -127; // the exponent of their bucket
const RAISED = new Map([..."-0123456789"].map((digit, i) => [digit, "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"[i]]));

/** -7 -> "2⁻⁷". @param {number} exponent */
const power = (exponent) => `2${[...String(exponent)].map((digit) => RAISED.get(digit)).join("")}`;

/** The power of two that a bucket begins at. @param {number} exponent */
const powerText = (exponent) => (exponent === SUBNORMAL ? "subnormal" : power(exponent));

/** -7 and 1 -> "−2⁻⁷". @param {number} exponent @param {number} sign */
const bucketText = (exponent, sign) => `${sign ? "−" : "+"}${powerText(exponent)}`;

/** 3, "level" -> "3 levels". @param {number} n @param {string} noun */
const pluralText = (n, noun) => `${groupedNumber(n)} ${noun}${n === 1 ? "" : "s"}`;

/** A number of iterations, to a tenth. @param {number} n */
const amountText = (n) => (n < 100 ? n.toFixed(1).replace(".0", "") : groupedNumber(n));

/** "12.1 iterations". @param {number} n */
const iterationsText = (n) => `${amountText(n)} iteration${amountText(n) === "1" ? "" : "s"}`;

/** ["a", "b", "c"] -> "a, b and c". @param {string[]} names */
const enumerated = (names) =>
  names.length > 1 ? `${names.slice(0, -1).join(", ")} and ${names[names.length - 1]}` : names[0];

/** A weight or a change with four digits and a true minus. @param {number | null} value null if it is not finite */
function numberText(value, plus = "") {
  if (value === null) return "not finite";
  if (value === 0) return "0";
  const [number, exponent] = [Math.abs(value), Math.floor(Math.log10(Math.abs(value)))];
  const small = exponent < -4 || exponent >= 4;
  const [digits, power] = number.toExponential(3).split("e");
  const text = small ? `${Number(digits)}e${exponentText(Number(power))}` : significant(number, 4);
  return `${value < 0 ? "−" : plus}${text}`;
}

/** -5 -> "−05", as Python writes it. @param {number} power */
const exponentText = (power) => `${power < 0 ? "−" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;

/** A number in a text of a picture, with its name. @param {string} name @param {number} value @param {string} text */
const quantity = (name, value, text) => `{{${name}=${value}|${text}}}`;

/** A number for a chart: null, a gap, if it is not finite. @param {number} value */
const plotted = (value, digits = 6) => (Number.isFinite(value) ? Number(value.toFixed(digits)) : null);
