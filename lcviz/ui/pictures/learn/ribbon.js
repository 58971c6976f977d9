// Bits a value after each stage, to scale.

function ribbonRows(page) {
  const { state, lesson, data } = page;
  const n = lesson.numbers.length;
  const { float32, e, p, h } = lesson.bits;
  const joined = state.merges >= lesson.merges.length;
  const runs = data.runs;
  const folded = state.folded >= runs.words.length;
  const nbits = foldedBits(runs, state.folded);
  const each = nbits / runs.n;
  return [
    ["float32", 32, `${grouped(float32)} bits`, "var(--grey)"],
    ["E", e / n, `${grouped(e)} bits`, "var(--down)"],
    ["P", p / n, `${grouped(p)} bits`, "var(--table)"],
    ["H", (joined ? h : p) / n, joined ? `${grouped(h)} bits` : `${grouped(p)} bits · join the tiles`, "var(--good)"],
    ["Runs", each, `${each.toFixed(2)} bits a value, 200 other values · ${folded ? `${words(32 / each, 3)} ×, without a header` : "fold the zeros"}`, "var(--up)"],
  ];
}

function drawRibbon(page, place) {
  each(
    place,
    ribbonRows(page),
    ([name]) => name,
    () => make("div", { role: "listitem" }, make("span"), make("i"), make("b")),
    (row, [name, bits, text, fill]) => {
      const [label, bar, size] = row.children;
      label.textContent = name;
      size.textContent = text;
      set(bar, { style: `width: calc((100% - 16.5em) * ${bits / 32}); background: ${fill}` });
    },
  );
}
