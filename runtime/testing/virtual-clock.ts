/**
 * A clock that tests turn (`callboard/testing`): what waits for time to pass goes on when the test moves the clock, at once
 * and in the order of time. A test can be run under many seeds, so that an order of events that breaks it is found, and can
 * be run again.
 */
import { type DurationInput, milliseconds } from "../options/duration.ts"
import { wholeNumber } from "../options/fields.ts"
import { refuseInput, refuseUnknown } from "../options/refuse.ts"
import { EventLoop } from "./event-loop.ts"
import { Random, replaceRandomness } from "./random.ts"

/**
 * The time of this process while a test holds it: `Date`, `performance.now` and all timers go by it, of actors as of Callboard.
 * It stands still unless it is turned; what takes no time goes on by itself. Real input and output (sockets, files, other
 * processes) does not wait for it, nor it for them. Disposing of it puts the real clock back.
 */
export interface VirtualClock extends Disposable {
  /** Milliseconds since the epoch. */
  readonly now: number
  /** The seed of all randomness of this process while the clock is held. Absent: randomness is real. */
  readonly seed?: number
  /** Lets so much time pass (seconds, or text such as `"10 minutes"`), and runs everything that falls due meanwhile. */
  advance(duration: DurationInput): Promise<void>
  /**
   * Moves the time by so much at once, as if the process had been suspended: everything that falls due meanwhile runs at its end,
   * an interval once. Days take no longer than seconds, which is enough for jobs that wait. The leases of running jobs lapse.
   */
  skip(duration: DurationInput): Promise<void>
  /**
   * Lets time pass until the promise settles, and returns what it resolves with. Fails with {@link StillWaiting} when it has
   * not settled `within` so much of it (default: 1 hour).
   */
  until<A>(promise: Promise<A>, options?: { readonly within?: DurationInput | undefined }): Promise<A>
}

export interface VirtualClockOptions {
  /** Default: the present, or the beginning of 2030 with a seed, so that every run of it is the same. */
  readonly start?: Date | undefined
  /** Default: none. */
  readonly seed?: number | undefined
}

const CLOCK_OPTIONS = { start: true, seed: true } satisfies Readonly<Record<keyof VirtualClockOptions, true>>

/** Failure of {@link VirtualClock.until}: the promise has not settled. */
export class StillWaiting extends Error {
  readonly _tag = "StillWaiting"
  override readonly name = "StillWaiting"
  constructor(withinMs: number) {
    super(`the promise has not settled within ${withinMs / 1_000} s of virtual time: to wait longer, set \`within\``)
  }
}

const MAX_WAIT = "1 hour"
const SEEDED_START = Date.UTC(2030, 0, 1)

/** Whether a clock holds the time of this process. There is one time, and so one clock at once. */
let isHeld = false

/**
 * Takes over the time of this process. Fails with `CallboardError` `invalid-input`, naming the option. `seed`: a whole number
 * that all randomness follows from, ids and back-offs with jitter included; the transport of `runActor` then takes its time over
 * every call, drawn from the seed, so that jobs overtake each other in another way with each seed, and in the same way again.
 *
 * ```ts
 * using clock = virtualClock()
 * await using run = await runActor(reminders, { clock, backoff: "real" })
 * const job = await run.submit.remind({ who: "Ada" }, { delay: "1 day" })
 * await clock.advance("1 day")
 * expect((await job.find()).state).toBe("succeeded")
 * ```
 */
export const virtualClock = (options: VirtualClockOptions = {}): VirtualClock => {
  if (isHeld) throw new Error("a virtual clock exists already: dispose of it first (`using clock = virtualClock()`)")
  refuseUnknown(options, CLOCK_OPTIONS, "virtualClock()")
  const { start, seed } = options
  if (start !== undefined && !(start instanceof Date && Number.isFinite(start.getTime())))
    refuseInput("start", "must be a valid Date")
  if (seed !== undefined && !Number.isSafeInteger(seed)) refuseInput("seed", `a whole number, not ${seed}`)
  isHeld = true
  return new Clock(start?.getTime() ?? (seed === undefined ? Date.now() : SEEDED_START), seed)
}

class Clock extends EventLoop implements VirtualClock {
  readonly seed?: number
  readonly #restore: () => void
  readonly #restoreRandomness: (() => void) | undefined
  /** Turns of the clock, one after the other. */
  #turns: Promise<unknown> = Promise.resolve()
  #isSettling = false

  constructor(startedAt: number, seed: number | undefined) {
    super(startedAt)
    if (seed !== undefined) this.seed = seed
    this.#restoreRandomness = seed === undefined ? undefined : replaceRandomness(new Random(seed))
    this.#restore = this.install()
  }

  get now(): number {
    return this.startedAt + this.elapsed
  }

  override after(...args: Parameters<EventLoop["after"]>): ReturnType<EventLoop["after"]> {
    const [ms] = args
    if (ms === 0) this.#settle()
    return super.after(...args)
  }

  /** Runs what is due at once, while the clock stands. */
  #settle(): void {
    if (this.#isSettling) return
    this.#isSettling = true
    void this.runUntil(() => this.nextAt > this.elapsed).finally(() => {
      this.#isSettling = false
    })
  }

  #inTurn<A>(turn: () => Promise<A>): Promise<A> {
    const turned = this.#turns.then(turn)
    this.#turns = turned.catch(() => undefined)
    return turned
  }

  advance(duration: DurationInput): Promise<void> {
    const ms = milliseconds("duration", duration)
    return this.#inTurn(() => this.runTo(this.elapsed + ms))
  }

  skip(duration: DurationInput): Promise<void> {
    const ms = milliseconds("duration", duration)
    return this.#inTurn(() => this.skipTo(this.elapsed + ms))
  }

  until<A>(promise: Promise<A>, options: { readonly within?: DurationInput | undefined } = {}): Promise<A> {
    refuseUnknown(options, { within: true }, "until()")
    const { within = MAX_WAIT } = options
    const withinMs = milliseconds("within", within)
    let isSettled = false
    const settled = (): void => {
      isSettled = true
    }
    promise.then(settled, settled)
    return this.#inTurn(async () => {
      const end = this.elapsed + withinMs
      // Without a timer it waits for something real, such as a module that is loaded.
      await this.runUntil(() => isSettled || (this.nextAt > end && this.nextAt < Number.POSITIVE_INFINITY))
      if (!isSettled) throw new StillWaiting(withinMs)
      return promise
    })
  }

  [Symbol.dispose](): void {
    this.#restore()
    this.#restoreRandomness?.()
    isHeld = false
  }
}

export interface SeedOptions {
  /** How many seeds. Default: 100. */
  readonly seeds?: number | undefined
  /** The first seed; the others follow it. Default: 1. */
  readonly from?: number | undefined
}

const SEED_OPTIONS = { seeds: true, from: true } satisfies Readonly<Record<keyof SeedOptions, true>>

/** Failure of {@link forEachSeed}: the test has failed under this seed, with `cause`. */
export class SeedFailed extends Error {
  readonly _tag = "SeedFailed"
  override readonly name = "SeedFailed"
  readonly seed: number
  constructor(seed: number, cause: unknown) {
    const why = cause instanceof Error ? cause.message : String(cause)
    super(`seed ${seed}: ${why}\nonly this one: forEachSeed({ from: ${seed}, seeds: 1 }, …)`, { cause })
    this.seed = seed
  }
}

/**
 * Runs a test once under each seed, with a virtual clock of that seed. Fails with {@link SeedFailed} at the first seed under which
 * the test does, and with `CallboardError` `invalid-input` for a number of seeds under which it would never run.
 *
 * ```ts
 * await forEachSeed({ seeds: 200 }, async (clock) => {
 *   await using run = await runActor(accounts, { clock })
 *   await Promise.allSettled([run.call.withdraw({ amount: 70 }), run.call.withdraw({ amount: 70 })])
 *   expect(await run.call.balance()).toBe(30)
 * })
 * ```
 */
export const forEachSeed = async (
  options: SeedOptions,
  test: (clock: VirtualClock, seed: number) => Promise<void>,
): Promise<void> => {
  refuseUnknown(options, SEED_OPTIONS, "forEachSeed()")
  const { seeds = 100, from = 1 } = options
  wholeNumber("seeds", seeds, { min: 1 })
  if (!Number.isSafeInteger(from)) refuseInput("from", "must be a whole number")
  for (let seed = from; seed < from + seeds; seed++) {
    using clock = virtualClock({ seed })
    try {
      await test(clock, seed)
    } catch (cause) {
      throw new SeedFailed(seed, cause)
    }
  }
}
