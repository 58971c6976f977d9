// How small the checkpoint is, to scale, and what a crash would cost.

export default function (component) {
  const { data, setTriggerValue, parentElement } = component;
  let figure = parentElement.querySelector("figure");
  if (!figure) {
    figure = make(
      "figure",
      { "data-picture": data.picture, role: "group" },
      make("span", { class: "blocks" }),
      make(
        "span",
        { class: "shares" },
        make("span", { class: "said" }, make("span"), make("span", {}, make("span"), make("button", { type: "button" }, "Back"))),
        make("span", { class: "bar", title: "Above the model in float32, below this checkpoint" }, make("i"), make("i")),
        make("small"),
      ),
      make("span", { class: "blocks smaller" }),
      make("span", { class: "blocks lost" }),
      make("span", { class: "apart" }),
      make("style", {}, STYLE),
    );
    parentElement.append(figure);
  }
  const [full, shares, smaller, consequences, apart] = figure.children;
  const [said, bar, sofar] = shares.children;
  const [status, { children: [tried, back] }] = said.children;
  blocks(full, data.sizes.slice(0, 1));
  blocks(smaller, data.sizes.slice(1));
  blocks(consequences, data.consequences);
  write(sofar, data.so_far);
  each(
    apart,
    data.apart,
    () => make("span"),
    (line, [name, text]) => (line.textContent = `${name} ${text}`),
  );
  status.textContent = data.status;
  write(tried, data.kept ?? "");
  set(tried, { title: data.kept }); // a long one is cut
  set(bar.lastChild, { style: `width: max(3px, ${100 * data.share}%)` });
  set(status, { hidden: Boolean(data.kept) }); // what is tried takes its place: nothing moves
  set(back.parentElement, { hidden: !data.kept });
  back.onclick = () => setTriggerValue("back", true);
  announce(figure, data.text);
}

/** Numbers, each above what it is. */
function blocks(place, all) {
  each(
    place,
    all,
    () => make("span", {}, make("b"), make("small")),
    (block, { value, label }) => {
      write(block.children[0], value);
      block.children[1].textContent = label;
      set(block.children[1], { title: label }); // a long one is cut
    },
  );
}
