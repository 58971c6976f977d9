// The board: it draws what the worker answers, and tells the worker what is clicked.
//
// ROOT: what holds the board's elements: the document, or a component's shadow. GIVEN: what it begins
// with, see given.py. HOST: the dashboard around it, or null: send(event, value) tells it something.

const PAPER = 710; // pixels, below the height of A4 in landscape without margins, 740
const SPEEDS = [2, 5, 10, 25, 50, null]; // iterations a second; null for full speed

const address = readAddress();
const recorded = GIVEN.recorded ? new RecordedRun(GIVEN.recorded, (data) => hear(data, recorded)) : null;
const served = GIVEN.served ? new ServedRun((data) => hear(data, served)) : null;
const run = recorded ?? served; // else the worker trains
/** What answers: asked counts the messages that change what is shown, latest is its last whole answer. */
let engine = run ?? new InWorker(hear);
const training = engine;
/** @type {any} files of one's own; null before that tab is opened */
let files = null;
let asked = 0; // messages to the engine that change what is shown
/** Tell the engine something. Until it is drawn, the page is not settled. */
const say = (...message) => {
  if (message[0] !== "drawn") {
    asked = engine.asked = (engine.asked ?? 0) + 1;
    delete board.dataset.settled;
  }
  engine.hear(...message);
};
/** @type {any} an answer that is not drawn yet */
let waiting = null;
let tab = HOST && (run || address.page.tab === "learn") ? "live" : address.page.tab;
/** The entry of the browser's history: the tab, in this visit of the page. */
const entry = () => ({ tab, visit: performance.timeOrigin });

const guide = new Guide(find("guide"), (name) => card(name) ?? find(name).closest("label") ?? find(name));
const lecture = new Lecture(find("lecture"), card);

/** Draw an answer with the next frame, unless a newer one comes before. @param {any} data @param {any} from */
function hear(data, from) {
  if (data.failed) return fail(data.failed);
  if (data.pictures?.weights || !from.latest) from.latest = data;
  if (from !== engine) return;
  if (!waiting) requestAnimationFrame(() => waiting && draw(waiting));
  waiting = data;
}

board.classList.toggle("recorded", Boolean(recorded));
board.classList.toggle("served", Boolean(served));
const given = { digits: GIVEN.digits, train: GIVEN.train, sizes: GIVEN.sizes, coders: GIVEN.coders };
say("open", ...(run ? [address.opening] : [given, address.opening]));

/** Say what went wrong, and what to do. @param {string} why */
function fail(why) {
  show("message", `This page cannot compute here: ${why}. Reload it, or open it in a newer browser.`);
}

/** @param {string} id @param {string} text */
function show(id, text) {
  find(id).textContent = text;
  find(id).hidden = !text;
}

/** @type {any} the state that the page shows */
let state = null;
/** @type {number | undefined} */
let addressTimer;
let lectureIsDue = address.page.lecture;

/** @param {{ pictures: any, state: any }} answer */
function draw(answer) {
  waiting = null;
  state = answer.state;
  const { pictures } = answer;
  if (engine === files) drawFiles();
  else if (recorded) drawRecorded();
  else if (served) drawServed();
  else drawControls();
  if (engine === files) show("message", state.progress || state.problem);
  else show("message", pictures ? problem() : "The first checkpoint comes in a moment.");
  if (!pictures && engine === files) return; // the last good pictures stay
  card("race").hidden = !pictures?.race;
  drawn = pictures ?? {};
  undrawn = Object.keys(drawn);
  drawMore();
}

/** What follows once all pictures are drawn. */
function finishDrawing() {
  say("drawn");
  if (state.isAtRest && state.heard === asked) board.dataset.settled = "";
  if (served) return;
  if (engine === training && !recorded && !lecture.on) guide.hear(state);
  if (HOST && engine === training) tellHost();
  // Browsers refuse to write the address often.
  clearTimeout(addressTimer);
  addressTimer = setTimeout(() => state && writeAddress(state, entry()), 300);
  if (lecture.on) lecture.explain();
  if (lectureIsDue) lecture.begin();
  else if (lecture.on && !card("race").hidden && lecture.card === card("race")) lecture.fit();
  lectureIsDue = false;
}

/** @type {Record<string, any>} place -> data of the picture that is drawn there */
let drawn = {};
/** @type {string[]} places whose pictures are still to be drawn */
let undrawn = [];
const SLICE = 12; // milliseconds of drawing in one frame: a hand that drags does not wait longer

/** Draw as many pictures as fit into a frame, and the others in the next ones. */
function drawMore() {
  if (!state) return; // of another engine, which has not answered yet
  const until = performance.now() + SLICE;
  while (undrawn.length && performance.now() < until) {
    const name = undrawn.shift();
    drawIn(card(name), drawn[name], heardFrom);
  }
  if (undrawn.length) requestAnimationFrame(drawMore);
  else finishDrawing();
}

/** @param {string} name */
const inCard = (name, /** @type {string} */ selector) => /** @type {any} */ (card(name).shadowRoot?.querySelector(selector));

function drawPictures() {
  for (const [name, data] of Object.entries(drawn)) {
    const body = inCard(name, ".body");
    if (body) body.width = body.clientWidth; // printing does not wait until the observer sees it
    drawIn(card(name), data, heardFrom);
  }
}

/** What a picture sends. @param {string} event @param {any} value */
function heardFrom(event, value) {
  say("picture", event, value);
  if (event === "back") find("play").focus({ preventScroll: true }); // that button goes
}

// Paper is white, and pictures are painted in the colours of the page.
listen(window, "beforeprint", () => {
  explainPictures();
  board.classList.add("paper");
  const about = recorded ? "" : engine === files ? `${state.files.join(", ")}.` : (state?.about ?? `Logistic regression on handwritten digits, seed ${state?.seed}.`);
  find("handout-link").textContent = `${about} ${isLocal ? "" : location.href}`;
  // There is no room for the picture of the race.
  find("handout-race").textContent = card("race").hidden ? "" : `${card("race").dataset.sentence} ${plain(inCard("race", ".text")?.written ?? "")}`;
  // As large as one page lets it be.
  for (let zoom = 1.2; zoom > 0.6; zoom -= 0.02) {
    board.style.setProperty("--zoom", zoom.toFixed(2));
    drawPictures();
    if (board.scrollHeight <= PAPER) break;
  }
});
listen(window, "afterprint", () => {
  board.classList.remove("paper");
  drawPictures();
});

/** What is not as asked for yet. */
function problem() {
  if (hostProblem) return hostProblem;
  if (run || state.dead || state.saved === state.states) return "";
  return `The whole run is saved like this: ${state.saved} of ${state.states} checkpoints.`;
}

/** A recorded chain has no controls but the step. */
function drawRecorded() {
  const { recorded: steps, shown } = state;
  set(find("step"), { min: 0, max: steps.length - 1, step: 1, "aria-valuetext": `step ${shown}` });
  find("step").value = steps.indexOf(shown);
  find("step-told").textContent = `step ${shown}`;
  card("examples").hidden = true;
}

/** A run on the server has its buttons in the dashboard. The range is that of the whole run. */
function drawServed() {
  const { interval, last, newest, step, shown } = state;
  const slider = find("step");
  set(slider, { min: interval, max: Math.max(last, interval), step: interval, "aria-valuetext": `step ${shown}${step ? "" : ", the newest"}` });
  if (slider.matches(":active")) return; // it is held
  slider.value = step ?? newest;
  find("step-told").textContent = `step ${shown}`;
}

/** @type {number | null} */
let seedShown = null;

function drawControls() {
  const { playing, finished, dead, newest } = state;
  const had = focused().id;
  find("play").textContent = playing ? "❚❚ Pause" : finished ? "▶ Train live" : "▶ Play";
  find("play").hidden = dead || (HOST && !playing && (finished || state.isCatchingUp));
  board.classList.toggle("dead", dead);
  find("next").disabled = playing || finished;
  find("kill").disabled = !newest;
  find("killed").hidden = !dead;
  if (dead) {
    const lost = state.iteration - newest;
    find("loss-told").textContent = `Killed at ${state.iteration}${lost ? `, ${pluralText(lost, "iteration")} not saved` : ", just saved"}.`;
  }
  find("race-back").disabled = state.raced;
  find("race-back").textContent = "Race back";
  find("go-on").textContent = state.isOwn ? "Go on from the checkpoint" : "Go on, saved as you try";
  // The focus goes on to what comes next, where its place is gone.
  const next = dead ? { kill: "race-back", play: "race-back", "race-back": "go-on" } : { "go-on": "play", "race-back": "play" };
  const gone = had && next[had] && (find(had).disabled || !find(had).offsetParent);
  if (gone) find(next[had]).focus({ preventScroll: true });
  find("keep").checked = state.setting.carries;
  // Not while it is typed, nor until it is used.
  if (seedShown !== state.seed) find("seed").value = seedShown = state.seed;
  find("speed").value = SPEEDS.indexOf(state.speed);
  const rate = SPEEDS[find("speed").value];
  set(find("speed"), { "aria-valuetext": rate ? `${rate} iterations a second` : "full speed" });
  find("speed-told").textContent = rate ? `${rate}/s` : "full";
  find("step").value = state.step ?? newest;
  find("step-told").textContent = `step ${state.shown}`;
}

find("play").onclick = () => say(state?.playing ? "pause" : "play");
find("next").onclick = () => say("next");
find("kill").onclick = () => say("crash");
find("race-back").onclick = ({ target }) => {
  target.textContent = "Racing …"; // half a second
  say("race");
};
find("go-on").onclick = () => say("goOn");
find("reset").onclick = () => {
  const seed = seedOfField();
  if (seed === null) show("message", `A seed is a whole number from 0 to ${groupedNumber(MOST_SEED)}.`);
  else say("reset", seed);
};
find("seed").onkeydown = ({ key }) => key === "Enter" && find("reset").click();
find("keep").onchange = (event) => say("use", { carries: event.target.checked });
find("speed").oninput = (event) => say("speed", SPEEDS[event.target.value]);
// At the right end the pictures follow the newest checkpoint.
find("step").oninput = ({ target }) => {
  const value = Number(target.value);
  if (served) find("step-told").textContent = value < state.newest ? `step ${value}` : "newest";
  else if (recorded) say("step", state.recorded[value]);
  else if (engine === files) say("step", value);
  else say("step", value < state.newest ? value || 10 : null);
};
find("step").onchange = ({ target }) => served && say("step", Number(target.value) < state.newest ? Number(target.value) : null);
find("begin-lecture").onclick = () => lecture.begin();
find("begin-guide").onclick = () => guide.begin(state);
find("print").onclick = () => print();
const isLocal = location.protocol === "file:" || ["localhost", "127.0.0.1", "[::1]"].includes(location.hostname);
find("copy-link").onclick = ({ target }) => copyText(target, () => location.href, isLocal ? "Copied, for this machine" : "Copied", "Copy the address above");
find("embed").hidden = isLocal || HOST;
find("embed").onclick = ({ target }) => copyText(target, () => `<iframe src="${location.href}" title="Checkpoint compression, live" width="100%" height="760"></iframe>`, "Copied", "This browser copies nothing");

/** The seed in the field; null where that is no seed. */
function seedOfField() {
  const text = find("seed").value.trim();
  return /^\d{1,10}$/.test(text) && Number(text) <= MOST_SEED ? Number(text) : null;
}

/** Copy a text of this moment, and say on the button whether it worked. @param {any} button @param {() => string} text @param {string} done @param {string} refused */
async function copyText(button, text, done, refused) {
  if (!state) return;
  writeAddress(state, entry());
  button.dataset.label ??= button.textContent;
  try {
    await navigator.clipboard.writeText(text());
    button.textContent = done;
  } catch {
    button.textContent = refused;
  }
  setTimeout(() => (button.textContent = button.dataset.label), 2000);
}

const TABS = ["live", "files", "learn"];
for (const name of TABS) {
  find(`to-${name}`).onclick = () => {
    goTo(name);
    if (HOST) find(`to-${TABS.find((other) => other !== name)}`).focus({ preventScroll: true }); // the other one goes
  };
}

/** Open a tab; the browser's Back returns to the one before. @param {string} name */
function goTo(name) {
  if (name === tab) return;
  history.replaceState(entry(), "");
  tab = name;
  if (!HOST) history.pushState(entry(), ""); // the dashboard's own pages have the browser's history
  openTab();
}

/** Let another engine answer. @param {any} next */
function turnTo(next) {
  if (next === engine) return;
  engine = next;
  delete board.dataset.settled;
  asked = engine.asked ?? 0;
  waiting = null;
  undrawn = [];
  state = engine.latest?.state ?? null;
  board.classList.toggle("files", engine === files);
  if (engine === files) guide.end();
  if (engine.latest) draw(engine.latest);
  else show("message", "One moment …");
}

/** Show the tab. */
function openTab() {
  for (const other of TABS) set(find(`to-${other}`), { "aria-selected": String(other === tab), tabindex: other === tab ? 0 : -1 });
  find("live").hidden = tab === "learn";
  find("learn").hidden = tab !== "learn";
  set(find("live"), { "aria-labelledby": `to-${tab === "files" ? "files" : "live"}` });
  if (tab === "learn") drawIn(find("learn-place"), GIVEN.learn, () => {});
  if (!run) turnTo(tab === "files" ? (files ?? openFiles()) : training);
  if (state) writeAddress(state, entry());
}

// Back and Forward among the tabs of this visit change nothing else.
listen(window, "popstate", () => {
  if (!isOwnEntry()) return;
  tab = history.state.tab;
  openTab();
});
// A link that is pasted into the open page: writing the address ourselves does not come here.
listen(window, "hashchange", () => isOwnEntry() || location.reload());
const isOwnEntry = () => history.state?.visit === entry().visit;

// Space plays and pauses, the right arrow steps, unless what has the focus needs the key.
listen(document, "keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const at = focused();
  const isFree = at.contains(ROOT.getRootNode().host ?? board) || at.matches("button:not([role]), button[role=button]");
  if (at.getAttribute("role") === "tab" && ["ArrowLeft", "ArrowRight"].includes(event.key)) {
    const shown = TABS.filter((name) => !find(`to-${name}`).hidden);
    goTo(shown[(shown.indexOf(tab) + (event.key === "ArrowRight" ? 1 : shown.length - 1)) % shown.length]);
    find(`to-${tab}`).focus();
  } else if (lecture.handleKey(event.key, isFree)) {
    event.preventDefault();
    return;
  } else if (served) {
    // Its buttons are the dashboard's. One that has the focus has a key of its own for Space.
    const names = { " ": at.matches("button") ? [] : ["play", "pause"], ArrowRight: ["step"] }[event.key] ?? [];
    const button = isFree && names.length && document.querySelector(names.map((name) => `.st-key-${name} button:not([disabled])`).join());
    if (!button) return;
    button.click();
  } else if (HOST || tab !== "live" || !isFree || lecture.on || recorded) {
    return;
  } else if (event.key === " " && !at.matches("button") && !state?.dead) {
    find("play").click();
  } else if (event.key === "ArrowRight") {
    find("next").click();
  } else {
    return;
  }
  event.preventDefault();
});

openTab();
if (!lectureIsDue && !run && address.page.isPlain && !isRemembered(SEEN)) guide.begin(state);
