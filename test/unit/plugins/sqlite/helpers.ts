/** Tasks and jobs on a driver, in short calls for the tests of this folder. */

import type { JobRecord } from "../../../../runtime/protocol/record.ts"
import type { Commit, Delivery, Driver, Posting } from "../../../../runtime/transport/driver.ts"
import { decodeContent, toCommitRecord, toPosting } from "../../../../runtime/transport/job-store/codec.ts"
import type { Known } from "../../../../runtime/transport/known.ts"
import { idOf as idIn, recordOf, type TaskFields, taskOf } from "../../../kit/task.ts"

/** A signal that never fires. */
export const never = new AbortController().signal

/** A task with nothing but these fields. */
export const posted = (fields: TaskFields & { readonly id: string }): Posting => toPosting(taskOf(fields), Date.now())

export const publish = (driver: Driver, ...ids: ReadonlyArray<string>) =>
  driver.publish(ids.map((id) => posted({ id, queue: "q" })))

export const take = async (
  driver: Driver,
  { queue = "q", max = 10, wait = 0 }: { readonly queue?: string; readonly max?: number; readonly wait?: number } = {},
): Promise<ReadonlyArray<Delivery>> =>
  (await driver.take({ queues: [queue], max, wait, rotate: false }, never)).deliveries

export const takeOne = async (driver: Driver, queue = "q"): Promise<Delivery> => {
  const [delivery] = await take(driver, { queue, max: 1, wait: 5_000 })
  if (delivery === undefined) throw new Error("no task came")
  return delivery
}

/** Id of the job that a delivery is of. */
export const idOf = ({ content }: Delivery): string => idIn({ message: decodeContent(content) })

export const find = async (driver: Driver, id: string): Promise<Known | undefined> =>
  (await driver.read([id], "all"))[0]

export const ack = (delivery: Delivery): Commit => ({
  id: idOf(delivery),
  task: { kind: "ack", token: delivery.token },
})

/** Ends a delivery with an outcome, as a worker does. */
export const outcome = (
  delivery: Delivery,
  state: JobRecord["state"] = "succeeded",
  fields: Partial<JobRecord> = {},
): Commit => {
  const message = decodeContent(delivery.content)
  const task = "headers" in message ? String(message.headers["task"]) : ""
  const posting = taskOf({ id: idOf(delivery), task, queue: delivery.queue })
  const record = recordOf(posting, state, { fence: delivery.fence, ...fields })
  return { ...ack(delivery), record: toCommitRecord(record, "", Date.now()) }
}
