/** What is made of timers: a deadline for a promise, sleeping, and keeping the process alive. */

/** Settles as `work` does, or fails with `late()` after `ms` milliseconds. The work itself is not stopped then. */
export const within = <T>(ms: number, work: Promise<T>, late: () => Error): Promise<T> =>
  new Promise<T>((resolve, reject) => {
    const timer = setTimeout(() => reject(late()), ms)
    work.then(resolve, reject).finally(() => clearTimeout(timer))
  })

/** The longest delay that a timer takes; with a longer one it goes off at once. */
export const LONGEST_TIMER_MS = 2 ** 31 - 1

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

/**
 * Keeps this process alive while it listens, as an open connection to a broker would. A transport in a file or in memory
 * holds no handle open: while a program waits for nothing but a promise, Deno would exit, and Bun 1.4 would spin its event
 * loop. Begins now. Ends when one of the signals fires, or when the returned function is called.
 */
export const stayAlive = (...signals: ReadonlyArray<AbortSignal>): (() => void) => {
  if (signals.some(({ aborted }) => aborted)) return () => undefined
  const timer = setInterval(() => undefined, LONGEST_TIMER_MS)
  const end = () => {
    clearInterval(timer)
    for (const signal of signals) signal.removeEventListener("abort", end)
  }
  for (const signal of signals) signal.addEventListener("abort", end)
  return end
}
