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
    ["float32", 32, all(float32)],
    ["Exponents", e / n, all(e)],
    ["Promotion", p / n, all(p)],
    ["Huffman", (joined ? h : p) / n, `${all(joined ? h : p)}${joined ? "" : " · join the tiles"}`],
    ["Runs", nbits / runs.n, `${words(nbits / runs.n, 3)} bits a value in a list of ${runs.n} · ${done}`],
  ];
}

function drawRibbon(page, place) {
  const rows = ribbonRows(page);
  each(
    place,
    rows,
    () => make("div", { role: "listitem" }, make("span"), make("i"), make("b")),
    (row, [name, bits, text], i) => {
      const [label, bar, size] = row.children;
      label.textContent = name;
      size.textContent = text;
      set(bar, { style: `width: calc((100% - 18.2em) * ${bits / 32}); background: var(${i < rows.length - 1 ? "--other" : "--kept"})` });
    },
  );
}
