/** The history of a chaos run: submissions, their answers, runs of handlers, and records. */
import type { Client, JobView } from "callboard"

/**
 * The plan of a job: what it does, and the outcome that it must have. A `poison` kills each worker that runs it, and one of
 * the kind `once` is acked early. A `block` and a `deaf` never end by themselves: one blocks its thread, one ignores its signal.
 */
export interface Plan {
  readonly id: string
  readonly kind: "plain" | "retry" | "errback" | "chain" | "after" | "poison" | "long" | "once" | "block" | "deaf"
  /** Attempts that fail before one succeeds; with `errback` all of them fail. */
  readonly failures: number
  /** Tasks that must exist in the end because of the job: its errbacks, and the next links of its chain. */
  readonly followUps: number
  /** Absent: the queue that most workers serve. */
  readonly queue?: string
  /** How long its handler takes, instead of some milliseconds. */
  readonly workMs?: number
  /** Jobs that must have ended, with any outcome, before this one starts. */
  readonly after?: ReadonlyArray<string>
}

/** One run of a handler, noted by the process that ran it. */
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
  /** Terminal records as they were seen, in order; several of one run are an outcome that changed. */
  readonly outcomes: ReadonlyArray<{
    readonly id: string
    readonly run: number
    readonly state: string
    readonly fence: string
  }>
  /** Records at the end; absent: not found. */
  readonly final: ReadonlyMap<string, JobView>
  /** What came of each planned job, at the end: its children and theirs. */
  readonly followUps: ReadonlyMap<string, ReadonlyArray<JobView>>
  /** Workers that still had deliveries when no job was left. */
  readonly leaked: ReadonlyArray<string>
  readonly kills: number
  /** Times in which nothing worked for longer than a lease; each can interrupt all that the workers have. */
  readonly outages: number
  readonly workers: number
  /** Deliveries that one kill or freeze can interrupt: all that a worker has. */
  readonly inFlight: number
}

/** What the board has in the end of the planned jobs, and of those that came of them. */
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
      // A listing over a board that moves may show a job twice.
      if (!list.some((other) => other.id === job.id)) list.push(job)
      followUps.set(job.rootId, list)
    }
    cursor = page.next
  } while (cursor !== undefined)
  return { final, followUps }
}
