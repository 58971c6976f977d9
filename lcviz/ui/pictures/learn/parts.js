// What several of Learn's pictures have: buttons, dots of the numbers, squares of a list.

/** A button that does something to a picture. */
const act = (text = "") => make("button", { type: "button", class: "act" }, text);

/** A range that can be chosen from. */
const range = (max, attributes) => make("input", { type: "range", min: 0, max, ...attributes });

/** How the line of a level is drawn. */
const LEVEL_LINE = { "stroke-width": 1.6, "stroke-dasharray": "4 3" };

/** The names of a bucket's members. */
const membersOf = ({ members }, names) => members.map((i) => names[i]).join(" ");

/** The number that is followed: its name, and all stages of it. */
const followedOf = ({ state, lesson, names }) => ({ name: names[state.followed], ...lesson.numbers[state.followed] });

/** Dots of some numbers with their names. place(i): { x, y, fill, stem }. stem: of the line from the dot to its level. */
function drawDots(page, parent, numbers, place) {
  each(
    parent,
    numbers,
    (i) => {
      const dot = make("g", { class: "dot" }, make("line"), make("circle"), make("text", { y: 3.5, "text-anchor": "middle", class: "on" }, page.names[i]));
      dot.onclick = () => page.follow(i);
      return dot;
    },
    (dot, i) => {
      const [line, circle] = dot.children;
      const { x, y, fill, stem } = place(i);
      const chosen = i === page.state.followed;
      set(dot, { style: `transform: translate(${x}px, ${y}px)` });
      set(line, { stroke: "var(--faint)", ...stem });
      set(circle, { r: chosen ? 9 : 7.5, fill: chosen ? "var(--accent)" : fill, stroke: "var(--paper)" });
    },
    (i) => i,
  );
}

/** A list of values as squares in rows. look(value, i): { fill, opacity, told }. */
function drawSquares(svg, values, { wide, columns, gap }, look) {
  const step = wide / columns;
  const size = Math.max(step - gap, 0.5);
  const high = (step * values.length) / columns;
  set(svg, { viewBox: `0 0 ${wide} ${high}`, height: high });
  each(
    svg,
    values,
    () => make("rect", { class: "square", rx: 1.5 }, make("title")),
    (square, value, i) => {
      const { fill, opacity, told = "" } = look(value, i);
      set(square, { x: (i % columns) * step + gap / 2, y: Math.floor(i / columns) * step + gap / 2, width: size, height: size, fill, opacity });
      square.firstChild.textContent = told;
    },
  );
}
