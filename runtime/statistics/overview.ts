/**
 * The state of the system now: counts, rates, queues, lost workers, findings. Each part is read once, however many
 * callers there are.
 */
import { handlersOf, listWorkers, type WorkerDescription } from "../cluster/directory.ts"
import { pauses } from "../cluster/pausing.ts"
import { queueLimits } from "../cluster/queue-limits.ts"
import { statesOf } from "../cluster/queue-states.ts"
import type { Connection } from "../connection/connection.ts"
import { compact } from "../protocol/compact.ts"
import type { JobRecord } from "../protocol/record.ts"
import type { State } from "../protocol/state.ts"
import { postedAt, SCHEDULES } from "../schedules/entry.ts"
import type { QueueStates, RecordPage } from "../transport/job-store/transport.ts"
import type { Bin } from "./entries.ts"
import { BEHIND_MS, type Facts, findingsOf, verdictOf } from "./findings.ts"
import { percentilesOf } from "./histogram.ts"
import { queueStats } from "./queue-stats.ts"
import { queueDetails, RATE_MINUTES } from "./queues.ts"
import { type SeenWorker, type Slot, SlotReader } from "./reading.ts"
import type { QueueDetails, Stats } from "./schema.ts"
import { binsOf, type Grid, iso, wholeOf } from "./series.ts"
import { MINUTE_MS } from "./tally.ts"

/**
 * Milliseconds without a write after which a worker that is not alive is a finding. It is told as gone at once; but right
 * after an outage of the transport living workers are not there for a moment, too.
 */
const GONE_MS = 25_000
export const LOST_MS = 15 * MINUTE_MS

/**
 * How long answers are used again, in milliseconds: those that change by the moment, and those that are costly to get.
 */
const FRESH_MS = 1_000
const SLOW_MS = 15_000
/** Most jobs and schedules that are looked at for one number. */
const MAX_LOOKED_AT = 200

/** An answer is used this many times as long as it took to get. */
const SPARE = 20
/** A question whose last answer took longer than `DEAR_MS` is not waited for while that answer is younger than `OLD_MS`. */
const DEAR_MS = 50
const OLD_MS = 30_000
/** Most jobs that are counted for a state. */
const MAX_COUNTED = 10_000

/** Most ranges whose numbers are used again. */
const MAX_RANGES = 20

/** How many jobs there are in each state, of those `dead` letters, and `retrying`: waiting for another attempt. */
export type Counts = Readonly<Record<string, number>>

export interface CountedStates {
  readonly counts: Counts
  /** Names of counts that are only known to be at least so high. */
  readonly more: ReadonlyArray<string>
  /** When the oldest of them was counted, in milliseconds since the epoch. */
  readonly asOf: number
}

interface Answer<A> {
  readonly value: Promise<A>
  /** When it came, by the monotonic clock. */
  readonly at: number
  readonly tookMs: number
}

/**
 * Keeps the last answer to a question and uses it again for a while: for `SPARE` times as long as it took, so that asking takes a
 * small part of the time however much there is to count. While a slow question is asked anew, the last answer is returned.
 */
export class CachedAnswer<A> {
  readonly #ms: number
  #last: Answer<A> | undefined
  #asking: Promise<A> | undefined

  constructor(ms: number) {
    this.#ms = ms
  }

  get(ask: () => Promise<A>): Promise<A> {
    const last = this.#last
    const age = performance.now() - (last?.at ?? 0)
    if (last !== undefined && age < Math.max(this.#ms, last.tookMs * SPARE)) return last.value
    const asking = this.#asking ?? this.#ask(ask)
    return last !== undefined && last.tookMs > DEAR_MS && age < OLD_MS ? last.value : asking
  }

  /** Forgets the answer, so that the next call asks anew. */
  forget(): void {
    this.#last = undefined
    this.#asking = undefined
  }

  #ask(ask: () => Promise<A>): Promise<A> {
    const began = performance.now()
    const value = ask()
    this.#asking = value
    const end = (last: Answer<A> | undefined) => {
      if (this.#asking !== value) return
      this.#last = last
      this.#asking = undefined
    }
    value.then(
      () => {
        const at = performance.now()
        end({ value, at, tookMs: at - began })
      },
      // After a failure the next call asks again.
      () => end(undefined),
    )
    return value
  }
}

export class Overview {
  readonly #connection: Connection
  readonly #reader: SlotReader
  readonly #quick = new CachedAnswer<CountedStates>(FRESH_MS)
  readonly #slow = new CachedAnswer<CountedStates>(SLOW_MS)
  readonly #living = new CachedAnswer<ReadonlyArray<WorkerDescription>>(FRESH_MS)
  readonly #queued = new CachedAnswer<ReadonlyArray<QueueDetails> | undefined>(FRESH_MS)
  readonly #dead = new CachedAnswer<RecordPage>(SLOW_MS)
  readonly #schedules = new CachedAnswer<Awaited<ReturnType<typeof SCHEDULES.list>>>(SLOW_MS)
  /** Answers by range. */
  readonly #answers = new Map<number, CachedAnswer<Stats>>()

  constructor(connection: Connection, reader: SlotReader) {
    this.#connection = connection
    this.#reader = reader
  }

  now(): Promise<number> {
    return this.#connection.store.now()
  }

  workers(): Promise<ReadonlyArray<WorkerDescription>> {
    return this.#living.get(() => listWorkers(this.#connection.store))
  }

  /** Jobs by state. */
  async counts(): Promise<CountedStates> {
    const [quick, slow] = await Promise.all([
      this.#quick.get(() => this.#count(QUICK, MAX_COUNTED)),
      this.#slow.get(() => this.#countSlow()),
    ])
    return {
      counts: { ...quick.counts, ...slow.counts },
      more: [...quick.more, ...slow.more],
      asOf: Math.min(quick.asOf, slow.asOf),
    }
  }

  async #count(states: ReadonlyArray<State>, max?: number): Promise<CountedStates> {
    const { jobs } = this.#connection
    // All states are counted at one moment.
    let counted: Promise<ReadonlyArray<QueueStates>> | undefined
    const inQueues = () => (counted ??= this.#queueStates())
    const [asOf, found] = await Promise.all([
      this.now(),
      Promise.all(states.map(async (state) => ({ state, ...(await jobs.count({ states: [state] }, max, inQueues)) }))),
    ])
    return {
      counts: Object.fromEntries(found.map(({ state, count }) => [state, count])),
      more: found.flatMap(({ state, more }) => (more ? [state] : [])),
      asOf,
    }
  }

  async #countSlow(): Promise<CountedStates> {
    const { jobs } = this.#connection
    const [ended, dead, scheduled] = await Promise.all([
      this.#count(SLOW),
      jobs.count({ dead: true }),
      jobs.list({ states: ["scheduled"], limit: MAX_LOOKED_AT }),
    ])
    const retrying = scheduled.records.filter(({ retries }) => retries > 0).length
    return {
      counts: { ...ended.counts, dead: dead.count, retrying },
      more: [...ended.more, ...(dead.more ? ["dead"] : []), ...(scheduled.next === undefined ? [] : ["retrying"])],
      asOf: ended.asOf,
    }
  }

  async #queueStates(): Promise<ReadonlyArray<QueueStates>> {
    const [depths = [], workers] = await Promise.all([this.#connection.jobs.queues?.(), this.workers()])
    return statesOf(depths, workers)
  }

  /** Every queue, as it was in the last second. `undefined` where the transport cannot count. Fails with `TransportError`. */
  queues(): Promise<ReadonlyArray<QueueDetails> | undefined> {
    return this.#queued.get(() => this.#queues())
  }

  /** Queues and workers are asked for anew, since a decision about them was just made. */
  forget(): void {
    this.#queued.forget()
    this.#living.forget()
  }

  async #queues(): Promise<ReadonlyArray<QueueDetails> | undefined> {
    const { jobs, store } = this.#connection
    if (jobs.queues === undefined) return undefined
    const now = await this.now()
    const [counts, listed, paused, limits, workers, recent, samples] = await Promise.all([
      this.#queueStates(),
      jobs.queueNames(),
      pauses(store),
      queueLimits(store),
      this.workers(),
      this.#recent(now),
      this.#reader.depths(now - (RATE_MINUTES + 1) * MINUTE_MS, now, now),
    ])
    const facts = {
      paused,
      limits,
      workers,
      counted: recent.byQueue,
      minutes: recent.minutes,
      samples: samples.filter(({ at }) => at >= now - (RATE_MINUTES + 1) * MINUTE_MS),
      now,
    }
    const set = { paused: [...paused.keys()], limits }
    return queueStats(counts, listed, set, now).map((queue) => queueDetails(queue, facts))
  }

  /** Counts of the last whole minutes, and in how many of them a worker was there. */
  async #recent(now: number) {
    const to = Math.floor(now / MINUTE_MS) * MINUTE_MS
    const from = to - RATE_MINUTES * MINUTE_MS
    const { slots, newest } = await this.#reader.read(from, now, now)
    const since = Math.min(...slots.flatMap(({ workers }) => workers.map((worker) => worker.since)), now)
    // The present minute counts as far as it has come.
    const begin = Math.max(from, Math.floor(since / MINUTE_MS) * MINUTE_MS)
    const grid = { from: begin, step: MINUTE_MS, points: Math.max(Math.ceil((now - begin) / MINUTE_MS), 1) }
    const minutes = newest === 0 ? 0 : Math.max((now - Math.max(begin, since)) / MINUTE_MS, 0.25)
    const whole = (keyOf: (cell: Slot["cells"][number]) => string) =>
      new Map([...binsOf(slots, grid, {}, keyOf)].map(([key, bins]): [string, Bin] => [key, wholeOf(bins)]))
    return { byQueue: whole(({ queue }) => queue), byTask: whole(({ task }) => task), minutes, newest }
  }

  /** Workers that were alive in the last 15 minutes, or `within` milliseconds, and are not any more, newest first. */
  async gone(within: number = LOST_MS): Promise<ReadonlyArray<SeenWorker>> {
    const now = await this.now()
    const [{ slots }, alive] = await Promise.all([this.#reader.read(now - within, now, now), this.workers()])
    const gone = goneWorkers(slots, alive, now, 0)
    const isRecent = ({ at, goodbye }: SeenWorker): boolean => goodbye !== true && at >= now - GONE_MS
    return (gone.some(isRecent) ? await this.#surelyGone(slots, now) : gone).filter(({ at }) => at > now - within)
  }

  /** The workers that are gone, by answers that are not used again: those may be of different moments. */
  async #surelyGone(slots: ReadonlyArray<Slot>, now: number): Promise<ReadonlyArray<SeenWorker>> {
    const { store } = this.#connection
    // A worker that stops writes its goodbye before it leaves the list of the living.
    const alive = await listWorkers(store)
    const fresh = await new SlotReader(store).read(now - GONE_MS, now, now)
    return goneWorkers([...slots, ...fresh.slots], alive, now, 0)
  }

  /** What lost workers ran, as far as that is known and nobody else runs it since: their started records, by worker. */
  async ranOn(lost: ReadonlyArray<SeenWorker>): Promise<ReadonlyMap<SeenWorker, ReadonlyArray<JobRecord>>> {
    if (lost.length === 0) return new Map()
    const [{ records }, alive] = await Promise.all([
      this.#connection.jobs.list({ states: ["started"], limit: MAX_LOOKED_AT }).catch(() => ({ records: [] })),
      this.workers(),
    ])
    const began = ({ startedAt }: { readonly startedAt: string }, at: number): boolean => Date.parse(startedAt) <= at
    const ran = new Map<SeenWorker, Array<JobRecord>>()
    for (const record of records) {
      const { worker, startedAt = 0 } = record
      // One that was started again has the name of the lost one.
      if (alive.some((each) => each.name === worker && began(each, startedAt))) continue
      const on = lost.find((each) => each.worker === worker && began(each, startedAt))
      if (on !== undefined) ran.set(on, [...(ran.get(on) ?? []), record])
    }
    return ran
  }

  /** The state now, and the numbers over the last `range` milliseconds. Fails with `TransportError`. */
  stats(range: number): Promise<Stats> {
    const answer = this.#answers.get(range) ?? new CachedAnswer<Stats>(FRESH_MS)
    if (this.#answers.size > MAX_RANGES) this.#answers.clear()
    this.#answers.set(range, answer)
    return answer.get(() => this.#stats(range))
  }

  async #stats(range: number): Promise<Stats> {
    const now = await this.now()
    const [counted, queues = [], workers, gone, recent, dead, schedules, read, samples] = await Promise.all([
      this.counts(),
      this.queues(),
      this.workers(),
      this.gone(),
      this.#recent(now),
      this.#dead.get(() => this.#connection.jobs.list({ dead: true, limit: 100 })),
      this.#schedules.get(() => SCHEDULES.list(this.#connection.store, MAX_LOOKED_AT)),
      this.#reader.read(now - range, now, now),
      this.#reader.depths(now - BEHIND_MS, now, now),
    ])
    const lost = gone.filter(({ goodbye }) => goodbye !== true)
    const missed = lost.filter(({ at }) => at < now - GONE_MS)
    const grid = { from: now - range, step: range, points: 1 }
    const all = wholeOf([...binsOf(read.slots, grid, {}, () => "all").values()].flat())
    const facts: Facts = {
      now,
      queues,
      samples: samples.filter(({ at }) => at >= now - BEHIND_MS),
      workers,
      lost: missed,
      tasks: recent.byTask,
      minutes: Math.max(Math.round(recent.minutes), 1),
      perMinute: binsOf(read.slots, minutesUntil(now, Math.min(range, 60 * MINUTE_MS)), {}, ({ task }) => task),
      dead: dead.records.map(({ endedAt = 0, dead: reason = "unknown" }) => ({ endedAt, reason })),
      moreDead: dead.next !== undefined,
      schedules: schedules.flatMap(({ name, value: { due, paused, rules } }) =>
        paused || due === null ? [] : [{ name, due: postedAt(name, rules, due) }],
      ),
      newest: read.newest,
    }
    const findings = findingsOf(facts)
    const wait = percentilesOf(all.waited)
    const rate = rateOf(recent.byQueue, recent.minutes, queues)
    return {
      at: iso(now),
      counts: counted.counts,
      more: counted.more,
      asOf: iso(counted.asOf),
      ended: { succeeded: all.succeeded, failed: all.failed, cancelled: all.cancelled, expired: all.expired },
      ...compact({ perMinute: rate, wait }),
      handlers: {
        busy: workers.reduce((sum, worker) => sum + handlersOf(worker), 0),
        all: workers.reduce((sum, { concurrency }) => sum + concurrency, 0),
      },
      workers: { alive: workers.length, lost: lost.length },
      verdict: verdictOf(facts, findings),
      findings,
      ...(read.partial ? { partial: true } : {}),
    }
  }
}

/** States that drivers count without reading jobs, as a rule, and those that may have to be read. */
const QUICK = ["deferred", "scheduled", "queued", "started", "failed", "cancelled", "expired"] as const
const SLOW = ["succeeded"] as const

const rateOf = (
  counted: ReadonlyMap<string, Bin>,
  minutes: number,
  queues: ReadonlyArray<QueueDetails>,
): Stats["perMinute"] => {
  if (minutes <= 0) return undefined
  const all = wholeOf([...counted.values()])
  const perMinute = (count: number): number => Math.round((count / minutes) * 10) / 10
  const came = queues.reduce((sum, { perMinute: flow }) => sum + (flow?.in ?? 0), 0)
  return { in: Math.round(came * 10) / 10, started: perMinute(all.started), ended: perMinute(all.ended) }
}

/** The workers that were alive, have not written for `graceMs`, and are not alive any more, as they were last seen, newest first. */
export const goneWorkers = (
  slots: ReadonlyArray<Slot>,
  alive: ReadonlyArray<Pick<WorkerDescription, "name" | "startedAt">>,
  now: number,
  graceMs = GONE_MS,
): ReadonlyArray<SeenWorker> => {
  const living = new Set(alive.map(({ name, startedAt }) => JSON.stringify([name, startedAt])))
  const last = new Map<string, SeenWorker>()
  for (const { workers } of slots) {
    for (const seen of workers) {
      const key = JSON.stringify([seen.worker, seen.startedAt])
      const before = last.get(key)
      if (!living.has(key) && (before === undefined || before.at <= seen.at)) last.set(key, seen)
    }
  }
  return [...last.values()]
    .filter(({ at, goodbye }) => goodbye === true || at < now - graceMs)
    .sort((a, b) => b.at - a.at)
}

/** The minutes of the last `range` milliseconds, the present one included. */
const minutesUntil = (now: number, range: number): Grid => {
  const from = Math.floor((now - range) / MINUTE_MS + 1) * MINUTE_MS
  return { from, step: MINUTE_MS, points: Math.ceil((now + 1 - from) / MINUTE_MS) }
}
