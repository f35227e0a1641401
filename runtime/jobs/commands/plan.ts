/** What a decision about many jobs would do, before it is made. */
import { listActors } from "../../cluster/directory.ts"
import { pausedQueues } from "../../cluster/pausing.ts"
import type { Connection } from "../../connection/connection.ts"
import type { CallboardError, ErrorCode } from "../../errors.ts"
import { resolveName } from "../../protocol/name.ts"
import type { JobRecord } from "../../protocol/record.ts"
import type { RecordQuery } from "../../transport/lift/transport.ts"
import { isUnchanged } from "./decide.ts"

export interface BulkPlan {
  /** How many jobs match; `gte` where so many were read, and there are more. */
  readonly matches: { readonly value: number; readonly relation: "eq" | "gte" }
  /** How many of them will be changed. */
  readonly will: number
  /** How many cannot be changed, by the code of the error. */
  readonly refused: Readonly<Partial<Record<ErrorCode, number>>>
  /** How many have come into another state since `until`, and are left alone. */
  readonly changed: number
  /** How many of those that will be changed there are of each task and queue, the most of them first. */
  readonly by: { readonly task: Readonly<Record<string, number>>; readonly queue: Readonly<Record<string, number>> }
  readonly warnings: ReadonlyArray<{ readonly code: string; readonly text: string }>
  /** Ids of the newest. */
  readonly sample: ReadonlyArray<string>
}

/** Most jobs that are read for a plan, and most on a page of them. */
export const MOST_PLANNED = 10_000
const PAGE = 1_000

const SAMPLE = 5
const NAMES = 20
const LONG_MS = 3_600_000

class Tally {
  readonly #counts = new Map<string, number>()

  add(name: string): void {
    this.#counts.set(name, (this.#counts.get(name) ?? 0) + 1)
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
  /** Whether the jobs would run then: it is looked whether they can. */
  readonly runs: boolean
  /** Actors and methods behind other names of tasks. */
  readonly taskNames?: ReadonlyMap<string, string>
}

/**
 * Reads the jobs of a query, up to {@link MOST_PLANNED} and within its budget, and decides nothing. Fails as the transport
 * does.
 */
export const planAll = async (
  connection: Connection,
  query: Omit<RecordQuery, "limit" | "after">,
  { whyNot, runs, taskNames }: Planned,
): Promise<BulkPlan> => {
  const { budget = Number.POSITIVE_INFINITY, signal } = query
  const end = performance.now() + budget
  const refused = new Map<ErrorCode, number>()
  const [tasks, queues] = [new Tally(), new Tally()]
  const kinds = new Map<string, Pick<JobRecord, "task" | "meth">>()
  const sample: Array<string> = []
  let [found, changed, will, long] = [0, 0, 0, 0]
  let after: string | undefined
  do {
    const limit = Math.min(PAGE, MOST_PLANNED - found)
    const timed = { ...query, limit, budget: end - performance.now(), ...(after === undefined ? {} : { after }) }
    const page = await connection.jobs.list(timed)
    for (const record of page.records) {
      const why = isUnchanged(record, query) ? whyNot(record) : undefined
      if (!isUnchanged(record, query)) changed++
      else if (why !== undefined) refused.set(why.code, (refused.get(why.code) ?? 0) + 1)
      else {
        will++
        const { task, meth } = record
        const name = meth === null ? task : `${task}.${meth}`
        tasks.add(name)
        kinds.set(name, { task, meth })
        queues.add(record.queue)
        if (sample.length < SAMPLE) sample.push(record.id)
        if ((record.endedAt ?? 0) - (record.startedAt ?? record.endedAt ?? 0) > LONG_MS) long++
      }
    }
    found += page.records.length
    after = page.next
  } while (after !== undefined && found < MOST_PLANNED && performance.now() < end && !signal?.aborted)
  const warnings = runs ? await warningsOf(connection, [...kinds.values()], queues.names, taskNames) : []
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

/** What keeps jobs of these tasks and queues from running. */
const warningsOf = async (
  { store }: Connection,
  tasks: ReadonlyArray<Pick<JobRecord, "task" | "meth">>,
  queues: ReadonlyArray<string>,
  taskNames: ReadonlyMap<string, string> | undefined,
): Promise<BulkPlan["warnings"]> => {
  const [actors, paused] = await Promise.all([listActors(store), pausedQueues(store)])
  const served = new Set(actors.map(({ name }) => name))
  const hasActor = (name: string) => served.has(name)
  const wanted = new Set(tasks.map(({ task, meth }) => resolveName(task, meth, hasActor, taskNames).actor))
  const unserved = [...wanted].filter((actor) => !served.has(actor))
  const stopped = queues.filter((queue) => paused.includes(queue))
  return [
    ...(unserved.length === 0 ? [] : [{ code: "no-worker", text: `no worker serves the actor ${list(unserved)}` }]),
    ...(stopped.length === 0 ? [] : [{ code: "paused", text: `paused: the queue ${list(stopped)}` }]),
  ]
}

const list = (names: ReadonlyArray<string>): string =>
  names.length <= 3 ? names.join(", ") : `${names.slice(0, 3).join(", ")} and ${names.length - 3} more`
