/** What a decision about many jobs would do, before it is made. */
import * as Result from "effect/Result"
import { type ActorDescription, listActors, listWorkers } from "../../cluster/directory.ts"
import { pausedQueues } from "../../cluster/pausing.ts"
import type { Connection } from "../../connection/connection.ts"
import { CallboardError, type ErrorCode } from "../../errors.ts"
import { parseRate } from "../../options/limit.ts"
import { compact } from "../../protocol/compact.ts"
import { DEFAULT_METHOD, resolveName } from "../../protocol/name.ts"
import { type JobRecord, ranFor } from "../../protocol/record.ts"
import type { RecordQuery } from "../../transport/job-store/transport.ts"
import type * as Lists from "../lists.ts"
import { findRecord } from "../tracking/finding.ts"
import { isUnchanged, type NamedJobs } from "./decide.ts"

export type BulkPlan = Omit<Lists.BulkPlan, "until">

/** Most jobs that are read for a plan, and most on a page of them. */
export const MAX_PLANNED = 10_000
const PAGE = 1_000

const SAMPLE = 5
const NAMES = 20
const LONG_MS = 3_600_000
/** A limit that delays the last of the jobs by less than this, in milliseconds, gives no warning. */
const DELAYED_MS = 60_000
/** Most warnings of one kind. */
const MAX_OF_A_KIND = 3
/** Most causes of failures that are told apart for one task. */
const MAX_CAUSES = 100

/** What became of the last attempts of a task. */
export interface RecentAttempts {
  readonly attempts: number
  readonly failed: number
  /** Fingerprints of the errors of some of these attempts. */
  readonly causes: ReadonlySet<string>
  /** How long a handler ran, in seconds, on average; absent where none did. */
  readonly ran?: number
}

class Tally {
  readonly #counts = new Map<string, number>()

  add(name: string): void {
    this.#counts.set(name, this.of(name) + 1)
  }

  of(name: string): number {
    return this.#counts.get(name) ?? 0
  }

  get names(): ReadonlyArray<string> {
    return [...this.#counts.keys()]
  }

  /** The names with the highest counts. */
  top(): Readonly<Record<string, number>> {
    return Object.fromEntries([...this.#counts].sort(([, a], [, b]) => b - a).slice(0, NAMES))
  }
}

export interface Planned {
  /** Why a job cannot be changed so; `undefined` where it can. */
  readonly whyNot: (record: JobRecord) => CallboardError | undefined
  /** Whether the jobs would run then: the plan warns of what would keep them from it. */
  readonly runs: boolean
  /** Actors and methods behind other names of tasks. */
  readonly taskNames?: ReadonlyMap<string, string>
  /** The last attempts of some tasks, each named as `actor.method`. */
  readonly recent?: (tasks: ReadonlyArray<string>) => Promise<ReadonlyMap<string, RecentAttempts>>
}

/** Jobs of one task, of those that would be changed. */
interface Kind extends Pick<JobRecord, "task" | "meth"> {
  readonly causes: Set<string>
}

/** The jobs with these names, and why others cannot be decided about. */
const named = async (connection: Connection, { ids, dead = false }: NamedJobs) => {
  const refused: Array<ErrorCode> = []
  const read = async (id: string): Promise<JobRecord | undefined> => {
    try {
      const { record } = await findRecord(connection, id)
      if (!dead || record.dead !== undefined) return record
      refused.push("not-found")
    } catch (cause) {
      if (!(cause instanceof CallboardError)) throw cause
      refused.push(cause.code)
    }
    return undefined
  }
  const records = await Promise.all([...new Set(ids)].map(read))
  return { records: records.flatMap((record) => record ?? []), refused, next: undefined }
}

/**
 * Reads the jobs of a query, up to {@link MAX_PLANNED} and within its budget, or those that are named, and decides nothing.
 * Of those that are named, one that is not there is refused. Fails as the transport
 * does.
 */
export const planAll = async (
  connection: Connection,
  query: Omit<RecordQuery, "limit" | "after"> | NamedJobs,
  { whyNot, runs, ...known }: Planned,
): Promise<BulkPlan> => {
  const { budget = Number.POSITIVE_INFINITY, signal = undefined } = "ids" in query ? {} : query
  const end = performance.now() + budget
  const refused = new Map<ErrorCode, number>()
  const [tasks, queues] = [new Tally(), new Tally()]
  const kinds = new Map<string, Kind>()
  const sample: Array<string> = []
  let [found, changed, will, long] = [0, 0, 0, 0]
  let after: string | undefined
  do {
    const limit = Math.min(PAGE, MAX_PLANNED - found)
    const timed = { limit, budget: end - performance.now(), ...compact({ after }) }
    const page = "ids" in query ? await named(connection, query) : await connection.jobs.list({ ...query, ...timed })
    if ("refused" in page) for (const code of page.refused) refused.set(code, (refused.get(code) ?? 0) + 1)
    for (const record of page.records) {
      const why = isUnchanged(record, query) ? whyNot(record) : undefined
      if (!isUnchanged(record, query)) changed++
      else if (why !== undefined) refused.set(why.code, (refused.get(why.code) ?? 0) + 1)
      else {
        will++
        const { task, meth, fingerprint } = record
        const name = meth === null ? task : `${task}.${meth}`
        tasks.add(name)
        const kind = kinds.get(name) ?? { task, meth, causes: new Set<string>() }
        kinds.set(name, kind)
        if (fingerprint !== undefined && kind.causes.size < MAX_CAUSES) kind.causes.add(fingerprint)
        queues.add(record.queue)
        if (sample.length < SAMPLE) sample.push(record.id)
        if ((ranFor(record) ?? 0) > LONG_MS) long++
      }
    }
    found += page.records.length
    after = page.next
  } while (after !== undefined && found < MAX_PLANNED && performance.now() < end && !signal?.aborted)
  const counted = [...kinds].map(([name, kind]) => ({ ...kind, count: tasks.of(name) }))
  const warnings = runs ? await warningsOf(connection, counted, queues.names, known) : []
  const slow = { code: "long", text: `${long} of them ran for more than an hour` }
  return {
    matches: { value: found, relation: after === undefined ? "eq" : "gte" },
    will,
    refused: Object.fromEntries(refused),
    changed,
    by: { task: tasks.top(), queue: queues.top() },
    warnings: runs && long * 10 > will ? [...warnings, slow] : warnings,
    sample,
  }
}

type Warning = BulkPlan["warnings"][number]

/** Warnings about what keeps jobs of these tasks and queues from running, or from running well. */
const warningsOf = async (
  { store }: Connection,
  kinds: ReadonlyArray<Kind & { readonly count: number }>,
  queues: ReadonlyArray<string>,
  { taskNames, recent }: Pick<Planned, "taskNames" | "recent">,
): Promise<ReadonlyArray<Warning>> => {
  const [actors, workers, paused] = await Promise.all([listActors(store), listWorkers(store), pausedQueues(store)])
  const served = new Map(actors.map((actor) => [actor.name, actor]))
  const wanted = kinds
    .map(({ task, meth, ...kind }) => {
      const target = resolveName(task, meth, (name) => served.has(name), taskNames)
      const actor = target.actor
      const method = target.meth ?? DEFAULT_METHOD
      const described = served.get(actor)?.methods.find(({ name }) => name === method)
      return { ...kind, actor, name: `${actor}.${method}`, described }
    })
    .sort((a, b) => b.count - a.count)
  const last = (await recent?.(wanted.map(({ name }) => name))) ?? new Map<string, RecentAttempts>()
  const unserved = [...new Set(wanted.flatMap(({ actor }) => (served.has(actor) ? [] : [actor])))]
  const taken = new Set(workers.flatMap((worker) => (worker.state === "stopping" ? [] : worker.queues)))
  const untaken = queues.filter((queue) => !taken.has(queue))
  const stopped = queues.filter((queue) => paused.includes(queue))
  const once = wanted.flatMap(({ name, described }) => (described?.options?.onLost.value === "fail" ? [name] : []))
  const failing = wanted.flatMap(({ name, causes }) => stillFailing(name, causes, last.get(name)))
  const limited = wanted.flatMap(({ name, count, described }) =>
    delayed(name, count, described?.limit, last.get(name)?.ran),
  )
  return [
    ...(unserved.length === 0 ? [] : [{ code: "no-worker", text: `no worker serves actor ${list(unserved)}` }]),
    ...(untaken.length === 0 ? [] : [{ code: "no-worker", text: `no worker consumes queue ${list(untaken)}` }]),
    ...(stopped.length === 0 ? [] : [{ code: "paused", text: `paused queue: ${list(stopped)}` }]),
    ...failing.slice(0, MAX_OF_A_KIND),
    ...limited.slice(0, MAX_OF_A_KIND),
    ...(once.length === 0
      ? []
      : [{ code: "not-idempotent", text: `must not run twice (onLost: "fail"): ${list(once)}` }]),
  ]
}

/** Whether the jobs failed by causes by which the last attempts of their task failed as well. */
const stillFailing = (
  name: string,
  causes: ReadonlySet<string>,
  recent: RecentAttempts | undefined,
): ReadonlyArray<Warning> => {
  if (recent === undefined || ![...causes].some((cause) => recent.causes.has(cause))) return []
  const text = `${name} is still failing this way: ${recent.failed} of its last ${recent.attempts} attempts failed`
  return [{ code: "still-failing", text }]
}

/** How long a limit makes the last of the jobs wait. Each value of a key has a limit of its own: there it is not known. */
const delayed = (
  name: string,
  count: number,
  limit: ActorDescription["methods"][number]["limit"],
  ran = 0,
): ReadonlyArray<Warning> => {
  if (limit === undefined || limit.keyed) return []
  const { rate, concurrency } = limit
  const byRate =
    rate === undefined ? 0 : count * Result.getOrElse(parseRate(rate), () => ({ intervalMs: 0 })).intervalMs
  const byConcurrency = concurrency === undefined ? 0 : (count * ran * 1_000) / concurrency
  const ms = Math.max(byRate, byConcurrency)
  if (ms < DELAYED_MS) return []
  const which = byRate >= byConcurrency ? rate : `${concurrency} at a time`
  return [{ code: "limited", text: `with the limit of ${name} (${which}) they take about ${roughly(ms)}` }]
}

const roughly = (ms: number): string => {
  const minutes = Math.round(ms / 60_000)
  if (minutes < 90) return minutes === 1 ? "a minute" : `${minutes} minutes`
  const hours = Math.round(minutes / 60)
  return hours < 48 ? `${hours} hours` : `${Math.round(hours / 24)} days`
}

const list = (names: ReadonlyArray<string>): string =>
  names.length <= 3 ? names.join(", ") : `${names.slice(0, 3).join(", ")} and ${names.length - 3} more`
