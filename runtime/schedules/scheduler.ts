/**
 * The scheduler of a worker: it knows when each schedule is due from watching their entries, sleeps until the first one is,
 * and posts it. Every worker has one, and none of them leads: see `posting.ts`.
 */
import { allEntries } from "../async/store-entry.ts"
import { StoreWatch } from "../connection/store-watch.ts"
import { asTransportError } from "../errors.ts"
import type { Log } from "../log/log.ts"
import { type Declared, declareAll } from "./declared.ts"
import { DueQueue } from "./due-queue.ts"
import { WAKES } from "./entry.ts"
import { type PostingParts, postDue } from "./posting.ts"

export interface SchedulerOptions extends PostingParts {
  /** Schedules that the worker's actors declare. */
  readonly declared: Declared
  /** The time by the clock of the transport. */
  readonly askTime: () => Promise<number>
  /** The same time as far as this process knows it, without asking. */
  readonly board: () => number
  readonly log: Log
  readonly signal: AbortSignal
}

/** Schedules that are posted side by side. */
const AT_A_TIME = 256
/** Longest sleep: the clock of the store may have been set meanwhile. */
const LONGEST_SLEEP_MS = 60_000
/** Watching is best effort, so that all entries are read again now and then. */
const READ_AGAIN_MS = 600_000
/** One page, since a store may read all keys of a prefix for each. */
const PAGE = 100_000
/** Waits after a failure, which double. */
const AGAIN_MS = { first: 500, longest: 10_000 }

export class Scheduler {
  readonly #options: SchedulerOptions
  readonly #due = new DueQueue()
  readonly #watch: StoreWatch
  /** Names that changed while all entries are being read: what was watched is newer than what is read. */
  #touched: Set<string> | undefined
  /** Of all schedules, when they were last read. */
  #names: ReadonlySet<string> = new Set()
  #timer: ReturnType<typeof setTimeout> | undefined
  #timerAt = Number.POSITIVE_INFINITY
  #lastRead = performance.now()
  #failures = 0
  #isDeclared = false
  #hasBegun = false
  /** The round that is under way. */
  #round: Promise<void> | undefined

  constructor(options: SchedulerOptions) {
    this.#options = options
    const { connection, log, signal } = options
    this.#watch = new StoreWatch({
      connection,
      prefix: WAKES.prefix,
      log,
      onChange: ({ key, value }) => this.#changed(key, value),
      read: () => this.#read(),
      signal,
    })
    signal.addEventListener("abort", () => clearTimeout(this.#timer), { once: true })
    void this.#watch.refresh()
    void this.#watch.ready.then(() => this.#wake())
  }

  /** Whether this worker may post jobs at any moment: until all that was due when it started is posted. */
  get isBusy(): boolean {
    return !this.#hasBegun || this.#round !== undefined
  }

  /** Resolves when the round that is under way has ended. Never rejects. */
  async end(): Promise<void> {
    clearTimeout(this.#timer)
    await this.#round
  }

  async #read(): Promise<void> {
    const { connection, signal } = this.#options
    const touched = new Set<string>()
    this.#touched = touched
    const names = new Set<string>()
    try {
      for await (const { key, value } of allEntries(connection.store, WAKES.prefix, PAGE)) {
        const name = key.slice(WAKES.prefix.length)
        names.add(name)
        if (!touched.has(name)) this.#due.set(name, WAKES.decode(value)?.wake ?? null)
        if (signal.aborted) return
      }
      for (const name of touched) names.add(name)
      this.#due.keepOnly(names)
      this.#names = names
    } finally {
      this.#touched = undefined
    }
    this.#lastRead = performance.now()
    this.#sleep()
  }

  #changed(key: string, value: Uint8Array | undefined): void {
    const name = key.slice(WAKES.prefix.length)
    this.#touched?.add(name)
    this.#due.set(name, value === undefined ? null : (WAKES.decode(value)?.wake ?? null))
    this.#sleep()
  }

  /** Sets the one timer, unless it rings early enough. During a round it is set at the end of that. */
  #sleep(): void {
    const { board, signal } = this.#options
    if (this.#round !== undefined || !this.#hasBegun || signal.aborted) return
    const now = board()
    const wait = Math.max(0, Math.min((this.#due.first ?? Number.POSITIVE_INFINITY) - now, LONGEST_SLEEP_MS))
    const at = now + Math.max(wait, this.#failures === 0 ? 0 : this.#backOff())
    if (this.#timerAt <= at && this.#timerAt > now) return
    clearTimeout(this.#timer)
    this.#timerAt = at
    this.#timer = setTimeout(() => this.#wake(), Math.ceil(at - now))
  }

  #backOff(): number {
    return Math.min(AGAIN_MS.longest, AGAIN_MS.first * 2 ** (this.#failures - 1))
  }

  #wake(): void {
    const { signal, log } = this.#options
    if (signal.aborted || this.#round !== undefined) return
    clearTimeout(this.#timer)
    this.#timerAt = Number.POSITIVE_INFINITY
    this.#round = this.#work().then(
      () => {
        this.#failures = 0
      },
      (cause: unknown) => {
        this.#failures++
        log.debug("schedules could not be looked at now and are tried again", { cause: String(cause) })
      },
    )
    void this.#round.then(() => {
      this.#round = undefined
      this.#hasBegun = true
      this.#sleep()
    })
  }

  /** Posts everything that is due. Fails as the transport does; what is left then stays due. */
  async #work(): Promise<void> {
    const { connection, declared, askTime, log, signal } = this.#options
    if (!this.#isDeclared) {
      await declareAll(connection.store, declared, this.#names, await askTime(), log)
      this.#isDeclared = true
    }
    if (performance.now() - this.#lastRead > READ_AGAIN_MS) void this.#watch.refresh()
    while (!signal.aborted) {
      const now = await askTime()
      const names = this.#due.take(now, AT_A_TIME)
      if (names.length === 0) return
      const looked = await Promise.allSettled(inOwnOrder(names).map((name) => this.#post(name, now)))
      const failed = looked.find((each) => each.status === "rejected")
      if (failed !== undefined) throw failed.reason
    }
  }

  async #post(name: string, now: number): Promise<void> {
    try {
      // What was watched meanwhile may be newer.
      this.#due.setLatest(name, await postDue(this.#options, name, now))
    } catch (cause) {
      const isAway = asTransportError(cause).retryable
      this.#due.setLatest(name, isAway ? now : now + LONGEST_SLEEP_MS)
      if (isAway) throw cause
      this.#options.log.warn(`schedule ${name} cannot be posted`, { cause: String(cause) })
    }
  }
}

/** Several workers are woken by the same due times: each begins with others, so that they seldom meet at one entry. */
const inOwnOrder = (names: ReadonlyArray<string>): ReadonlyArray<string> => {
  const from = Math.floor(Math.random() * names.length)
  return [...names.slice(from), ...names.slice(0, from)]
}
