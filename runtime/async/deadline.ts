/** Bounds on waiting: a deadline for a promise, and sleeping. */

/** Settles as `work` does, or fails with `late()` after `ms` milliseconds. The work itself is not stopped then. */
export const within = <T>(ms: number, work: Promise<T>, late: () => Error): Promise<T> =>
  new Promise<T>((resolve, reject) => {
    const timer = setTimeout(() => reject(late()), ms)
    work.then(resolve, reject).finally(() => clearTimeout(timer))
  })

/** The longest delay that a timer takes. */
const LONGEST_TIMER_MS = 2 ** 31 - 1

/**
 * Resolves when the promise settles, after `ms` milliseconds, or when the signal fires, whichever is first. Never
 * rejects.
 */
export const waitFor = (promise: Promise<void>, ms: number, signal?: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const timer = setTimeout(() => done(), Math.min(ms, LONGEST_TIMER_MS))
    const done = () => {
      clearTimeout(timer)
      signal?.removeEventListener("abort", done)
      resolve()
    }
    if (signal?.aborted) return done()
    signal?.addEventListener("abort", done, { once: true })
    promise.then(done, done)
  })

/**
 * Resolves after `ms` milliseconds, or when the signal fires. Removes its listener from the signal in both cases: the
 * signal of a worker outlives many such waits.
 */
export const sleep = (ms: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer)
      signal.removeEventListener("abort", done)
      resolve()
    }
    const timer = setTimeout(done, ms)
    signal.addEventListener("abort", done)
  })
