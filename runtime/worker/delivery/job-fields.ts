/** The fields of a log line about one attempt of a job. */

import type { ErasedMethod } from "../../actor/actor.ts"
import type { Fields } from "../../log/log.ts"
import { DEFAULT_METHOD, resolveName } from "../../protocol/name.ts"
import type { JobRecord } from "../../protocol/record.ts"

/** Name of the logger for the lines that handlers write. */
export const JOB_LOGGER = "callboard.job"

/**
 * The fields that identify an attempt. Task and method are the names of the actor and its method, in whatever form the
 * task was submitted. `method`: the method of the task; `undefined` where this worker does not serve it, and the names
 * come from the task alone.
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
