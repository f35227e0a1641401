/**
 * Those that were refused by one limit and wait in the queue for their appointment, as far as this worker refused them. Only
 * the end of the line is remembered, so that ten thousand who wait cost no memory, and are looked at as often as the limit
 * lets one through, not all at once. Pure: clock and randomness come from outside.
 */

/** Longest wait: a limit that is lifted, or tasks that were cancelled, must not leave others waiting for hours. */
export const LONGEST_WAIT_MS = 5 * 60_000

export class Line {
  #end = 0

  /** When the last one has its appointment, in milliseconds; in the past when nobody waits. */
  get end(): number {
    return this.#end
  }

  /**
   * Milliseconds until somebody who was refused should come again, `leastMs` at least. The line grows by `spacingMs`. A
   * newcomer goes to its end; one that comes back (`returning`) is let in somewhere in its middle, so that it does not
   * start from behind again and again. `random`: 0 to 1.
   */
  join(at: {
    readonly now: number
    readonly leastMs: number
    readonly spacingMs: number
    readonly returning: boolean
    readonly random: number
  }): number {
    const { now, leastMs, spacingMs, returning, random } = at
    const end = Math.max(now + leastMs, this.#end + spacingMs)
    this.#end = Math.min(end, now + LONGEST_WAIT_MS)
    if (end > this.#end) return LONGEST_WAIT_MS * (0.5 + random / 2)
    return returning ? Math.max(leastMs, (end - now) * (0.25 + random / 2)) : end - now
  }
}
