// What is shown is in the address, behind #: a link shows the same moment.

/** The parts of the address. */
function readAddress() {
  const parts = new URLSearchParams(location.hash.slice(1));
  /** A whole number of the address, within limits. @param {string} name @param {number} low @param {number} high @param {number | null} otherwise */
  const whole = (name, low, high, otherwise = null) => {
    const text = parts.get(name) ?? "";
    return /^\d{1,10}$/.test(text) ? Math.min(Math.max(Number(text), low), high) : otherwise;
  };
  const kills = (parts.get("killed") ?? "").split("-").map(Number).filter((kill) => kill >= 1 && kill <= 600);
  const budget = Number(parts.get("budget"));
  const x = parts.get("x");
  const setting = {
    ...(x === "all" ? { x: null } : /^[1-8]$/.test(x ?? "") ? { x: Number(x) } : {}),
    ...(parts.has("cut") ? { most: whole("cut", 0, 999, 0) } : {}),
    ...(budget >= 0.001 && budget <= 1 ? { budget } : {}),
    ...(["huffman", "runlength"].includes(parts.get("coder") ?? "") ? { coder: parts.get("coder") } : {}),
    ...(parts.get("keep") === "0" ? { carries: false } : {}),
  };
  const last = GIVEN.recorded ? Infinity : 600;
  const step = parts.get("step") === "newest" ? null : whole("step", 1, last, GIVEN.opens);
  return {
    page: { tab: parts.get("tab") === "learn" ? "learn" : "live", lecture: parts.has("lecture"), isPlain: !location.hash.slice(1) },
    opening: {
      seed: whole("seed", 0, 2 ** 31, GIVEN.seed),
      setting: { ...GIVEN.setting, ...setting },
      step,
      at: whole("at", 10, 600, 600),
      kills,
      dead: parts.get("dead") === "1",
      raced: parts.get("raced") === "1",
      followed: whole("weight", 0, 7849),
      byWorth: parts.get("view") === "error",
    },
  };
}

/** Write what is shown into the address. @param {any} state of the worker @param {{ tab: string }} page */
function writeAddress(state, page) {
  const { setting } = state;
  const parts = new URLSearchParams();
  if (page.tab !== "live") parts.set("tab", page.tab);
  if (!setting) parts.set("step", state.shown); // of a recorded chain
  if (setting) writeRun(parts, state, setting);
  history.replaceState(null, "", `#${parts}`);
}

/** The parts of the address that describe a training. @param {URLSearchParams} parts @param {any} state @param {any} setting */
function writeRun(parts, state, setting) {
  if (state.seed) parts.set("seed", state.seed);
  if (setting.budget !== null) parts.set("budget", setting.budget);
  else if (setting.most !== null) parts.set("cut", setting.most);
  if (setting.x !== 2) parts.set("x", setting.x ?? "all");
  if (setting.coder !== "runlength") parts.set("coder", setting.coder);
  if (!setting.carries) parts.set("keep", "0");
  parts.set("step", state.step ?? "newest");
  if (state.iteration !== 600) parts.set("at", state.iteration);
  if (state.kills.length) parts.set("killed", state.kills.join("-"));
  if (state.dead) parts.set("dead", "1");
  if (state.raced) parts.set("raced", "1");
  if (state.followed !== null) parts.set("weight", state.followed);
  if (state.byWorth) parts.set("view", "error");
}
