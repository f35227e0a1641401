/** The history of a chaos run: submissions, their answers, runs of handlers, and records. */
import type { Client, JobView } from "callboard"

/**
 * The plan of a job: what it does, and the outcome that it must have. A `poison` job kills each worker that runs it, a `once` job
 * is acked early. `block` and `deaf` jobs never end by themselves: a `block` job blocks its thread, a `deaf` job ignores its signal.
 */
export interface Plan {
  readonly id: string
  readonly kind: "plain" | "retry" | "errback" | "chain" | "after" | "poison" | "long" | "once" | "block" | "deaf"
  /** Attempts that fail before one succeeds; with `errback` all of them fail. */
  readonly failures: number
  /** Tasks that must exist in the end because of the job: its errbacks, and the next links of its chain. */
  readonly followUps: number
  /** Queue of the job. Defaults to `default`, which all workers but those of traps serve. */
  readonly queue?: string
  /** How long the handler takes, in milliseconds. Defaults to a few. */
  readonly workMs?: number
  /** Jobs that must have ended, with any outcome, before this one starts. */
  readonly after?: ReadonlyArray<string>
}

/** One run of a handler, as its process has noted it. */
export interface Execution {
  readonly id: string
  readonly task: string
  readonly retries: number
  readonly pid: number
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
  /** Workers that still held deliveries, or had fewer free slots, when no job was left: a sentence for each. */
  readonly leaked: ReadonlyArray<string>
  readonly kills: number
  /** Number of outages that were longer than a lease. Each can interrupt all deliveries of all workers. */
  readonly outages: number
  readonly workers: number
  /** Most deliveries that a worker has at once, all of which a kill or a freeze of the worker interrupts. */
  readonly inFlight: number
}

/** Reads the records of the planned jobs, and of their follow-ups, at the end of a run. */
export const recordsOf = async (
  client: Client,
  plans: ReadonlyArray<Plan>,
): Promise<Pick<History, "final" | "followUps">> => {
  const final = new Map<string, JobView>()
  const followUps = new Map<string, Array<JobView>>()
  for (const { id } of plans) {
    const view = await client
      .job(id)
      .find()
      .catch(() => undefined)
    if (view !== undefined) final.set(id, view)
  }
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
