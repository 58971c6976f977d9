// What the board and the dashboard around it say to each other.

/**
 * What the dashboard says.
 * @typedef {object} HostWords
 * @property {string} problem why the last press of Start began no run, or what is not as asked for
 * @property {string} [started] the press of Start that it has acted on last
 * @property {string} [wrong] why Start cannot be pressed
 * @property {{ n: number, setting: object } | null} [use] the n-th setting to try
 * @property {{ pictures: any, state: any }} [served] a run on the server: its facts by place, and what is shown
 */

const START = "▶ Start live training";
const ASK_AGAIN = 8; // seconds
let hostProblem = "";
let pressed = ""; // the last press of Start
let used = HOST?.words.use?.n ?? 0;
/** @type {any} the example's own setting, see the type Setting of tracker.js */
const OWN = { x: 2, budget: null, coder: "runlength", carries: true };
/** The setting that the dashboard has sent last. @type {any} */
let agreed = { ...OWN, ...HOST?.words.use?.setting };
/** The same with all changes sent since. A message repeats them: one close before it may get lost. @type {any} */
let sent = agreed;
let answered = 0; // messages after which the state is that of `sent`
/** @type {number | undefined} */
let startTimer;

/** What of the setting on the board differs from another one. @param {any} other */
function changesFrom(other) {
  const now = state?.setting ?? other;
  return Object.fromEntries(Object.keys(OWN).filter((name) => now[name] !== other[name]).map((name) => [name, now[name]]));
}

/** Tell the dashboard what is tried: a run that begins is saved like this. */
function tellHost() {
  const changed = changesFrom(sent);
  if (state.heard < answered || !Object.keys(changed).length) return;
  sent = { ...sent, ...changed };
  HOST.send("tried", changesFrom(agreed));
}

/** @param {HostWords} words */
function hearHost(words) {
  hostProblem = words.problem;
  if (words.served) {
    show("message", hostProblem);
    return served.show(words.served);
  }
  const isDone = !pressed || pressed === words.started;
  set(find("start"), { title: words.wrong || "Trains in Python on this server, with the settings in the sidebar.", disabled: Boolean(words.wrong) || !isDone });
  if (isDone) {
    clearInterval(startTimer);
    find("start").textContent = START;
  }
  agreed = { ...OWN, ...words.use?.setting };
  if (words.use && words.use.n !== used) {
    used = words.use.n;
    sent = agreed;
    goTo("live");
    say("use", words.use.setting);
    answered = asked;
  } else if (state && engine === training) {
    show("message", problem());
  }
}

/** Ask for a run, and say how long it takes. A message may get lost: one press begins one run, however often it is sent. */
function start() {
  const began = performance.now();
  let ticks = 0;
  pressed = `${performance.timeOrigin + began}`;
  const message = { press: pressed, changed: changesFrom(agreed), most: state?.setting.most ?? null };
  const ask = () => {
    find("start").textContent = `Starting … ${Math.round((performance.now() - began) / 1000)} s`;
    if (ticks++ % ASK_AGAIN === 0) HOST.send("start", message);
  };
  ask();
  startTimer = setInterval(ask, 1000);
  find("start").disabled = true;
}

if (HOST) {
  board.classList.add("hosted");
  find("to-learn").hidden = true; // the dashboard has it
  find("to-live").textContent = "Back to the example";
  find("start").onclick = start;
  closing.signal.addEventListener("abort", () => {
    clearInterval(startTimer);
    clearTimeout(addressTimer);
  });
  // A run on the server has an address of its own.
  if (served && location.hash) History.prototype.replaceState.call(history, history.state, "", location.pathname + location.search);
}

return {
  get state() {
    return state;
  },
  hear: hearHost,
  close: () => closing.abort(),
};
