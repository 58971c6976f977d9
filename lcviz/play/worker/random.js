// The random numbers that Python would draw: the same seed gives the same weights and batches.

/** Numbers from 0 to 2^32 - 1, as torch draws them (Matsumoto and Nishimura, "Mersenne Twister", 1998). */
class MersenneTwister {
  /** @param {number} seed its lowest 32 bits count */
  constructor(seed) {
    this.state = new Uint32Array(624);
    this.state[0] = seed;
    for (let i = 1; i < 624; i++) {
      const last = this.state[i - 1];
      this.state[i] = Math.imul(1812433253, last ^ (last >>> 30)) + i;
    }
    this.at = 624;
  }

  /** The next number. */
  next() {
    if (this.at === 624) this.twist();
    let word = this.state[this.at++];
    word ^= word >>> 11;
    word ^= (word << 7) & 0x9d2c5680;
    word ^= (word << 15) & 0xefc60000;
    return (word ^ (word >>> 18)) >>> 0;
  }

  /** Make the next 624 numbers. */
  twist() {
    const { state } = this;
    for (let i = 0; i < 624; i++) {
      const word = (state[i] & 0x80000000) | (state[(i + 1) % 624] & 0x7fffffff);
      state[i] = state[(i + 397) % 624] ^ (word >>> 1) ^ (word & 1 ? 0x9908b0df : 0);
    }
    this.at = 0;
  }
}

/**
 * Normal numbers, as `torch.nn.init.normal_` draws them (Box and Muller, 1958): of 16 uniform numbers
 * the first 8 give a radius, the last 8 its angle.
 * @param {number} seed
 * @param {number} n a multiple of 16
 * @param {number} deviation
 */
function normalNumbers(seed, n, deviation) {
  const generator = new MersenneTwister(seed);
  const numbers = Float32Array.from({ length: n }, () => (generator.next() & 0xffffff) / 2 ** 24);
  for (let begin = 0; begin < n; begin += 16) {
    for (let i = begin; i < begin + 8; i++) {
      const radius = Math.sqrt(-2 * Math.log(1 - numbers[i])) * deviation;
      const angle = 2 * Math.PI * numbers[i + 8];
      numbers[i] = radius * Math.cos(angle);
      numbers[i + 8] = radius * Math.sin(angle);
    }
  }
  return numbers;
}

/** 32 bits from a seed and more numbers, as numpy's SeedSequence mixes them (O'Neill, 2015). */
class SeedSequence {
  /** @param {number[]} entropy up to four numbers from 0 to 2^32 - 1 */
  constructor(entropy) {
    let factor = 0x43b0d7e5;
    /** @param {number} word */
    const hashed = (word) => {
      word ^= factor;
      factor = Math.imul(factor, 0x931e8875);
      word = Math.imul(word, factor);
      return word ^ (word >>> 16);
    };
    this.pool = Uint32Array.from([0, 1, 2, 3], (i) => hashed(entropy[i] ?? 0));
    for (let from = 0; from < 4; from++) {
      for (let to = 0; to < 4; to++) {
        if (from === to) continue;
        const word = Math.imul(0xca01f9dd, this.pool[to]) - Math.imul(0x4973f715, hashed(this.pool[from]));
        this.pool[to] = word ^ (word >>> 16);
      }
    }
  }

  /** @param {number} n how many words of 32 bits */
  words(n) {
    let factor = 0x8b51f9dd;
    return Uint32Array.from({ length: n }, (_, i) => {
      let word = this.pool[i % 4] ^ factor;
      factor = Math.imul(factor, 0x58f38ded);
      word = Math.imul(word, factor);
      return word ^ (word >>> 16);
    });
  }
}

const MASK_64 = (1n << 64n) - 1n;
const MASK_128 = (1n << 128n) - 1n;
const PCG_FACTOR = 0x2360ed051fc65da44385df649fccf645n;

/** numpy's default generator, PCG64 (O'Neill, "PCG: a family of better random number generators", 2014). */
class Pcg64 {
  /** @param {number[]} entropy as for SeedSequence */
  constructor(entropy) {
    const words = [...new BigUint64Array(new SeedSequence(entropy).words(8).buffer)];
    this.state = 0n;
    this.increment = ((((words[2] << 64n) | words[3]) << 1n) | 1n) & MASK_128;
    this.advance();
    this.state += (words[0] << 64n) | words[1];
    this.advance();
    /** @type {number | null} */
    this.upperHalf = null; // of the last 64 bits
  }

  advance() {
    this.state = (this.state * PCG_FACTOR + this.increment) & MASK_128;
  }

  /** The next number from 0 to 2^32 - 1. */
  next() {
    if (this.upperHalf !== null) {
      const half = this.upperHalf;
      this.upperHalf = null;
      return half;
    }
    this.advance();
    const word = (this.state >> 64n) ^ (this.state & MASK_64);
    const turn = this.state >> 122n;
    const turned = ((word >> turn) | (word << (64n - turn))) & MASK_64;
    this.upperHalf = Number(turned >> 32n);
    return Number(turned & 0xffffffffn);
  }

  /**
   * A number from 0 to most, each as likely: of as few bits as that needs, drawn until it fits.
   * @param {number} most
   */
  upTo(most) {
    const mask = 2 ** (32 - Math.clz32(most)) - 1;
    let number = this.next() & mask;
    while (number > most) number = this.next() & mask;
    return number;
  }

  /**
   * The numbers from 0 to n - 1 in random order (Fisher and Yates, 1938).
   * @param {number} n
   */
  permutation(n) {
    const order = Uint32Array.from({ length: n }, (_, i) => i);
    for (let i = n - 1; i > 0; i--) {
      const other = this.upTo(i);
      [order[i], order[other]] = [order[other], order[i]];
    }
    return order;
  }
}
