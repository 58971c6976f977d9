// A key is ignored while the focused element needs it. A group of buttons needs its arrows.
export default function () {
  document.addEventListener("keydown", press);
  return () => document.removeEventListener("keydown", press);
}

function press(event) {
  const at = document.activeElement ?? document.body;
  const free = at === document.body || (event.key === "ArrowRight" && at.matches(BUTTON));
  if (!free || event.ctrlKey || event.metaKey || event.altKey) return;
  const names = { " ": ["play", "pause"], ArrowRight: ["step"] }[event.key] ?? [];
  const wanted = names.map((name) => `.st-key-${name} button:not([disabled])`).join();
  const button = wanted && document.querySelector(wanted);
  if (!button) return;
  event.preventDefault();
  button.click();
}

const BUTTON = "button:not([role]), button[role=button]";
