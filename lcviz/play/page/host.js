// What the board and the dashboard around it say to each other.

/**
 * What the dashboard says.
 * @typedef {object} HostWords
 * @property {string} started the press of Start that it has acted on last
 * @property {string} problem why the last one began no run, or what of the settings the example does not know
 * @property {string} wrong why Start cannot be pressed
 * @property {{ n: number, setting: object } | null} use the n-th setting to try
 * @property {{ pictures: any, state: any } | null} served a run on the server: its facts by place, and what is shown
 */

let hostProblem = "";
let pressed = ""; // the last press of Start
let used = HOST?.words.use?.n ?? 0;
/** The last setting that both know, as text. */
let common = "";
/** @type {number | undefined} */
let startTimer;

/** Tell the dashboard what is tried: a run that begins is saved like this. */
function tellHost() {
  const text = JSON.stringify(state.setting);
  if (!board.hasAttribute("data-settled") || text === common) return;
  const isFirst = !common;
  common = text;
  if (!isFirst || !address.page.isPlain) HOST.send("tried", state.setting);
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
  if (words.use && words.use.n !== used) {
    used = words.use.n;
    say("use", words.use.setting);
    common = "";
  } else if (state) {
    show("message", problem());
  }
}

const START = "▶ Start live training";

/** Ask for a run, and say how long it takes. */
function start() {
  const began = performance.now();
  pressed = `${performance.timeOrigin + began}`;
  const tick = () => (find("start").textContent = `Starting … ${Math.round((performance.now() - began) / 1000)} s`);
  tick();
  startTimer = setInterval(tick, 1000);
  find("start").disabled = true;
  HOST.send("start", { press: pressed, setting: state?.setting ?? null });
}

if (HOST) {
  board.classList.add("hosted");
  find("start").onclick = start;
  closing.signal.addEventListener("abort", () => {
    clearInterval(startTimer);
    clearTimeout(addressTimer);
  });
  // A run on the server has an address of its own.
  if (served && location.hash) History.prototype.replaceState.call(history, history.state, "", location.pathname + location.search);
  hearHost(HOST.words);
}

return {
  get state() {
    return state;
  },
  hear: hearHost,
  close: () => closing.abort(),
};
