/**
 * Keeps this process alive while something is listened to, as a connection to a broker does. A board in a file or in this
 * process holds nothing open; then Deno ends, and Bun 1.4 turns its event loop without a pause, while a program waits for
 * nothing but a promise.
 */

/** Node's longest. */
const LONGEST_MS = 2 ** 31 - 1

/** Begins now, and ends when one of the signals fires or what is returned is called. */
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
