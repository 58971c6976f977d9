// The facts of the race back after a crash.

/** @param {Raced} raced @returns {RaceFacts & { picture: string, kind: string }} */
function raceFacts({ failAt, since, before, trend, outcomes, estimate = null }) {
  /** @param {Outcome} outcome @returns {[number, number | null][]} */
  const pointsOf = ({ onTrend, rework, capped }) => {
    const whole = onTrend.map((loss, r) => /** @type {[number, number]} */ ([r, loss])).filter(([r]) => r < rework || r === 0 || capped);
    const level = Math.min(onTrend[rework] ?? trend[0], trend[0]); // it may lie below at once
    const points = !capped && rework > 0 ? [...whole, [rework, level]] : whole;
    return points.map(([r, loss]) => [Number(r.toFixed(4)), plotted(loss)]);
  };
  const ways = outcomes.map((outcome) => ({ ...outcome, onTrend: undefined, points: pointsOf(outcome) }));
  const last = Math.max(...ways.map(({ points }) => points[points.length - 1][0]));
  const until = Math.min(Math.max(Math.ceil(1.15 * last), 5), trend.length - 1);
  return {
    picture: "curves",
    kind: "race",
    at: failAt,
    ways,
    before: before.map((loss) => plotted(loss)),
    calm: trend.slice(0, until + 1).map((loss) => plotted(loss)),
    cap: since + CAP,
    smooth: true,
    over: true,
    bytes: true,
    estimate,
  };
}
