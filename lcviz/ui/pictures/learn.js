// Learn's pictures and the ribbon above them. They share one state; whatever is touched, all of
// them follow at once, and the server is told afterwards.

const PARTS = {
  delta: [drawDelta, tellDelta, tableDelta],
  levels: [drawLevels, tellLevels, tableLevels],
  slots: [drawSlots, tellSlots, tableSlots],
  tree: [drawTree, tellTree, tableTree],
  runs: [drawRuns, tellRuns, tableRuns],
  restart: [drawRestart, tellRestart, tableRestart],
  steps: [drawSteps, tellSteps, tableSteps],
  neighbours: [drawNeighbours, tellNeighbours, tableNeighbours],
};
const ALL = 15; // merges of sixteen numbers, the most that there can be
const PATIENCE = 250; // milliseconds without a change before the server is told

export default function ({ data, parentElement, setTriggerValue }) {
  let root = parentElement.querySelector(".learn");
  if (!root) {
    const head = make("div", {}, make("h1"), make("p", { class: "about" }), make("div", { class: "choices-row" }));
    const ribbon = make("div", { class: "ribbon", role: "list", "aria-label": "Bits after each stage, to scale" });
    root = make("div", { class: "learn" }, make("div", { class: "top" }, head, ribbon), make("div", { class: "cards" }), make("style", {}, STYLE));
    parentElement.append(root);
    root.page = newPage(root);
  }
  const { page } = root;
  Object.assign(page, { data, names: data.names, send: setTriggerValue });
  adopt(page);
  page.redraw();
}

/** What all pictures share: the state, the numbers as they are now, and what changes them. */
function newPage(root) {
  const page = { picked: null, hint: "", playing: false, told: [] };
  page.redraw = () => {
    compute(page);
    drawPage(page, root);
  };
  page.change = (changes) => {
    if (!changes.answers) page.heard.clear();
    Object.assign(page.state, changes);
    page.redraw();
    page.tell();
  };
  page.follow = (followed) => followed !== page.state.followed && page.change({ followed });
  page.move = (i, value, done, exact = false) => {
    const { step } = page;
    page.heard.clear();
    page.live[i] = f32(exact ? value : Number((Math.round(value / step) * step).toPrecision(6)));
    if (page.live[i] < page.range[0] || page.live[i] > page.range[1]) span(page);
    page.redraw();
    if (done) page.tell();
  };
  page.tell = () => {
    clearTimeout(page.later);
    page.later = setTimeout(() => {
      const { x, followed, merges, folded, fine, answers } = page.state;
      const moved = JSON.stringify(page.live) !== page.given;
      if (moved) page.told.push(JSON.stringify(page.live));
      page.send("told", { x, followed, merges, folded, fine, answers, live: moved ? page.live : null });
    }, PATIENCE);
  };
  return page;
}

/** The state before anything is touched. */
const begun = ({ data }) => ({ at: data.checkpoints, crashed: null, restored: null, carries: true, slid: false, mixed: false, ...data.first });

/** Take over the server's numbers, unless they only repeat what was told from here. */
function adopt(page) {
  const { data } = page;
  page.state ??= { ...begun(page), ...data.start };
  page.heard ??= new Set(Object.keys(page.state.answers)); // pictures that show an answer
  const given = JSON.stringify(data.live);
  const place = JSON.stringify(data.track);
  const echo = page.told.indexOf(given);
  if (echo >= 0) page.told.splice(0, echo + 1);
  if (place !== page.place || (echo < 0 && given !== page.given)) {
    page.live = [...data.live];
    page.state.followed = Math.min(page.state.followed, data.live.length - 1);
    span(page);
  }
  Object.assign(page, { given, place });
}

/** The part of the number line that is shown, and a step on it. */
function span(page) {
  const every = [...page.data.track, ...page.live];
  const [low, high] = [Math.min(...every), Math.max(...every)];
  const wide = high - low || 1;
  page.range = [low - 0.08 * wide, high + 0.08 * wide];
  page.step = 10 ** Math.floor(Math.log10(wide / 50));
}

/** All stages of the numbers as they are: Python's answer, or this module's while they move. */
function compute(page) {
  const { data, state, live } = page;
  const given = JSON.stringify(live) === page.given ? data.lessons.find((one) => one.x === state.x) : undefined;
  const before = page.lesson && JSON.stringify(page.lesson.merges);
  const joined = page.lesson && state.merges >= page.lesson.merges.length;
  page.lesson = given?.lesson ?? lessonOf(data.track, live, state.x);
  if (before && before !== JSON.stringify(page.lesson.merges)) {
    state.merges = joined ? ALL : 0;
    unpick(page);
  }
  page.steps = stepsOf(data.track, live, state.fine);
  page.checkpoints =
    state.restored === null && state.carries && given
      ? given.checkpoints
      : checkpointsOf(data.track, live, state.x, data.checkpoints, state.restored, state.carries);
}

function drawPage(page, root) {
  const { data, state } = page;
  const [top, cards] = root.children;
  set(top, { style: `--top: ${data.alone ? "0px" : "3.75rem"}` }); // below Streamlit's header
  const [head, ribbon] = top.children;
  const [title, about, row] = head.children;
  title.textContent = data.heading;
  about.textContent = data.about;
  drawRow(page, row);
  drawRibbon(page, ribbon);
  each(
    cards,
    data.pictures,
    () => make("section", { class: "card" }, make("div"), make("div", { class: "numbers", tabindex: 0 }), make("fieldset")),
    (card, picture) => {
      const [draw, tell, table] = PARTS[picture.picture];
      const [place, numbers, question] = card.children;
      const { figure, controls, body, text } = frame({ data: { ...picture, text: tell(page) }, parentElement: place });
      set(card, { class: picture.beyond ? "card beyond" : "card" });
      set(figure, { "aria-label": `${picture.title}. ${picture.text} ${tell(page)}` });
      draw(page, body, controls);
      drawTable(numbers, picture, state.tables ?? data.tables ? table(page) : []);
      ask(page, picture, question);
      answer(page, picture, text);
    },
  );
}

/** The buttons below the title: all as it was; where there is no server, the tables. */
function drawRow(page, row) {
  const [reset, tables] = built(row, () => [act("Start over"), act("Data tables")]);
  reset.onclick = () => {
    page.live = [...page.data.home];
    span(page);
    page.playing = false;
    page.heard.clear();
    unpick(page);
    page.change(begun(page));
  };
  const first = Object.entries(begun(page));
  const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);
  const untouched = same(page.live, page.data.home) && first.every(([name, value]) => same(page.state[name], value));
  set(reset, { disabled: untouched });
  tables.hidden = !page.data.alone;
  set(tables, { "aria-pressed": String(Boolean(page.state.tables)) });
  tables.onclick = () => page.change({ tables: !page.state.tables });
}

function drawTable(place, picture, rows) {
  place.hidden = !rows.length;
  set(place, { role: "region", "aria-label": `${picture.title}: numbers` });
  const line = (cells, tag) => make("tr", {}, ...cells.map((cell) => make(tag, tag === "th" ? { scope: "col" } : {}, cell)));
  place.replaceChildren(...(rows.length ? [make("table", {}, ...rows.map((cells, i) => line(cells, i ? "td" : "th")))] : []));
}

/** A question with its options. */
function ask(page, { picture, question }, place) {
  const { answers } = page.state;
  const [, ...labels] = built(place, () => [
    make("legend", {}, question.text),
    ...question.options.map((option) => make("label", {}, make("input", { type: "radio", name: `learn-${picture}` }), option)),
  ]);
  labels.forEach(({ firstChild: input }, i) => {
    input.checked = i === answers[picture];
    input.onclick = () => {
      page.heard.add(picture);
      page.change({ answers: { ...answers, [picture]: i } });
    };
  });
}

/** What is right stands where the picture's sentence does, which is back at the next touch. */
function answer(page, { picture, question: { options, right, why } }, text) {
  const say = (i) => `${i === right ? "Right." : `Not ${options[i]}.`} ${why}`;
  if (text.parentElement.className !== "said") {
    const [longest] = options.map((_, i) => say(i)).sort((a, b) => b.length - a.length);
    const place = make("div", { class: "said" });
    text.replaceWith(place);
    place.append(text, make("p", { class: "room", "aria-hidden": "true" }, longest), make("p", { role: "status" }));
  }
  const chosen = page.heard.has(picture) ? page.state.answers[picture] : undefined;
  const told = text.parentElement.lastChild;
  told.textContent = chosen === undefined ? "" : say(chosen);
  set(told, { class: chosen === right ? "why right" : "why" });
  set(text, { style: chosen === undefined ? null : "visibility: hidden" });
}

const STYLE = `
  .learn { color: var(--ink); font: 13px/1.35 var(--st-font, sans-serif); --tray: color-mix(in srgb, var(--ink) 14%, var(--paper)); --dim: color-mix(in srgb, #6b6b6b 92%, #000); }
  .learn [hidden] { display: none; }
  .top { position: sticky; top: var(--top, 0px); z-index: 5; display: grid; grid-template-columns: minmax(200px, 1fr) minmax(300px, 2.6fr); gap: 0.3rem 1.2rem; align-items: center; background: var(--paper); padding: 0.25rem 0 0.4rem; border-bottom: 1px solid var(--line); margin-bottom: 0.6rem; }
  h1 { font-size: 19px; line-height: 1.15; margin: 0; }
  .top p { margin: 0.1rem 0 0.2rem; font-size: 12.5px; }
  .choices-row { display: flex; gap: 0.4rem; }
  .ribbon > div { display: flex; gap: 0.5em; align-items: center; font-size: 12px; line-height: 15px; }
  .ribbon span { width: 5.2em; color: var(--faint); flex: none; }
  .ribbon i { height: 10px; border-radius: 3px; min-width: 2px; flex: none; transition: width 0.5s; }
  .cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, max(330px, 32%)), 1fr)); gap: 0.6rem; }
  .card { border: 1px solid var(--line); border-radius: 10px; padding: 0.3rem 0.8rem 0.5rem; min-width: 0; display: flex; flex-direction: column; }
  @media print { .card { break-inside: avoid; } }
  .card.beyond { grid-column: 1 / -1; }
  .card > :first-child { flex: 1; }
  .card p.text { min-height: 2.7em; }
  figcaption { min-height: 1.9rem; }
  button.act { border: 1px solid var(--line); border-radius: 0.5rem; font-size: 12px; }
  button.act:hover:not(:disabled) { border-color: var(--ink); }
  button:disabled { opacity: 0.45; cursor: default; }
  input[type="range"] { width: 64px; accent-color: var(--blue); margin: 0; }
  fieldset { border: 0; margin: 0.25rem 0 0; padding: 0; display: flex; flex-wrap: wrap; gap: 0 0.8rem; }
  legend { font-weight: 600; padding: 0; float: left; width: 100%; }
  fieldset label { cursor: pointer; }
  fieldset input { margin: 0 0.3em 0 0; accent-color: var(--blue); vertical-align: -1px; }
  .said { display: grid; }
  .said > p { grid-area: 1 / 1; }
  .room, .why { font-size: 12.5px; margin: 0.3rem 0 0; padding-left: 0.5em; border-left: 3px solid var(--orange); align-self: start; }
  .room, .why:empty { visibility: hidden; }
  .why.right { border-color: var(--good); }
  svg text.on { fill: #fff; font-weight: 600; pointer-events: none; }
  .float { display: flex; align-items: center; flex-wrap: wrap; gap: 2px; font-size: 11.5px; min-height: 21px; }
  .float .name { font-weight: 700; width: 1.3em; }
  .float .sign, .float .exponent, .float .mantissa { padding: 1px 2px; border-radius: 3px; }
  .sign { background: color-mix(in srgb, var(--blue) 25%, transparent); }
  .exponent { background: color-mix(in srgb, var(--orange) 25%, transparent); }
  .mantissa { background: color-mix(in srgb, var(--good) 22%, transparent); }
  button.bit { font: inherit; border: 1px solid var(--orange); border-radius: 3px; padding: 1px 5px; }
  .line { display: flex; align-items: center; gap: 0.5rem; font-size: 12px; margin-top: 0.2rem; }
  .dot { transition: transform 0.5s; cursor: pointer; }
  .slots { position: relative; height: 118px; }
  .slots > div > div { position: absolute; box-sizing: border-box; font-size: 12px; }
  .head, .tray { color: var(--faint); white-space: nowrap; }
  .slot { height: 38px; border: 1.5px dashed var(--grey); border-radius: 6px; }
  .chip { height: 38px; border-radius: 6px; text-align: center; overflow: hidden; line-height: 17px; padding: 2px; transition: left 0.4s, top 0.4s, width 0.4s; }
  .chip > * { display: block; white-space: nowrap; }
  .chip.kept { color: #fff; font-weight: 600; }
  .chip.own { outline: 2.5px solid var(--good); outline-offset: 0; }
  .waiting { font-size: 12px; color: var(--faint); position: relative; padding-bottom: 9px; }
  .waiting i { position: absolute; left: 0; bottom: 0; height: 6px; border-radius: 3px; background: var(--grey); transition: width 0.4s; }
  .stream { min-height: 18px; display: flex; flex-wrap: wrap; gap: 2px; justify-content: center; }
  .stream span { padding: 0 2px; border-bottom: 2px solid var(--grey); }
  .stream span.own { border-color: var(--good); font-weight: 700; }
  .branch, .tile { animation: appear 0.4s; }
  @keyframes appear { from { opacity: 0; } }
  .tile:focus-visible { outline: 2px solid var(--blue); }
  .square { transition: opacity 0.4s; }
  .folds { display: flex; flex-wrap: wrap; gap: 4px; min-height: 66px; margin-top: 0.5rem; align-content: flex-start; }
  .fold { display: inline-flex; align-items: center; gap: 4px; border-radius: 5px; padding: 1px 5px; background: color-mix(in srgb, var(--good) 18%, transparent); animation: appear 0.4s; }
  .fold i { width: 9px; height: 9px; border-radius: 2px; }
  .numbers { overflow: auto; max-height: 180px; }
  table { border-collapse: collapse; font-size: 12px; width: 100%; }
  td, th { text-align: right; padding: 1px 6px; border-bottom: 1px solid var(--line); }
  @media (max-width: 830px) { .ribbon > :last-child { min-height: 30px; } }
  @media (max-width: 700px) { .top { grid-template-columns: 1fr; } .top p { display: none; } }
`;
