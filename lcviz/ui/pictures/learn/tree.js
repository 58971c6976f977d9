// 4 H: the two rarest tiles join until one tree is left; its branches spell the code words.

/**
 * The trees after so many merges. places: of the whole tree, each node's column and height, its
 * children in the order of their branches 0 and 1; words: of each symbol.
 */
function treeOf({ symbols, merges }) {
  const nodes = symbols.map(({ count }, i) => ({ id: i, count, first: i, tall: 0, children: [], parent: null }));
  for (const [rare, rarer, count] of merges) {
    const children = [nodes[rare], nodes[rarer]].sort((a, b) => a.tall - b.tall || a.first - b.first);
    const node = { id: nodes.length, count, first: Math.min(...children.map((c) => c.first)), tall: 1 + Math.max(...children.map((c) => c.tall)), children, parent: null };
    for (const child of children) child.parent = node.id;
    nodes.push(node);
  }
  const leaves = [];
  const words = symbols.map(() => "");
  const visit = (node, word) => {
    if (!node.children.length) {
      node.column = leaves.push(node) - 1;
      words[node.id] = word;
      return;
    }
    node.children.forEach((child, bit) => visit(child, word + bit));
    node.column = (node.children[0].column + node.children[1].column) / 2;
  };
  const top = merges.length ? nodes.at(-1) : nodes.find((node) => node.count);
  if (top) visit(top, "");
  return { nodes: nodes.filter((node) => node.count), leaves, words, tall: top?.tall ?? 0 };
}

/** No tile is picked any more. */
const unpick = (page, hint = "") => Object.assign(page, { picked: null, hint });

/** Show the trees after so many merges. */
function showMerges(page, merges) {
  unpick(page);
  page.change({ merges });
}

function drawTree(page, body, controls) {
  const [split, join] = built(controls, () => [act("Split"), act("Join the two rarest")]);
  const [svg, stream] = built(body, () => [make("svg", {}, make("g"), make("g")), make("div", { class: "stream mono" })]);
  const { state, lesson } = page;
  const most = lesson.merges.length;
  const done = Math.min(state.merges, most);
  set(split, { disabled: done === 0 });
  set(join, { disabled: done === most });
  split.onclick = () => showMerges(page, done - 1);
  join.onclick = () => showMerges(page, done + 1);
  const [lines, tiles] = svg.children;
  const tree = treeOf(lesson);
  const there = tree.nodes.filter((node) => node.id < lesson.symbols.length + done);
  const roots = there.filter((node) => node.parent === null || node.parent >= lesson.symbols.length + done);
  fitted(body, (wide) => {
    const high = 126;
    set(svg, { viewBox: `0 0 ${wide} ${high}`, height: high });
    const step = Math.min(96, wide / tree.leaves.length);
    const x = (node) => wide / 2 + (node.column - (tree.leaves.length - 1) / 2) * step;
    const y = (node) => high - 15 - (node.tall * (high - 32)) / Math.max(tree.tall, 1);
    each(
      lines,
      there.filter((node) => node.children.length).flatMap((node) => node.children.map((child, bit) => ({ node, child, bit }))),
      () => make("g", { class: "branch" }, make("path", { fill: "none", stroke: "var(--grey)", "stroke-width": 1.5 }), make("text", { "text-anchor": "middle", "font-weight": 700 })),
      (group, { node, child, bit }) => {
        const [path, text] = group.children;
        set(path, { d: `M${x(node)} ${y(node)}L${x(child)} ${y(child)}` });
        text.textContent = bit;
        set(text, { x: (x(node) + x(child)) / 2 + (bit ? 8 : -8), y: (y(node) + y(child)) / 2 - 1 });
      },
      ({ node, child }) => `${node.id}-${child.id}`,
    );
    each(
      tiles,
      there,
      () => make("g", { class: "tile" }, make("rect", { rx: 4 }), make("text", { "text-anchor": "middle" })),
      (group, node) => {
        const [rect, text] = group.children;
        const leaf = node.id < lesson.symbols.length;
        const level = leaf ? lesson.symbols[node.id].level : null;
        const size = leaf ? Math.min(84, step - 4) : 28;
        text.textContent = leaf ? (size > 58 ? `${words(level, 2)} ×${groupedNumber(node.count)}` : words(level, 1)) : groupedNumber(node.count);
        const open = roots.includes(node) && done < most;
        const fill = !leaf ? "var(--paper)" : level ? hue(level < 0) : "var(--dim)";
        const picked = page.picked === node.id;
        set(rect, { x: x(node) - size / 2, y: y(node) - 11, width: size, height: 22, fill, stroke: picked ? "var(--accent)" : leaf ? "none" : "var(--grey)", "stroke-width": picked ? 4 : 1.5 });
        set(text, { x: x(node), y: y(node) + 4, class: leaf ? "on" : null });
        set(group, {
          role: open ? "button" : null,
          tabindex: open ? 0 : null,
          "aria-label": open ? `${leaf ? words(level, 3) : "Tree"}, ${pluralText(node.count, "time")}` : null,
          "aria-pressed": open ? String(picked) : null,
          style: open ? "cursor: pointer" : null,
        });
        group.onclick = () => open && pickTile(page, node.id, roots);
        group.onkeydown = (event) => {
          if (event.key !== "Enter" && event.key !== " ") return;
          event.preventDefault();
          group.onclick();
        };
      },
      (node) => node.id,
    );
  });
  each(
    stream,
    done === most ? lesson.numbers : [],
    () => make("span"),
    (span, { code, written }, i) => {
      span.textContent = tree.words[code];
      set(span, { title: `${page.names[i]}: ${words(written)}`, class: i === state.followed ? "own" : null });
    },
  );
}

/** The second of two tiles joins them if they are the ones that the codec would join now. */
function pickTile(page, id, roots) {
  const { picked, lesson, state } = page;
  if (picked === null || picked === id) {
    Object.assign(page, { picked: picked === id ? null : id, hint: "" });
  } else {
    const next = lesson.merges[state.merges];
    if (next.includes(id) && next.includes(picked)) return showMerges(page, state.merges + 1);
    const count = (node) => roots.find((root) => root.id === node).count;
    const alike = count(id) + count(picked) === next[2];
    unpick(page, alike ? "As rare as another pair: the codec joins that one first." : "Not the two rarest. Try again.");
  }
  page.redraw();
}

function tellTree({ state, lesson, hint }) {
  const most = lesson.merges.length;
  if (hint) return hint;
  if (!most) return "All numbers have the same value: no bits are needed.";
  if (state.merges < most) return `${state.merges} of ${most} joined. The rarest tiles go deepest: they get the longest words.`;
  const tree = treeOf(lesson);
  const terms = lesson.symbols.map(({ count }, i) => [count, tree.words[i].length]).filter(([count]) => count);
  const sum = terms.map(([count, long]) => `${count} · ${long}`).join(" + ");
  const n = lesson.numbers.length;
  return `${terms.length < 6 ? `${sum} = ` : ""}${lesson.bits.h} bits; with ${pluralText(lesson.bits.p / n, "bit")} each: ${lesson.bits.p}.`;
}

function tableTree({ lesson }) {
  const tree = treeOf(lesson);
  return [
    ["value", "count", "word", "bits"],
    ...lesson.symbols.map(({ level, count }, i) => [words(level), String(count), tree.words[i] || "–", String(count * tree.words[i].length)]),
  ];
}
