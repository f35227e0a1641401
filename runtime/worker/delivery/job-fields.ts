/** What a log line about one attempt of a job carries. */

import type { ErasedMethod } from "../../actor/actor.ts"
import type { Fields } from "../../log/log.ts"
import { DEFAULT_METHOD, resolveName } from "../../protocol/name.ts"
import type { JobRecord } from "../../protocol/record.ts"

/** Name of the logger of what a job itself says. */
export const JOB_LOGGER = "callboard.job"

/**
 * Says which attempt of which job. Task and method are the names of the actor and of its method, however they were written
 * when the task was submitted. `method`: the one that the task is for; `undefined` where this worker does not serve it, and
 * the names are read from the task alone.
 */
export const jobFields = (record: JobRecord, method: Pick<ErasedMethod, "actor" | "name"> | undefined): Fields => {
  const named = method === undefined ? resolveName(record.task, record.meth, () => false) : undefined
  return {
    job: record.id,
    task: method?.actor ?? named?.actor,
    method: method?.name ?? named?.meth ?? DEFAULT_METHOD,
    queue: record.queue,
    attempt: record.attempt,
  }
}
