// 5 Runs: two hundred values, nearly all of them 0; a run of zeros and the value after it fold
// into one word.

const COLUMNS = 40;

/** How many values so many words stand for. */
const foldedValues = (runs, folded) => (folded ? runs.words[folded - 1].at + 1 : 0);

/** Bits while so many of the words are folded; the values behind them have a word each. */
function foldedBits(runs, folded) {
  if (folded >= runs.words.length) return runs.bits;
  const before = runs.words.slice(0, folded).reduce((sum, word) => sum + word.bits, 0);
  return runs.values.slice(foldedValues(runs, folded)).reduce((sum, value) => sum + runs.lengths[value], before);
}

function drawRuns(page, body, controls) {
  const { folded } = page.state;
  const { runs } = page.data;
  const most = runs.words.length;
  const [slider, button] = built(controls, () => [range(most, { "aria-label": "Runs folded" }), act()]);
  const [svg, folds] = built(body, () => [layers(), make("div", { class: "folds" })]);
  slider.oninput = () => page.change({ folded: Number(slider.value) });
  slider.value = folded;
  set(slider, { "aria-valuetext": `${folded} of ${most}` });
  button.textContent = folded === most ? "Unfold" : "Fold";
  button.onclick = () => page.change({ folded: folded === most ? 0 : most });
  const begin = folded === most ? runs.n : foldedValues(runs, folded);
  fitted(body, (wide) =>
    drawSquares(svg, runs.values, { wide, columns: COLUMNS, gap: 1.6 }, (value, i) => ({
      fill: value ? hue(runs.signs[value]) : "var(--line)",
      opacity: i < begin ? 0.25 : 1,
    })),
  );
  each(
    folds,
    runs.words.slice(0, folded),
    () => make("span", { class: "fold" }, make("span"), make("i"), make("code")),
    (chip, { run, value, text }) => {
      const [zeros, sign, word] = chip.children;
      zeros.textContent = `${run} × 0`;
      set(sign, { style: `background: ${hue(runs.signs[value])}` });
      word.textContent = text;
    },
  );
}

function tellRuns({ state: { folded }, data: { runs } }) {
  const most = runs.words.length;
  const bits = foldedBits(runs, folded);
  const whole = `${bits} bits, ${words(bits / runs.n, 3)} a value`;
  if (folded >= most) {
    const left = runs.n - foldedValues(runs, most);
    const end = left ? ` The last ${left} zeros need no word.` : "";
    return `${whole}: below the 1 bit that a word for each value takes.${end}`;
  }
  if (folded) return `${folded} of ${most} runs folded: ${whole}.`;
  return `Runs of 0 pay in long lists: here are ${runs.n} other values, all but ${most} of them 0. With a word for each: ${whole}.`;
}

const tableRuns = ({ data: { runs } }) => [
  ["zeros", "then", "word", "bits"],
  ...runs.words.map(({ run, value, text, bits }) => [String(run), runs.signs[value] ? "−" : "+", text, String(bits)]),
];
