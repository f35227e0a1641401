/**
 * Keeps this process alive while it listens, as an open connection to a broker would. A transport in a file or in memory
 * holds no handle open: while a program waits for nothing but a promise, Deno would exit, and Bun 1.4 would spin its event
 * loop.
 */

/** The longest interval that a timer takes. */
const LONGEST_MS = 2 ** 31 - 1

/** Begins now. Ends when one of the signals fires, or when the returned function is called. */
export const stayAlive = (...signals: ReadonlyArray<AbortSignal>): (() => void) => {
  if (signals.some(({ aborted }) => aborted)) return () => undefined
  const timer = setInterval(() => undefined, LONGEST_MS)
  const end = () => {
    clearInterval(timer)
    for (const signal of signals) signal.removeEventListener("abort", end)
  }
  for (const signal of signals) signal.addEventListener("abort", end)
  return end
}
