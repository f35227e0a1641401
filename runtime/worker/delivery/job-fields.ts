/** What a log line about one attempt of a job carries. */
import type { Fields } from "../../log/log.ts"
import type { JobRecord } from "../../protocol/record.ts"

/** Name of the logger of what a job itself says. */
export const JOB_LOGGER = "callboard.job"

/** Says which attempt of which job. `method`: where it is known what the task is for. */
export const jobFields = (record: JobRecord, method: string | null): Fields => ({
  job: record.id,
  task: record.task,
  ...(method === null ? {} : { method }),
  queue: record.queue,
  attempt: record.attempt,
})
