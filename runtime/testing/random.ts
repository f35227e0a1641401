/** Randomness that follows from a seed. */

/** Random numbers, the same for a seed on every engine (mulberry32). */
export class Random {
  #state: number

  constructor(seed: number) {
    this.#state = seed | 0
    // Seeds that lie side by side begin alike.
    for (let n = 0; n < 4; n++) this.#bits()
  }

  #bits(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return (mixed ^ (mixed >>> 14)) >>> 0
  }

  /** From 0 to below 1. */
  readonly next = (): number => this.#bits() / 2 ** 32

  /** A whole number, both bounds included. */
  int(min: number, max: number): number {
    return min + Math.floor(this.next() * (max - min + 1))
  }

  chance(probability: number): boolean {
    return this.next() < probability
  }

  pick<T>(list: ReadonlyArray<T>): T {
    const picked = list[this.int(0, list.length - 1)]
    if (picked === undefined) throw new Error("there is nothing to pick from")
    return picked
  }

  fill<T extends ArrayBufferView>(view: T): T {
    const bytes = new Uint8Array(view.buffer, view.byteOffset, view.byteLength)
    for (let at = 0; at < bytes.length; at++) bytes[at] = this.#bits() & 0xff
    return view
  }
}

/** A UUID of version 4 out of 16 random bytes. */
const uuidOf = (bytes: Uint8Array): ReturnType<typeof crypto.randomUUID> => {
  const fixed = bytes.map((byte, at) => (at === 6 ? (byte & 0x0f) | 0x40 : at === 8 ? (byte & 0x3f) | 0x80 : byte))
  const hex = Array.from(fixed, (byte) => byte.toString(16).padStart(2, "0")).join("")
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
}

/**
 * Makes all randomness of this process follow from these numbers: `Math.random`, and what the global `crypto` draws, of which
 * ids are made. Returns a function that puts the real one back.
 */
export const replaceRandomness = (random: Random): (() => void) => {
  const { random: real } = Math
  const { getRandomValues, randomUUID } = crypto
  Math.random = random.next
  crypto.getRandomValues = (view) => (view === null ? view : random.fill(view))
  crypto.randomUUID = () => uuidOf(random.fill(new Uint8Array(16)))
  return () => {
    Math.random = real
    crypto.getRandomValues = getRandomValues
    crypto.randomUUID = randomUUID
  }
}
