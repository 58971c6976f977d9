// Where the bytes of a checkpoint are, its first code words, and what other codes would take.

/** How dark each part is drawn, in %. */
const DEPTHS = { header: 25, table: 45, "code words": 100, m: 80, v: 65, exact: 35 };
const depth = (name) => `background: color-mix(in srgb, var(--kept) ${DEPTHS[name]}%, var(--paper))`;

export default function (component) {
  const { data, setTriggerValue } = component;
  const { controls, body } = frame(component);
  if (data.coders.length)
    choices(controls, "Coder", data.coders, data.coder, (coder) => setTriggerValue("coder", coder));
  const [parts, legend, words, compare] = built(body, () => [
    make("div", { class: "parts", role: "presentation" }),
    make("div", { class: "legend" }),
    make("div", { class: "words" }, make("span", { class: "about" }), make("span", { class: "row mono" })),
    make("div", { class: "compare" }),
    make("style", {}, STYLE),
  ]);
  const present = data.parts.filter((part) => part.nbytes > 0);
  const total = present.reduce((sum, part) => sum + part.nbytes, 0) || 1;
  const nameOf = ({ name }) => name;
  each(
    parts,
    present,
    () => make("span"),
    (bar, { name, label, nbytes, text }) => set(bar, { style: `flex: ${nbytes / total}; ${depth(name)}`, title: plain(`${label}: ${text}`) }),
    nameOf,
  );
  each(
    legend,
    present,
    () => make("span", {}, make("i"), make("span")),
    (item, { name, label, text, title }) => {
      set(item.children[0], { style: depth(name) });
      write(item.children[1], `${label} ${text}`);
      set(item, { title });
    },
    nameOf,
  );
  const [about, row] = words.children;
  about.textContent = data.words_are;
  each(
    row,
    data.words,
    () => make("span"),
    (span, word) => {
      span.textContent = word.bits;
      set(span, { class: `${["up", "down", "none"][word.sign]} ${word.here ? "here" : ""} ${word.after ? "after" : ""}` });
    },
  );
  answering(body, row, data.words, {
    say: (word) => [word.title],
    use: (word) => word.weight !== null && setTriggerValue("word", word.weight),
    point: (word) => pointAt(word && { pixel: word.pixel }),
  });
  onPointing(body, ({ pixel }) => {
    for (const [i, span] of [...row.children].entries())
      span.classList.toggle("pointed", Boolean(pixel) && String(data.words[i]?.pixel) === String(pixel));
  });
  const most = Math.max(...data.compare.map((one) => one.nbytes), 1);
  each(
    compare,
    data.compare,
    () => make("div", {}, make("span"), make("span", { class: "bar" }, make("i")), make("b")),
    (row, { name, nbytes, text, title, here }) => {
      const [label, bar, size] = row.children;
      label.textContent = name;
      set(bar.firstChild, { style: `width: ${(100 * nbytes) / most}%; background: var(${here ? "--kept" : "--other"})` });
      write(size, text);
      set(row, { title, class: here ? "here" : null });
    },
    nameOf,
  );
}
