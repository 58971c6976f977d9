// The scheme on a few numbers, for an answer while a dot is being dragged. Python's answer, from the
// codec, is what a page opens with; a test compares the two.

const f32 = Math.fround;
const SLACK = 0.0025; // as `codec.scheme.uniform` has it

/** The bits of a float32: sign, exponent, mantissa. */
function bitsOf(value) {
  const view = new DataView(new ArrayBuffer(4));
  view.setFloat32(0, value);
  const text = view.getUint32(0).toString(2).padStart(32, "0");
  return [text[0], text.slice(1, 9), text.slice(9)];
}

/** The float32 of such bits. */
function valueOf(bits) {
  const view = new DataView(new ArrayBuffer(4));
  view.setUint32(0, parseInt(bits.join(""), 2));
  return view.getFloat32(0);
}

/** Two float32 lists through all stages. x: bits of P, null for all. As `values_of` in Python. */
function lessonOf(track, live, x) {
  const delta = Float32Array.from(live, (value, i) => f32(value) - f32(track[i]));
  const { codes, levels, counts, buckets: all } = quantize(delta, promotedBy(x));
  const ofEach = quantize(delta, Infinity); // each value's bucket, promoted or not
  const buckets = all.map(({ exponent, sign, min, max, middle }, i) => ({
    exponent,
    sign,
    min,
    max,
    middle,
    members: [...ofEach.codes.keys()].filter((at) => ofEach.codes[at] === i + 1),
    kept: i + 1 < levels.length,
  }));
  const n = delta.length;
  const merges = mergesOf(counts);
  const numbers = Array.from(delta, (value, i) => {
    const bucket = ofEach.codes[i] ? ofEach.codes[i] - 1 : null;
    const written = levels[codes[i]];
    return {
      track: f32(track[i]),
      live: f32(live[i]),
      delta: value,
      bits: bitsOf(value),
      bucket,
      middle: ofEach.levels[ofEach.codes[i]],
      written,
      code: codes[i],
      rebuilt: f32(f32(track[i]) + written),
    };
  });
  return {
    numbers,
    buckets,
    symbols: Array.from(levels, (level, i) => ({ level, count: counts[i] })),
    merges,
    bits: {
      float32: 32 * n,
      e: n * width(ofEach.counts),
      p: n * (x === null ? width(counts) : x),
      h: merges.reduce((sum, merge) => sum + merge[2], 0),
    },
  };
}

/**
 * Equal steps for float32 changes: no number is further off than the tolerance, which halves with
 * every four of `fine`. As `steps_of` in Python.
 */
function stepsOf(track, live, fine) {
  const delta = live.map((value, i) => f32(f32(value) - f32(track[i])));
  const tolerance = (Math.max(...delta.map(Math.abs)) || 1) / 2 ** (1 + fine / 4);
  // Adding a step to the track rounds, so a step is a little shorter than twice the tolerance.
  const end = Math.max(...live.map((value) => Math.abs(f32(value)))) + tolerance;
  const place = 2 ** (Math.floor(Math.log2(end)) - 24);
  const size = f32(Math.max(tolerance - place, tolerance / 2) / (0.5 + SLACK));
  const codes = delta.map((value) => Math.sign(value) * Math.floor(Math.abs(value) / size + 0.5) || 0);
  // As the codec numbers them: 0, 1, −1, 2, −2 …
  const counts = Array(2 * Math.max(...codes.map(Math.abs)) + 1).fill(0);
  for (const q of codes) counts[q > 0 ? 2 * q - 1 : -2 * q] += 1;
  const bits = mergesOf(counts).reduce((sum, merge) => sum + merge[2], 0);
  return { tolerance, size, codes, bits };
}

/** Bits of an index of fixed length. */
const width = (counts) => Math.ceil(Math.log2(Math.max(counts.filter((count) => count > 0).length, 1)));

/** Huffman's tree from its leaves: [rare, rarer, count] of each merge. As in Python. */
function mergesOf(counts) {
  let waiting = counts.map((count, i) => [count, 0, -i, i]).filter(([count]) => count > 0);
  const merges = [];
  while (waiting.length > 1) {
    waiting.sort((a, b) => a[0] - b[0] || a[1] - b[1] || a[2] - b[2]);
    const [low, high] = waiting;
    const node = counts.length + merges.length;
    merges.push([high[3], low[3], low[0] + high[0]]);
    waiting = [...waiting.slice(2), [low[0] + high[0], 1, node, node]];
  }
  return merges;
}

/**
 * Checkpoints of a training that goes on as it began: each adds the first δ again.
 * restored: after this checkpoint the training starts again from the track. carries: whether what is
 * left out stays in the next δ. As in Python.
 */
function checkpointsOf(track, live, x, steps, restored, carries) {
  const drift = live.map((value, i) => f32(f32(value) - f32(track[i])));
  let now = track.map(f32);
  let kept = now;
  const found = [{ live: now, track: kept, written: now.map(() => 0) }];
  for (let step = 1; step <= steps; step++) {
    const begin = step - 1 === restored ? kept : now;
    now = begin.map((value, i) => f32(value + drift[i]));
    const { numbers } = lessonOf(carries ? kept : begin, now, x);
    kept = kept.map((value, i) => f32(value + numbers[i].written));
    found.push({ live: now, track: kept, written: numbers.map((number) => number.written) });
  }
  return found;
}

/** A number as people write it. */
function words(value, digits = 4) {
  return String(Number(value.toPrecision(digits))).replaceAll("-", "−");
}

const bracketed = (value, digits) => (value < 0 ? `(${words(value, digits)})` : words(value, digits));
const signed = (exponent, sign) => (sign ? "−" : "+") + (exponent === -127 ? "tiny" : power(exponent));
const hue = (sign) => (sign ? "var(--down)" : "var(--up)");
