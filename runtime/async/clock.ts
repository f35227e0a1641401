/** The two clocks of a worker, so that a test can turn them. */
export interface Clock {
  /** Milliseconds since the epoch: for what is stored and shown. People and their machines set it, forward and back. */
  readonly now: () => number
  /** Milliseconds since some moment: for everything that takes a while. It only goes on, at the pace of time. */
  readonly monotonic: () => number
}

export const systemClock: Clock = { now: () => Date.now(), monotonic: () => performance.now() }
