// 8 Beyond the paper: a layer's δ, whose rows and columns change together; the fainter a value, the
// fewer bits it takes in a context code.

const FAINTEST = 0.12; // opacity of a value that takes hardly any bits
const MOST_BITS = 4; // from here on a value is drawn in full

function drawNeighbours(page, body, controls) {
  const { columns, signs, orders } = page.data.neighbours;
  const { mixed } = page.state;
  const [button] = built(controls, () => [act()]);
  const [svg] = built(body, () => [layers()]);
  button.textContent = mixed ? "Put in order" : "Shuffle";
  button.onclick = () => page.change({ mixed: !mixed });
  const { values, shares } = orders[mixed ? 1 : 0];
  fitted(body, (wide) =>
    drawSquares(svg, values, { wide, columns, gap: 1.2 }, (value, i) => {
      const bits = shares ? shares[i] : MOST_BITS;
      const change = value ? (signs[value] ? "down" : "up") : "no change";
      return {
        fill: value ? hue(signs[value]) : "var(--grey)",
        opacity: (value ? 1 : 0.6) * Math.min(1, FAINTEST + ((1 - FAINTEST) * bits) / MOST_BITS),
        told: shares ? `${change}: ${words(bits, 2)} bits` : change,
      };
    }),
  );
}

function tellNeighbours({ state, data }) {
  const { orders, rows, columns } = data.neighbours;
  const { runs, context, shares } = orders[state.mixed ? 1 : 0];
  if (!shares) return `The same ${rows * columns} values in another order: neighbours no longer tell what to expect, so the codec writes runs: ${groupedNumber(runs)} bits.`;
  return `A row for each digit, a column for each pixel: they change together. Runs take ${groupedNumber(runs)} bits, a code that expects what neighbours did ${groupedNumber(context)}. The fainter a value, the fewer bits it took.`;
}

const tableNeighbours = ({ data }) => [
  ["order", "runs, bits", "context code, bits"],
  ...data.neighbours.orders.map(({ runs, context, shares }, i) => [i ? "shuffled" : "as trained", String(runs), shares ? String(context) : "runs are kept"]),
];
