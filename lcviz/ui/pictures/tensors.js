// Which tensors take the bytes: a bar each. A press shows the tensor in the picture of δ.

export default function (component) {
  const { data, setTriggerValue } = component;
  const { body } = frame(component);
  const [list] = built(body, () => [make("div", { class: "tensors" }), make("style", {}, STYLE)]);
  const most = Math.max(...data.rows.map((row) => row.size), 1);
  each(
    list,
    data.rows,
    () => make("button", { type: "button" }, make("span"), make("i"), make("b")),
    (row, { name, size, text, title }) => {
      const [label, bar, told] = row.children;
      label.textContent = name;
      set(bar, { style: `--share: ${size / most}` });
      told.textContent = text;
      set(row, { title: `${name}: ${title}` });
      row.onclick = () => setTriggerValue("tensor", name);
    },
    ({ name }) => name,
  );
}
