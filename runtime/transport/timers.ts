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

/** The last part of a deadline, in milliseconds. */
const LAST_MS = 50

/**
 * Calls `late` after `ms` milliseconds, soon if that time is over, unless the returned function is called first. If this
 * thread was blocked meanwhile, the answers that have arrived are read first: an event loop may look at its timers
 * before its sockets, so the last part of the time begins when the first part has ended.
 */
export const startDeadline = (ms: number, late: () => void): (() => void) => {
  const last = Math.min(Math.max(0, ms), LAST_MS)
  let timer = setTimeout(() => {
    timer = setTimeout(late, last)
  }, Math.max(0, ms) - last)
  return () => clearTimeout(timer)
}

/**
 * Settles as `work` does, or fails with `late()` after `ms` milliseconds, soon where that time is over. The work itself is not
 * stopped then.
 */
export const within = <T>(ms: number, work: Promise<T>, late: () => Error): Promise<T> =>
  new Promise<T>((resolve, reject) => {
    const cancel = startDeadline(ms, () => reject(late()))
    work.then(resolve, reject).finally(cancel)
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
