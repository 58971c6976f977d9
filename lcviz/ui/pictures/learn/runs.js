// 5 Runs: two hundred values, nearly all of them 0; a run of zeros and the value after it fold
// into one word.

const COLUMNS = 40;

/** Bits while so many of the words are folded; the values behind them have a word each. */
function foldedBits(runs, folded) {
  if (folded >= runs.words.length) return runs.bits;
  const begin = folded ? runs.words[folded - 1].at + 1 : 0;
  const before = runs.words.slice(0, folded).reduce((sum, word) => sum + word.bits, 0);
  return runs.values.slice(begin).reduce((sum, value) => sum + runs.lengths[value], before);
}

function drawRuns(page, body, controls) {
  const { state, data } = page;
  const { runs } = data;
  const most = runs.words.length;
  if (!body.children.length) {
    const slider = make("input", { type: "range", min: 0, max: most, "aria-label": "Runs folded" });
    slider.oninput = () => page.change({ folded: Number(slider.value) });
    controls.append(slider, make("button", { type: "button", class: "act" }));
    body.append(make("svg", { role: "presentation" }), make("div", { class: "folds" }));
  }
  const [slider, button] = controls.children;
  slider.value = state.folded;
  set(slider, { "aria-valuetext": `${state.folded} of ${most}` });
  button.textContent = state.folded === most ? "Unfold" : "Fold";
  button.onclick = () => page.change({ folded: state.folded === most ? 0 : most });
  const [svg, folds] = body.children;
  const begin = state.folded ? runs.words[state.folded - 1].at + 1 : 0;
  const all = state.folded === most;
  fitted(body, (wide) => {
    const step = wide / COLUMNS;
    const high = (step * runs.n) / COLUMNS;
    set(svg, { viewBox: `0 0 ${wide} ${high}`, height: high });
    each(
      svg,
      runs.values,
      (_, i) => i,
      () => make("rect", { class: "square", rx: 1.5 }),
      (rect, value, i) =>
        set(rect, {
          x: (i % COLUMNS) * step + 0.8,
          y: Math.floor(i / COLUMNS) * step + 0.8,
          width: step - 1.6,
          height: step - 1.6,
          fill: value ? hue(runs.signs[value]) : "var(--line)",
          opacity: i < begin || all ? 0.25 : 1,
        }),
    );
  });
  each(
    folds,
    runs.words.slice(0, state.folded),
    (_, i) => i,
    () => make("span", { class: "fold" }, make("span"), make("i"), make("code")),
    (chip, word) => {
      chip.children[0].textContent = `${word.run} × 0`;
      set(chip.children[1], { style: `background: ${hue(runs.signs[word.value])}` });
      chip.children[2].textContent = word.text;
    },
  );
}

function tellRuns({ state, data }) {
  const { runs } = data;
  const a = (bits) => `${bits} bits, ${words(bits / runs.n, 3)} a value`;
  if (state.folded >= runs.words.length) {
    const left = runs.n - 1 - runs.words.at(-1).at;
    const end = left ? ` The last ${left} zeros need no word.` : "";
    return `${a(runs.bits)}: below the 1 bit that a word for each value takes.${end}`;
  }
  const bits = foldedBits(runs, state.folded);
  if (state.folded) return `${state.folded} of ${runs.words.length} runs folded: ${a(bits)}.`;
  return `Runs of 0 pay in long lists: here are ${runs.n} other values, all but ${runs.words.length} of them 0. With a word for each: ${a(bits)}.`;
}

const tableRuns = ({ data }) => [
  ["zeros", "then", "word", "bits"],
  ...data.runs.words.map((word) => [String(word.run), data.runs.signs[word.value] ? "−" : "+", word.text, String(word.bits)]),
];
