/**
 * Turns values that a listener gets into an async generator. Its buffer is bounded: where a reader is too slow, the
 * oldest value is dropped.
 */

import { stayAlive } from "./timers.ts"

const BUFFER = 1_000

/**
 * Yields each value that `listen` pushes, until the signal fires or the reader stops; then the signal that `listen` was
 * given fires. Fails as `listen` does.
 */
export const latest = async function* <A>(
  listen: (push: (value: A) => void, signal: AbortSignal) => Promise<unknown>,
  signal: AbortSignal,
): AsyncGenerator<A, void, undefined> {
  if (signal.aborted) return
  const buffer: Array<A> = []
  let wake: (() => void) | undefined
  // A signal of its own: when the reader stops, the listening must end, but not the signal that was passed in.
  const stop = new AbortController()
  const end = () => {
    stop.abort()
    wake?.()
  }
  signal.addEventListener("abort", end)
  stayAlive(stop.signal)
  try {
    await listen((value) => {
      if (buffer.length >= BUFFER) buffer.shift()
      buffer.push(value)
      wake?.()
    }, stop.signal)
    while (!stop.signal.aborted) {
      const value = buffer.shift()
      if (value !== undefined) yield value
      else
        await new Promise<void>((resolve) => {
          wake = resolve
        })
    }
  } finally {
    signal.removeEventListener("abort", end)
    stop.abort()
  }
}
