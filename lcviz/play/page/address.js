// What is shown is in the address, behind #: a link shows the same moment.

const MOST_SEED = 2 ** 31 - 1;

/** The parts of the address. */
function readAddress() {
  const parts = new URLSearchParams(location.hash.slice(1));
  /** A whole number of the address, within limits. @param {string} name @param {number} low @param {number} high @param {number | null} otherwise */
  const whole = (name, low, high, otherwise = null) => {
    const text = parts.get(name) ?? "";
    return /^\d{1,10}$/.test(text) ? Math.min(Math.max(Number(text), low), high) : otherwise;
  };
  const kills = (parts.get("killed") ?? "").split("-").map(Number).filter((kill) => kill >= 1 && kill <= 600);
  const isPlain = !location.hash.slice(1); // then the file's own moment
  const own = isPlain ? GIVEN.own : settingOf(new URLSearchParams(parts.get("own") ?? ""));
  const last = GIVEN.recorded ? Infinity : 600;
  const asked = parts.get("tab") ?? "";
  const tab = asked === "learn" || (asked === "files" && !GIVEN.recorded) ? asked : "live";
  const step = parts.get("step") === "newest" ? null : whole("step", 1, last, GIVEN.opens);
  return {
    files: tab === "files" ? settingOf(parts) : {},
    page: { tab, lecture: parts.has("lecture"), isPlain },
    opening: {
      seed: whole("seed", 0, MOST_SEED, GIVEN.seed),
      own,
      setting: isPlain ? GIVEN.setting : tab === "files" ? {} : settingOf(parts),
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

/** How checkpoints are saved: what parts of an address say of it. @param {URLSearchParams} parts */
function settingOf(parts) {
  const [x, cut, budget, distance, coder] = ["x", "cut", "budget", "distance", "coder"].map((name) => parts.get(name) ?? "");
  return {
    ...(x === "all" ? { x: null } : /^[1-8]$/.test(x) ? { x: Number(x) } : {}),
    ...(/^\d{1,3}$/.test(cut) ? { most: Number(cut) } : {}),
    ...(Number(budget) >= 0.001 && Number(budget) <= 1 ? { budget: Number(budget), distance: null } : {}),
    ...(Number(distance) > 0 && Number(distance) < 1 ? { distance: Number(distance) } : distance === "none" ? { distance: null } : {}),
    ...(["huffman", "runlength", "context"].includes(coder) ? { coder } : {}),
    ...(parts.has("keep") ? { carries: parts.get("keep") !== "0" } : {}),
  };
}

/** The other way round: only what differs from the setting that a page has without an address. @param {URLSearchParams} parts @param {any} setting */
function writeSetting(parts, { x, most, budget, distance, coder, carries }, isFiles = false) {
  if (x !== 2) parts.set("x", x ?? "all");
  if (isFiles && distance !== 0.3 && budget === null) parts.set("distance", distance ?? "none");
  if (budget !== null) parts.set("budget", budget);
  else if (most !== null) parts.set("cut", most);
  if (coder !== "runlength") parts.set("coder", coder);
  if (!carries) parts.set("keep", "0");
}

/** Write what is shown into the address. @param {any} state of the worker @param {{ tab: string, visit: number }} page the entry of the history */
function writeAddress(state, page) {
  const { setting } = state;
  const parts = new URLSearchParams();
  if (page.tab !== "live") parts.set("tab", page.tab);
  if (!setting) parts.set("step", state.shown); // of a recorded chain
  else if (state.files) writeSetting(parts, setting, true);
  else writeRun(parts, state, setting);
  history.replaceState(page, "", `#${parts}`);
}

/** The parts of the address that describe a training. @param {URLSearchParams} parts @param {any} state @param {any} setting */
function writeRun(parts, state, setting) {
  if (state.seed !== GIVEN.seed) parts.set("seed", state.seed);
  writeSetting(parts, setting);
  const own = new URLSearchParams();
  writeSetting(own, state.own);
  if (own.size) parts.set("own", own);
  parts.set("step", state.step ?? "newest");
  if (state.iteration !== 600) parts.set("at", state.iteration);
  if (state.kills.length) parts.set("killed", state.kills.join("-"));
  if (state.dead) parts.set("dead", "1");
  if (state.raced) parts.set("raced", "1");
  if (state.followed !== null) parts.set("weight", state.followed);
  if (state.byWorth) parts.set("view", "error");
}
