// How small the checkpoint is, to scale, and what a crash would cost.

export default function (component) {
  const { data, setTriggerValue, parentElement } = component;
  let figure = parentElement.querySelector("figure");
  if (!figure) {
    figure = make(
      "figure",
      { "data-picture": data.picture, role: "group" },
      make("b", { class: "full" }),
      make("span", { class: "shares" }, make("span", { class: "bar" }, make("i")), make("small")),
      make("b", { class: "record" }),
      make("b", { class: "times" }),
      make("span", { class: "apart" }),
      make("span", { class: "said" }, make("span"), make("span", {}, make("span"), make("button", { type: "button" }, "Back"))),
      make("style", {}, STYLE),
    );
    parentElement.append(figure);
  }
  const [full, shares, record, times, apart, said] = figure.children;
  const [bar, sofar] = shares.children;
  const [status, { children: [crash, back] }] = said.children;
  write(full, data.full);
  write(record, data.record);
  times.textContent = data.times;
  write(sofar, data.so_far);
  each(
    apart,
    data.apart ?? [],
    ([name]) => name,
    () => make("span"),
    (line, [name, text]) => (line.textContent = `${name} ${text}`),
  );
  status.textContent = data.status;
  write(crash, data.kept ?? data.crash); // the cost of a try stands with the loss
  set(bar.firstChild, { style: `width: max(3px, ${100 * data.share}%)` });
  set(back, { hidden: !data.kept });
  back.onclick = () => setTriggerValue("back", true);
  announce(figure, data, data.text);
}

const STYLE = `
  figure { display: flex; align-items: center; gap: 0.8rem; min-height: 2.4rem; flex-wrap: wrap; }
  figure b { font-size: 22px; white-space: nowrap; }
  .shares { flex: 0 1 14rem; display: grid; line-height: 1.2; }
  .shares small { font-size: 12px; color: var(--faint); white-space: nowrap; font-variant-numeric: tabular-nums; }
  .bar { height: 18px; border-radius: 4px; background: var(--line); overflow: hidden; }
  .bar i { display: block; height: 100%; background: var(--good); transition: width 0.3s; }
  .full::after { content: " in float32"; font-size: 12px; font-weight: 400; color: var(--faint); }
  .record { color: color-mix(in srgb, var(--good) 85%, var(--ink)); }
  .apart:empty { display: none; }
  .apart { display: grid; font-size: 12px; color: var(--faint); font-variant-numeric: tabular-nums; }
  .said { display: grid; color: var(--faint); margin-left: auto; text-align: right; font-variant-numeric: tabular-nums; }
  .said button { border: 1px solid var(--orange); border-radius: 0.5rem; margin: -1px 0 -1px 0.5em; line-height: 1.2; }
  .said [hidden] { display: none; }
`;
