/** Waiting by the timers of the event loop: for a time, for its next turn, and for a promise until a deadline. */

/** The longest delay that a timer takes; with a longer one it goes off at once. */
export const MAX_TIMER_MS = 2 ** 31 - 1

/**
 * Resolves after `ms` milliseconds, or when the signal fires. Removes its listener from the signal in both cases: the
 * signal of a worker outlives many such waits.
 */
export const sleep = (ms: number, signal?: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer)
      signal?.removeEventListener("abort", done)
      resolve()
    }
    const timer = setTimeout(done, ms)
    signal?.addEventListener("abort", done)
  })

/** Resolves once the event loop has seen to what came in meanwhile. */
export const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

/**
 * Settles as `work` does, or fails with `late()` after `ms` milliseconds, soon where that time is over. The work itself is not
 * stopped then.
 */
export const within = <T>(ms: number, work: Promise<T>, late: () => Error): Promise<T> =>
  new Promise<T>((resolve, reject) => {
    const timer = setTimeout(() => reject(late()), Math.max(0, ms))
    work.then(resolve, reject).finally(() => clearTimeout(timer))
  })

/**
 * Resolves when the promise settles, after `ms` milliseconds, or when the signal fires, whichever is first. Never
 * rejects.
 */
export const waitFor = (promise: Promise<unknown>, ms: number, signal?: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const timer = setTimeout(() => done(), Math.min(ms, MAX_TIMER_MS))
    const done = () => {
      clearTimeout(timer)
      signal?.removeEventListener("abort", done)
      resolve()
    }
    if (signal?.aborted) return done()
    signal?.addEventListener("abort", done, { once: true })
    promise.then(done, done)
  })
