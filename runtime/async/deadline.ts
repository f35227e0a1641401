/** What `work` comes to, unless it takes longer than `ms`; then fails with `late()`. The work itself goes on. */
export const within = <T>(ms: number, work: Promise<T>, late: () => Error): Promise<T> =>
  new Promise<T>((resolve, reject) => {
    const timer = setTimeout(() => reject(late()), ms)
    work.then(resolve, reject).finally(() => clearTimeout(timer))
  })

/** Timers cannot wait for longer. */
const LONGEST_TIMER_MS = 2 ** 31 - 1

/** Waits for a promise, but no longer than `ms`, nor past the signal. */
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
