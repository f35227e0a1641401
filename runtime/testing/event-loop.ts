/**
 * An event loop over virtual time: timers run in the order in which they fall due, and the time between two of them takes
 * none. While it is installed the globals that measure time or wait for it (timers, `Date`, `performance.now`) are its own,
 * so that everything in this process goes by it, Callboard, Effect and the application alike.
 */

import { startIdsAnew } from "../id.ts"
import { MAX_TIMER_MS } from "../transport/timers.ts"

/** A callback that runs at a virtual time. */
interface Timer {
  readonly at: number
  readonly sequence: number
  readonly run: () => void
  /** Milliseconds between two runs of an interval. */
  readonly every: number | undefined
  readonly owner: unknown
  readonly handle: TimerHandle
}

/** Timers by when they fall due, then by when they were set: a binary heap. */
class Timers {
  readonly #heap: Array<Timer> = []

  get first(): Timer | undefined {
    return this.#heap[0]
  }

  add(timer: Timer): void {
    const heap = this.#heap
    let at = heap.length
    heap.push(timer)
    while (at > 0) {
      const above = (at - 1) >> 1
      const other = heap[above]
      if (other === undefined || isBefore(other, timer)) break
      heap[at] = other
      at = above
    }
    heap[at] = timer
  }

  takeFirst(): Timer | undefined {
    const heap = this.#heap
    const first = heap[0]
    const last = heap.pop()
    if (last === undefined || last === first) return first
    let at = 0
    while (true) {
      let below = 2 * at + 1
      let other = heap[below]
      if (other === undefined) break
      const right = heap[below + 1]
      if (right !== undefined && isBefore(right, other)) {
        below++
        other = right
      }
      if (isBefore(last, other)) break
      heap[at] = other
      at = below
    }
    heap[at] = last
    return first
  }
}

const isBefore = (a: Timer, b: Timer): boolean => a.at < b.at || (a.at === b.at && a.sequence < b.sequence)

/** What `setTimeout` returns. A cancelled timer stays in the list until its time, and is skipped then. */
class TimerHandle {
  isActive = true
  readonly #id: number
  readonly #again: () => void

  constructor(id: number, again: () => void) {
    this.#id = id
    this.#again = again
  }

  ref(): this {
    return this
  }

  unref(): this {
    return this
  }

  hasRef(): boolean {
    return true
  }

  refresh(): this {
    this.#again()
    return this
  }

  close(): this {
    this.isActive = false
    return this
  }

  [Symbol.toPrimitive](): number {
    return this.#id
  }

  [Symbol.dispose](): void {
    this.isActive = false
  }
}

/** A turn of the real event loop: at its end all promises have settled that can settle without one. */
const realTurn = globalThis.setImmediate

/** Names of the globals that {@link EventLoop.install} replaces. */
const NAMES = [
  "setTimeout",
  "clearTimeout",
  "setInterval",
  "clearInterval",
  "setImmediate",
  "clearImmediate",
  "Date",
] as const

export class EventLoop {
  /** Milliseconds since this loop began. */
  elapsed = 0
  /** The owner of the timer that runs now. Timers that it sets belong to the same owner. */
  owner: unknown
  /** Milliseconds since the epoch at which this loop began. */
  readonly startedAt: number
  readonly #timers = new Timers()
  #sequence = 0

  constructor(startedAt: number) {
    this.startedAt = startedAt
  }

  /** When the first timer falls due; `Infinity` where there is none. */
  get nextAt(): number {
    return this.#next()?.at ?? Number.POSITIVE_INFINITY
  }

  /** Runs `run` after so many milliseconds. */
  after(ms: number, run: () => void, owner = this.owner, every?: number): TimerHandle {
    const id = ++this.#sequence
    const handle: TimerHandle = new TimerHandle(id, () => {
      handle.isActive = true
      this.#add(ms, run, owner, every, handle)
    })
    this.#add(ms, run, owner, every, handle)
    return handle
  }

  #add(ms: number, run: () => void, owner: unknown, every: number | undefined, handle: TimerHandle): void {
    this.#timers.add({ at: this.elapsed + ms, sequence: ++this.#sequence, run, owner, every, handle })
  }

  #next(): Timer | undefined {
    let timer = this.#timers.first
    while (timer !== undefined && !timer.handle.isActive) {
      this.#timers.takeFirst()
      timer = this.#timers.first
    }
    return timer
  }

  /** The time from which the timers of an owner may run; `Infinity`: never again. */
  protected heldUntil(_owner: unknown): number {
    return 0
  }

  /** Runs the first timer, and moves the time to it. Nothing that it causes has run yet when this returns. */
  runNext(): void {
    const timer = this.#next()
    if (timer === undefined) return
    this.#timers.takeFirst()
    const { at, run, owner, every, handle } = timer
    if (at > this.elapsed) this.elapsed = at
    const held = this.heldUntil(owner)
    if (held > this.elapsed) {
      if (held < Number.POSITIVE_INFINITY) this.#timers.add({ ...timer, at: held, sequence: ++this.#sequence })
      return
    }
    if (every === undefined) handle.isActive = false
    else this.#add(every, run, owner, every, handle)
    this.owner = owner
    run()
  }

  /**
   * Runs timer after timer until `isDone` says so, which is asked when nothing is left to do without taking time. A real
   * turn of the event loop lies between two timers, so that promises settle in between.
   */
  runUntil(isDone: () => boolean): Promise<void> {
    return new Promise((resolve, reject) => {
      const turn = (): void => {
        try {
          if (isDone()) {
            resolve()
            return
          }
          this.runNext()
        } catch (thrown) {
          reject(thrown)
          return
        }
        realTurn(turn)
      }
      realTurn(turn)
    })
  }

  /** Runs everything that falls due until then, and moves the time there. */
  async runTo(at: number): Promise<void> {
    await this.runUntil(() => this.nextAt > at)
    this.elapsed = Math.max(this.elapsed, at)
  }

  /** Moves the time there at once, and then runs everything that has fallen due, an interval once. */
  async skipTo(at: number): Promise<void> {
    this.elapsed = Math.max(this.elapsed, at)
    await this.runUntil(() => this.nextAt > this.elapsed)
  }

  /** Replaces the globals. Returns a function that puts the real ones back. */
  install(): () => void {
    const before = NAMES.map((name) => [name, Object.getOwnPropertyDescriptor(globalThis, name)] as const)
    const { now } = performance
    const replacements = this.#replacements()
    for (const name of NAMES) {
      Object.defineProperty(globalThis, name, { value: replacements[name], configurable: true, writable: true })
    }
    performance.now = () => this.elapsed
    // Ids rise with the time, which may be set back here and there.
    startIdsAnew()
    return () => {
      for (const [name, descriptor] of before) {
        if (descriptor !== undefined) Object.defineProperty(globalThis, name, descriptor)
      }
      performance.now = now
      startIdsAnew()
    }
  }

  #replacements(): Record<(typeof NAMES)[number], unknown> {
    const set =
      (repeats: boolean) =>
      (callback: (...args: ReadonlyArray<unknown>) => void, ms: unknown = 0, ...args: ReadonlyArray<unknown>) => {
        const asked = Number(ms)
        // A longer delay becomes 1, as on Node, Bun and Deno.
        const wait = asked >= 1 && asked <= MAX_TIMER_MS ? asked : 1
        return this.after(wait, () => callback(...args), this.owner, repeats ? wait : undefined)
      }
    const { clearTimeout, clearInterval, clearImmediate, Date: RealDate } = globalThis
    const clear =
      (real: (timer: undefined) => void) =>
      (timer: unknown): void => {
        if (timer instanceof TimerHandle) timer.close()
        // A timer that was set before this loop was installed.
        else Reflect.apply(real, undefined, [timer])
      }
    const now = () => Math.floor(this.startedAt + this.elapsed)
    return {
      setTimeout: set(false),
      setInterval: set(true),
      setImmediate: (callback: (...args: ReadonlyArray<unknown>) => void, ...args: ReadonlyArray<unknown>) =>
        this.after(0, () => callback(...args)),
      clearTimeout: clear(clearTimeout),
      clearInterval: clear(clearInterval),
      clearImmediate: clear(clearImmediate),
      Date: new Proxy(RealDate, {
        construct: (target, args, newTarget) =>
          Reflect.construct(target, args.length === 0 ? [now()] : args, newTarget),
        apply: (target) => new target(now()).toString(),
        get: (target, key, receiver) => (key === "now" ? now : Reflect.get(target, key, receiver)),
      }),
    }
  }
}
