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
      const moved = !same(page.live, page.data.live);
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
  const [given, place] = [data.live, data.track].map((values) => JSON.stringify(values));
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
  const { x, fine, restored, carries } = state;
  const given = same(live, data.live) ? data.lessons.find((one) => one.x === x) : undefined;
  const before = page.lesson?.merges;
  page.lesson = given?.lesson ?? lessonOf(data.track, live, x);
  if (before && !same(before, page.lesson.merges)) {
    state.merges = state.merges >= before.length ? ALL : 0;
    unpick(page);
  }
  page.steps = stepsOf(data.track, live, fine);
  const isPython = given && restored === null && carries;
  page.checkpoints = isPython ? given.checkpoints : checkpointsOf(data.track, live, x, data.checkpoints, restored, carries);
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
  set(reset, { disabled: same(page.live, page.data.home) && first.every(([name, value]) => same(page.state[name], value)) });
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
  labels.forEach((label, i) => {
    const input = label.firstChild;
    input.checked = i === answers[picture];
    set(label, { "data-verdict": input.checked && (i === question.right ? "✓" : "✗") });
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
