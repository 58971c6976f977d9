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

const STYLE = `
  figure { container-type: inline-size; display: flex; align-items: center; gap: 0.3rem 1rem; min-height: 2.9rem; flex-wrap: wrap; }
  .blocks { display: flex; gap: 0.2rem 1rem; flex-wrap: wrap; }
  .blocks:empty { display: none; }
  .blocks > span { display: grid; line-height: 1.2; }
  .blocks b { font-size: 22px; white-space: nowrap; font-variant-numeric: tabular-nums; }
  .blocks small { font-size: 12px; color: var(--faint); font-variant-numeric: tabular-nums; }
  .shares { flex: 0 0 clamp(13rem, 25%, 22rem); min-width: 0; display: grid; grid-template-columns: minmax(0, 1fr); gap: 1px; line-height: 1.2; font-size: 12px; color: var(--faint); }
  .shares small { font-size: 12px; white-space: nowrap; font-variant-numeric: tabular-nums; }
  .bar { display: grid; gap: 2px; }
  .bar i { height: 4px; border-radius: 2px; background: var(--grey); }
  .bar i + i { background: var(--good); transition: width 0.3s; }
  .smaller > span { min-width: 4.2rem; }
  .lost > span { width: 10.2rem; } /* whatever they say: nothing moves */
  @container (min-width: 1100px) { .lost > span { width: 12.5rem; } }
  .lost small { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
  .smaller b { color: color-mix(in srgb, var(--good) 85%, var(--ink)); }
  .apart:empty { display: none; }
  .apart { display: grid; font-size: 12px; color: var(--faint); font-variant-numeric: tabular-nums; }
  .said { font-variant-numeric: tabular-nums; white-space: nowrap; }
  .said > span { display: flex; }
  .said span span { overflow: hidden; text-overflow: ellipsis; }
  .said button { border: 1px solid var(--orange); border-radius: 0.5rem; margin: -2px 0 -2px 0.5em; line-height: 1.1; }
  .said [hidden] { display: none; }
  @container (max-width: 420px) { .lost small { white-space: normal; } }
  @media (max-width: 700px) {
    figure { gap: 0 1rem; }
    .blocks { flex-wrap: nowrap; }
    .blocks b { font-size: 16px; }
    .blocks:first-child, .bar, .shares > small { display: none; }
    .shares { flex-basis: 100%; order: 1; margin-top: 2px; }
    .smaller > span { min-width: 0; }
    .lost { flex: 1 0 100%; }
    .lost > span { width: auto; }
  }
`;
