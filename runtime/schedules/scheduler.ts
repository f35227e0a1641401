/**
 * The scheduler of a worker: it knows when each schedule is due from watching their entries, sleeps until the first one is,
 * and posts it. Every worker has one, and none of them leads: see `posting.ts`. When a worker starts it also makes the
 * schedules that its actors' methods declare.
 */
import { allEntries } from "../async/store-entry.ts"
import { StoreWatch } from "../connection/store-watch.ts"
import { asTransportError } from "../errors.ts"
import type { Log } from "../log/log.ts"
import type { Store } from "../transport/store.ts"
import { DueQueue } from "./due-queue.ts"
import { changedTimes, newEntry, SCHEDULES, type ScheduleEntry, WAKES, withWake } from "./entry.ts"
import { hasSameTimes, parseScheduleFields, rulesOf, type ScheduleDeclaration } from "./fields.ts"
import { type PostingParts, postDue } from "./posting.ts"

export interface SchedulerOptions extends PostingParts {
  /** Schedules that the worker's actors declare. */
  readonly declared: Declared
  /** The time by the clock of the transport. */
  readonly askTime: () => Promise<number>
  /** The same time as far as this process knows it, without asking the transport. */
  readonly transportNow: () => number
  readonly log: Log
  readonly signal: AbortSignal
}

/** Schedules that are posted side by side. */
const AT_A_TIME = 256
/** Longest sleep: the clock of the store may have been set meanwhile. */
const MAX_SLEEP_MS = 60_000
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
  /** Names of all schedules when they were last read. */
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

  /** Sets the one timer, unless it fires early enough already. During a round it is set at the end of the round. */
  #sleep(): void {
    const { transportNow, signal } = this.#options
    if (this.#round !== undefined || !this.#hasBegun || signal.aborted) return
    const now = transportNow()
    const wait = Math.max(0, Math.min((this.#due.first ?? Number.POSITIVE_INFINITY) - now, MAX_SLEEP_MS))
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
        log.debug("the schedules could not be read now; trying again", { cause: String(cause) })
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
      // A change that was watched during the call may be newer than this answer.
      this.#due.setLatest(name, await postDue(this.#options, name, now))
    } catch (cause) {
      const isAway = asTransportError(cause).retryable
      this.#due.setLatest(name, isAway ? now : now + MAX_SLEEP_MS)
      if (isAway) throw cause
      this.#options.log.warn(`schedule ${name} cannot be posted`, { cause: String(cause) })
    }
  }
}

/** The names from a random one on. Several workers are woken by the same due times, and so seldom meet at one entry. */
const inOwnOrder = (names: ReadonlyArray<string>): ReadonlyArray<string> => {
  const from = Math.floor(Math.random() * names.length)
  return [...names.slice(from), ...names.slice(0, from)]
}

/** The methods with a schedule, by the name of their actor; also actors without such a method are in the map. */
type Declared = ReadonlyMap<string, ReadonlyMap<string, ScheduleDeclaration>>

/**
 * Makes the schedules that actors' methods declare, and removes those whose method does not declare them any more. `known`: the
 * names of the schedules that there are. Several workers may do this at once: the first one writes. Fails as the store does.
 */
export const declareAll = async (
  store: Store,
  declared: Declared,
  known: ReadonlySet<string>,
  now: number,
  log: Log,
): Promise<void> => {
  for (const [actor, methods] of declared) {
    for (const [method, declaration] of methods) await declare(store, actor, method, declaration, now, log)
    for (const name of known) {
      if (name.startsWith(`${actor}.`) && !methods.has(name.slice(actor.length + 1)))
        await removeDeclared(store, actor, name)
    }
  }
}

const declare = async (
  store: Store,
  actor: string,
  method: string,
  declaration: ScheduleDeclaration,
  now: number,
  log: Log,
): Promise<void> => {
  const name = `${actor}.${method}`
  const as = JSON.stringify(declaration)
  const fields = parseScheduleFields({ ...declaration, task: actor, meth: method })
  const rules = rulesOf(fields, now)
  await SCHEDULES.change(store, name, (found) => {
    if (found === undefined) return { value: newEntry(name, fields, rules, now, { actor, as }) }
    const entry = found.value
    if (entry === undefined || entry.declared?.as === as) return "keep"
    if (entry.declared === undefined) {
      log.warn(`schedule ${name} exists already and was not declared by the method; it is not changed`)
      return "keep"
    }
    // An operator's changes hold until the declaration itself changes. Where its times are the same, an interval goes on.
    const changed: ScheduleEntry = hasSameTimes(fields, entry.fields)
      ? { ...entry, fields, rules: { ...rules, timing: entry.rules.timing }, changedAt: now }
      : changedTimes(name, entry, { fields, rules }, now)
    return { value: withWake(name, { ...changed, declared: { actor, as } }) }
  })
}

/** Removes a schedule, if this actor has declared it. What it has posted goes on. */
const removeDeclared = async (store: Store, actor: string, name: string): Promise<void> => {
  await SCHEDULES.change(store, name, (found) => {
    const entry = found?.value
    // A posting that is in the entry now is published first; the next worker that starts removes it.
    return entry?.declared?.actor === actor && entry.pending === undefined ? "remove" : "keep"
  })
}
