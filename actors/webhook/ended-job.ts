/** The notification about a job that has ended, in the form of RQ's webhooks. */
import type { Job, JobView } from "callboard"

/** The job to notify about has no record any more, or has not ended. */
export class NoEndedJob extends Error {
  readonly _tag = "NoEndedJob"
  override readonly name = "NoEndedJob"
}

export interface EndedJob {
  readonly job_id: string
  /** Actor and method, joined by a dot; the actor alone for its default method. */
  readonly func_name: string
  readonly status: "finished" | "failed"
  /** ISO 8601 in UTC. */
  readonly enqueued_at: string
  readonly ended_at: string
  /** For a failed job: the traceback, else name and message of the error. */
  readonly exc_info?: string
}

/** The notification about the job that this one follows. Fails with {@link NoEndedJob}. */
export const endedParent = async (job: Job): Promise<EndedJob> => {
  const { parentId } = job
  if (parentId === undefined) {
    throw new NoEndedJob("it follows no job; make it a callback or an errback of the job to tell of, or say parentId")
  }
  const parent = await job.parent()
  if (parent === undefined) {
    throw new NoEndedJob(`job ${parentId} is not kept any more; give it a longer resultTtl or failureTtl`)
  }
  return endedJob(parent)
}

const endedJob = ({ id, task, meth, state, times, error }: JobView): EndedJob => {
  const status = state === "succeeded" ? "finished" : state === "failed" ? "failed" : undefined
  if (status === undefined || times.ended === undefined) {
    throw new NoEndedJob(`job ${id} is ${state}, neither succeeded nor failed; was it run again?`)
  }
  return {
    job_id: id,
    func_name: meth === null ? task : `${task}.${meth}`,
    status,
    enqueued_at: times.submitted,
    ended_at: times.ended,
    ...(status === "failed" ? { exc_info: error?.traceback ?? `${error?.name}: ${error?.message}` } : {}),
  }
}
