/** The two clocks of a worker, as parameters, so that a test can set them. */
export interface Clock {
  /**
   * Milliseconds since the epoch, for times that are stored or shown. An operator or NTP may set it forward or back at
   * any moment.
   */
  readonly now: () => number
  /**
   * Milliseconds since an arbitrary moment, for measuring how long something takes. Nothing sets it: it only goes
   * forward.
   */
  readonly monotonic: () => number
}

export const systemClock: Clock = { now: () => Date.now(), monotonic: () => performance.now() }
