// Bits after each stage; the bars show those of one value, to scale.

function ribbonRows(page) {
  const { state, lesson, data } = page;
  const n = lesson.numbers.length;
  const { float32, e, p, h } = lesson.bits;
  const joined = state.merges >= lesson.merges.length;
  const runs = data.runs;
  const folded = state.folded >= runs.words.length;
  const nbits = foldedBits(runs, state.folded);
  const all = (bits) => `${groupedNumber(bits)} bits, ${words(bits / n, 3)} a value`;
  const done = folded ? `${words((32 * runs.n) / nbits, 3)} × smaller, without a header` : "fold the zeros";
  return [
    ["float32", 32, all(float32), "var(--grey)"],
    ["Exponents", e / n, all(e), "var(--blue)"],
    ["Promotion", p / n, all(p), "var(--table)"],
    ["Huffman", (joined ? h : p) / n, `${all(joined ? h : p)}${joined ? "" : " · join the tiles"}`, "var(--good)"],
    ["Runs", nbits / runs.n, `${words(nbits / runs.n, 3)} bits a value in a list of ${runs.n} · ${done}`, "var(--orange)"],
  ];
}

function drawRibbon(page, place) {
  each(
    place,
    ribbonRows(page),
    () => make("div", { role: "listitem" }, make("span"), make("i"), make("b")),
    (row, [name, bits, text, fill]) => {
      const [label, bar, size] = row.children;
      label.textContent = name;
      size.textContent = text;
      set(bar, { style: `width: calc((100% - 18.2em) * ${bits / 32}); background: ${fill}` });
    },
  );
}
