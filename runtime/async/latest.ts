/** What comes from listeners, read one after the other. Bounded: of what a slow reader has not read, the oldest is dropped. */

import { stayAlive } from "./stay-alive.ts"

const BUFFER = 1_000

/**
 * Yields what `listen` is told until the signal fires or the reader leaves; the signal that `listen` gets fires then.
 * Fails as `listen` does.
 */
export const latest = async function* <A>(
  listen: (push: (value: A) => void, signal: AbortSignal) => Promise<unknown>,
  signal: AbortSignal,
): AsyncGenerator<A, void, undefined> {
  if (signal.aborted) return
  const buffer: Array<A> = []
  let wake: (() => void) | undefined
  // Of its own: a reader that leaves ends the listening, and not the signal, which may be anybody's.
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
