// 6 Restart: the track chases u from checkpoint to checkpoint; a crash loads the track.

const PACE = 500; // milliseconds a checkpoint
const DROPPED = [[true, "keep"], [false, "lose"]]; // what a checkpoint leaves out

function drawRestart(page, body, controls) {
  const { state, data } = page;
  const steps = data.checkpoints;
  const crashed = state.crashed !== null;
  const [slider, play, crash] = built(controls, () => [range(10 * steps, { "aria-label": "Time, in tenths of a checkpoint" }), act(), act()]);
  const curve = () => make("path", { fill: "none" });
  const [svg] = built(body, () => [make("svg", { role: "presentation" }, make("g"), curve(), curve(), make("g"), make("g"), make("text", { class: "faint", x: 0, y: 11 }))]);
  choices(controls, "What is dropped", DROPPED, state.carries, (carries) => page.change({ carries }));
  slider.oninput = () => stop(page, { at: Number(slider.value) / 10, crashed: null });
  slider.value = 10 * state.at;
  set(slider, { "aria-valuetext": `${words(state.at)} checkpoints`, disabled: crashed });
  play.textContent = page.playing ? "Pause" : "Play";
  set(play, { disabled: crashed });
  crash.textContent = crashed ? "Restore" : "⚡ Crash";
  play.onclick = () => (page.playing ? stop(page) : start(page));
  crash.onclick = () => {
    if (!crashed) stop(page, { crashed: state.at });
    else stop(page, { at: Math.floor(state.crashed), restored: Math.floor(state.crashed), crashed: null });
  };
  const [gaps, track, live, dots, marks, what] = svg.children;
  what.textContent = `${page.names[state.followed]}: the same change before each checkpoint`;
  fitted(body, (wide) => {
    const i = state.followed;
    const every = page.checkpoints;
    const seen = every.flatMap((c) => [c.live[i], c.track[i]]);
    const [low, high] = [Math.min(...seen), Math.max(...seen)];
    const x = (t) => 14 + (t / steps) * (wide - 74);
    const y = (value) => 116 - ((value - low) / (high - low || 1)) * 92;
    set(svg, { viewBox: `0 0 ${wide} 140`, height: 140 });
    const whole = Math.floor(state.at + 1e-9);
    const shown = every.slice(0, whole + 1);
    let path = "";
    let now = every[0].live[i];
    for (let step = 0; step < steps && step <= whole; step++) {
      const from = step === state.restored ? every[step].track[i] : every[step].live[i];
      const part = Math.min(state.at - step, 1);
      now = from + (every[step + 1].live[i] - from) * part;
      path += `M${x(step)} ${y(from)}L${x(step + part)} ${y(now)}`;
    }
    set(live, { d: path, stroke: "var(--live)", "stroke-width": 2.5, opacity: crashed ? 0.3 : 1 });
    const stairs = shown.map((c, t) => (t ? `H${x(t)}V${y(c.track[i])}` : `M${x(0)} ${y(c.track[i])}`)).join("");
    set(track, { d: stairs + `H${x(state.at)}`, stroke: "var(--restored)", "stroke-width": 2, "stroke-dasharray": "5 3" });
    const saved = shown.slice(1).map((c, t) => ({ at: x(t + 1), u: c.live[i], restored: c.track[i], kept: c.written[i] !== 0 }));
    each(
      gaps,
      saved,
      () => make("rect", { fill: "var(--grey)", opacity: 0.5 }),
      (rect, { at, u, restored }) => set(rect, { x: at - 4, width: 8, y: Math.min(y(u), y(restored)), height: Math.abs(y(u) - y(restored)) }),
    );
    each(
      dots,
      saved,
      () => make("g", {}, make("circle", { r: 4.5 }), make("circle", { r: 4.5, fill: "var(--live)" }), make("text", { "text-anchor": "middle" })),
      (group, { at, u, restored, kept }) => {
        const [below, above, text] = group.children;
        set(below, { cx: at, cy: y(restored), fill: kept ? "var(--restored)" : "var(--paper)", stroke: "var(--restored)", "stroke-width": 2 });
        set(above, { cx: at, cy: y(u) });
        set(text, { x: at, y: 136, class: kept ? null : "faint" });
        text.textContent = kept ? "kept" : u === restored ? "" : state.carries ? "waits" : "lost";
      },
    );
    const last = every[whole].track[i];
    const near = Math.abs(y(now) - y(last)) < 13;
    const [up, down] = near ? (y(now) <= y(last) ? [-6, 8] : [8, -6]) : [0, 0];
    const below = Math.max(y(now) + up, y(last) + down, 118) - 118; // they would stand on the axis
    each(
      marks,
      [[crashed ? "✕ gone" : "u", y(now) + up - below, "var(--ink)"], ["ũ track", y(last) + down - below, "var(--restored)"]],
      () => make("text"),
      (text, [label, top, fill]) => {
        text.textContent = label;
        set(text, { x: x(state.at) + 9, y: top + 4, style: `fill: ${fill}`, "font-weight": 700 });
      },
    );
  });
}

/** Play from here, or from the beginning. */
function start(page) {
  const { state, data } = page;
  const steps = data.checkpoints;
  const again = state.at >= steps;
  page.playing = true;
  page.change({ at: again ? 0 : state.at, restored: again ? null : state.restored, crashed: null });
  const pace = still() ? 1 : 0.1;
  const tick = () => {
    if (!page.playing) return;
    const at = Math.min(Math.round((page.state.at + pace) * 10) / 10, steps);
    if (at === steps) page.playing = false;
    page.change({ at });
    if (page.playing) page.timer = setTimeout(tick, PACE * pace);
  };
  page.timer = setTimeout(tick, PACE * pace);
}

function stop(page, changes = {}) {
  page.playing = false;
  clearTimeout(page.timer);
  page.change(changes);
}

function tellRestart({ state, checkpoints, names }) {
  const i = state.followed;
  const whole = Math.floor(state.at + 1e-9);
  const { live, track } = checkpoints[whole];
  const name = names[i];
  const gap = words(Math.abs(live[i] - track[i]), 3);
  if (state.crashed !== null) return `Crash: u is gone. A restart loads checkpoint ${whole}: ${words(track[i])} for ${name}.`;
  if (state.restored === whole && state.at === whole && whole)
    return `Restored: ${name} is ${words(track[i])} again, ${gap} from what it was. Training makes up for it: the next gradient is taken where u is now.`;
  if (!whole) return "Training moves u on in each step; the track ũ follows at each checkpoint.";
  const now = `Checkpoint ${whole}: u is ${words(live[i])}, ũ is ${words(track[i])}.`;
  return `${now} ${state.carries ? `The grey gap, ${gap}, stays in the next δ.` : "What is dropped is lost: each δ begins at the last u, not at ũ."}`;
}

const tableRestart = ({ state, checkpoints }) => [
  ["checkpoint", "u", "ũ", "written"],
  ...checkpoints.map((c, t) => [String(t), words(c.live[state.followed]), words(c.track[state.followed]), t ? words(c.written[state.followed]) : "base"]),
];
