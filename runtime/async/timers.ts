/**
 * Helpers made of timers and promises: a deadline for a promise, sleeping, keeping the process alive, work in lanes, and
 * reading what a listener gets as an async generator.
 */

import { isObject } from "../protocol/guards.ts"
import { MAX_TIMER_MS } from "../transport/timers.ts"

/**
 * Keeps this process alive while it listens, as an open connection to a broker would. A transport in a file or in memory
 * holds no handle open: while a program waits for nothing but a promise, Deno would exit, and Bun 1.4 would spin its event
 * loop. Begins now. Ends when one of the signals fires, or when the returned function is called.
 */
export const stayAlive = (...signals: ReadonlyArray<AbortSignal>): (() => void) => {
  if (signals.some(({ aborted }) => aborted)) return () => undefined
  const timer = setInterval(() => undefined, MAX_TIMER_MS)
  const end = () => {
    clearInterval(timer)
    for (const signal of signals) signal.removeEventListener("abort", end)
  }
  for (const signal of signals) signal.addEventListener("abort", end)
  return end
}

/** A promise that records whether anything awaits it. */
export class WatchedPromise<T> extends Promise<T> {
  isAwaited = false
  static override get [Symbol.species]() {
    return Promise
  }
  override then<A = T, B = never>(
    done?: ((value: T) => A | PromiseLike<A>) | null,
    failed?: ((cause: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    this.isAwaited = true
    return super.then(done, failed)
  }
}

/**
 * Does the work of each item, so many at the same time, and begins none after a failure. Resolves with the results in
 * the order of the items; fails with the first failure, once what has begun has ended.
 */
export const inLanes = async <In, Out>(
  parallel: number,
  items: ReadonlyArray<In>,
  work: (item: In, at: number) => Promise<Out>,
): Promise<ReadonlyArray<Out>> => {
  const results: Array<Out> = []
  const left = items.entries()
  let failed = false
  const lane = async () => {
    for (const [at, item] of left) {
      if (failed) return
      try {
        results[at] = await work(item, at)
      } catch (cause) {
        failed = true
        throw cause
      }
    }
  }
  const lanes = await Promise.allSettled(Array.from({ length: Math.min(parallel, items.length) }, lane))
  for (const each of lanes) if (each.status === "rejected") throw each.reason
  return results
}

/** Whether a value can be awaited: anything with a method `then`. */
export const isPromiseLike = (value: unknown): value is PromiseLike<unknown> =>
  (isObject(value) || typeof value === "function") && "then" in value && typeof value.then === "function"

/** Most values that {@link latest} holds for a reader. Where it is too slow, the oldest one is dropped. */
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
