/**
 * The clock of the machine, which is that of the board: due times, leases and times to live are stored as times of day,
 * since they are shared by processes and outlive all of them.
 *
 * An operator may set this clock, or the machine may sleep: in both cases it moves without the monotonic clock, by which
 * no time has passed for any process of the machine. So no lease has ended by it.
 *
 * - Forward: for one lease from then on, leases and values end by the clock as it was before. By then the workers that
 *   are alive have renewed theirs.
 * - Back: leases and values that are in the file are shortened, or a worker that has died would hold its tasks for as
 *   long as the clock was set back. See `maintenance.ts`.
 *
 * A process that starts after the move knows nothing of it.
 */

/** What the clocks read, in milliseconds. A test sets them. */
export interface Readings {
  readonly wall: () => number
  readonly monotonic: () => number
}

const systemReadings: Readings = { wall: () => Date.now(), monotonic: () => performance.now() }

/** A smaller move is one of the many by which a clock is kept right. */
const MOVE_MS = 500

export interface Moment {
  /** The time of day. */
  readonly now: number
  /** What ends at this time or earlier has ended: as a rule the same. */
  readonly ended: number
}

export interface SetBack {
  /** By how many milliseconds. */
  readonly by: number
  /** What the clock showed before, at the last look. */
  readonly from: number
}

export class MachineClock {
  readonly #lease: number
  readonly #readings: Readings
  /** The wall clock minus the monotonic clock, at the last look. */
  #gap: number
  /** By how much the clock has moved forward within the last lease. */
  #ahead = 0
  /** Until when {@link #ahead} counts, by the monotonic clock. */
  #until = Number.NEGATIVE_INFINITY
  /** The time of day at the last look. */
  #now: number
  #back: SetBack | undefined

  /** `lease` is in milliseconds. */
  constructor(lease: number, readings = systemReadings) {
    this.#lease = lease
    this.#readings = readings
    this.#now = readings.wall()
    this.#gap = this.#now - readings.monotonic()
  }

  read(): Moment {
    const now = this.#readings.wall()
    const monotonic = this.#readings.monotonic()
    const gap = now - monotonic
    const moved = gap - this.#gap
    this.#gap = gap
    if (monotonic >= this.#until) this.#ahead = 0
    if (moved > MOVE_MS) {
      this.#ahead += moved
      this.#until = monotonic + this.#lease
    } else if (moved < -MOVE_MS) {
      // Rows that the move forward only kept from ending are still in the file as they were, and need no mending.
      const by = Math.round(Math.max(0, -moved - this.#ahead)) + (this.#back?.by ?? 0)
      if (by > 0) this.#back = { by, from: this.#back?.from ?? this.#now }
      this.#ahead = Math.max(0, this.#ahead + moved)
    }
    this.#now = now
    return { now, ended: now - Math.round(this.#ahead) }
  }

  /** Whether the clock was set back, and the file has not been mended since. */
  get setBack(): SetBack | undefined {
    this.read()
    return this.#back
  }

  /** To be called when what is in the file was shortened. */
  mended(back: SetBack): void {
    if (this.#back === back) this.#back = undefined
  }
}
