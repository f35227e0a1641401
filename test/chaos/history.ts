/** The history of a chaos run: submissions, their answers, runs of handlers, and records. */
import type { Client, JobView } from "callboard"

/**
 * The plan of a job: what it does, and the outcome that it must have. A `poison` job kills each worker that runs it, a `once` job
 * is acked early. `block` and `deaf` jobs never end by themselves: a `block` job blocks its thread, a `deaf` job ignores its signal.
 * A `steps` job has durable steps. A `waits` job sleeps, waits for a signal and calls another job. A `doomed` job lies in a queue that is deleted, and never runs.
 */
export interface Plan {
  readonly id: string
  readonly kind:
    | "plain"
    | "retry"
    | "errback"
    | "chain"
    | "after"
    | "poison"
    | "long"
    | "once"
    | "block"
    | "deaf"
    | "steps"
    | "waits"
    | "doomed"
  /** Attempts that fail before one succeeds; with `errback` all of them fail. */
  readonly failures: number
  /** Tasks that must exist in the end because of the job: its errbacks, the next links of its chain, and jobs that it calls. */
  readonly followUps: number
  /** Queue of the job. Defaults to `default`, which all workers but those of traps serve. */
  readonly queue?: string
  /** How long the handler takes, or each of its steps, in milliseconds. Defaults to a few. */
  readonly workMs?: number
  /** Jobs that must have ended, with any outcome, before this one starts. */
  readonly after?: ReadonlyArray<string>
  /** Number of durable steps. */
  readonly steps?: number
  /** Seconds until the job is due. */
  readonly delay?: number
  /** Seconds after which the job expires unless it has started. */
  readonly expires?: number
  /** Whether the job may expire: its worker could not be reached in time. One that ran has not expired. */
  readonly mayExpire?: true
  /** The worker of the job lives through what happens while it runs: its handler, and each of its steps, runs once. */
  readonly runsOnce?: true
}

/** One run of a handler, as its process has noted it. */
export interface Execution {
  readonly id: string
  readonly task: string
  readonly retries: number
  readonly pid: number
  /** The durable step that ran. */
  readonly step?: string
}

export interface History {
  readonly plans: ReadonlyArray<Plan>
  /** Ids whose submission was confirmed. */
  readonly accepted: ReadonlySet<string>
  readonly executions: ReadonlyArray<Execution>
  /** Terminal records in the order in which the watch reported them; two different ones of one run are an outcome that changed. */
  readonly outcomes: ReadonlyArray<{
    readonly id: string
    readonly run: number
    readonly state: string
    readonly fence: string
  }>
  /** Records at the end, by job id. A job without a record is not in the map. */
  readonly final: ReadonlyMap<string, JobView>
  /** The follow-ups of each planned job at the end: its children and theirs, by the id of the planned job. */
  readonly followUps: ReadonlyMap<string, ReadonlyArray<JobView>>
  /** Workers that ended by themselves: their last words. Jobs that never end, or kill their worker, explain that they do. */
  readonly ended: ReadonlyArray<string>
  /** Workers that still held deliveries, or had fewer free slots, when no job was left: a sentence for each. */
  readonly leaked: ReadonlyArray<string>
  readonly kills: number
  /** Number of outages that were longer than a lease. Each can interrupt all deliveries of all workers. */
  readonly outages: number
  readonly workers: number
  /** Most deliveries that a worker has at once, all of which a kill or a freeze of the worker interrupts. */
  readonly inFlight: number
}

/** Records that are read at the same time. */
const AT_A_TIME = 64

/** The record of a job; `undefined` while it cannot be read. */
export const found = (client: Client, id: string): Promise<JobView | undefined> =>
  client
    .job(id)
    .find()
    .catch(() => undefined)

/** The records of jobs, some of which are read at the same time. */
export async function* foundAll(
  client: Client,
  ids: ReadonlyArray<string>,
): AsyncGenerator<readonly [id: string, view: JobView | undefined]> {
  for (let from = 0; from < ids.length; from += AT_A_TIME) {
    const part = ids.slice(from, from + AT_A_TIME)
    yield* await Promise.all(part.map(async (id) => [id, await found(client, id)] as const))
  }
}

/** Reads the records of the planned jobs, and of their follow-ups, at the end of a run. */
export const recordsOf = async (
  client: Client,
  plans: ReadonlyArray<Plan>,
): Promise<Pick<History, "final" | "followUps">> => {
  const final = new Map<string, JobView>()
  const followUps = new Map<string, Array<JobView>>()
  const ids = plans.map(({ id }) => id)
  for await (const [id, view] of foundAll(client, ids)) if (view !== undefined) final.set(id, view)
  let cursor: string | undefined
  do {
    const page = await client.jobs({ limit: 1_000, ...(cursor === undefined ? {} : { after: cursor }) })
    for (const job of page.jobs) {
      if (job.rootId === undefined || job.rootId === job.id) continue
      const list = followUps.get(job.rootId) ?? []
      // A listing may contain a job twice when jobs change while it is read.
      if (!list.some((other) => other.id === job.id)) list.push(job)
      followUps.set(job.rootId, list)
    }
    cursor = page.next
  } while (cursor !== undefined)
  return { final, followUps }
}
