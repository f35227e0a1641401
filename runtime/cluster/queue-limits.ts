/**
 * Limits of queues: how many jobs of a queue may run at a time, over all workers. They are entries of the store, which every
 * worker watches.
 */
import * as Schema from "effect/Schema"
import { StoreEntry } from "../async/store-entry.ts"
import { parserOf } from "../options/check.ts"
import { whole } from "../options/fields.ts"
import { refuseUnknown } from "../options/refuse.ts"
import { untilHeard } from "../transport/job-store/watch-store.ts"
import type { Store } from "../transport/store.ts"
import { checkedQueue, Since, since } from "./pausing.ts"

const RANGE = { min: 1, max: 100_000 }
const RULE = `must be a whole number from ${RANGE.min} to ${RANGE.max}, or null`

export const QueueChanges = Schema.Struct({
  maxInFlight: Schema.NullOr(whole(RANGE, RULE)).annotate({
    description: "How many of its jobs may run at a time, over all workers, 1 to 100,000; `null`: any number",
    message: RULE,
  }),
}).annotate({ identifier: "QueueChanges" })

/** Checks what is changed of a queue. Fails with `invalid-input` and `unknown-field`, naming the field. */
export const parseQueueChanges = parserOf(QueueChanges, "a queue", "queue")

const QueueLimit = Schema.Struct({ ...Since.fields, maxInFlight: whole(RANGE) })
export type QueueLimit = typeof QueueLimit.Type

export const QUEUE_LIMITS = new StoreEntry("queue-limit/", QueueLimit)

export interface QueueLimitOptions {
  /** How many of its jobs may run at a time, over all workers, 1 to 100,000; `null` removes the limit. */
  readonly maxInFlight: number | null
  /** Shown as the name of what set it. */
  readonly by?: string | undefined
}

const FIELDS = { maxInFlight: true, by: true } satisfies Record<keyof QueueLimitOptions, true>

/** Sets how many jobs of a queue, which need not exist yet, may run at a time. Resolves once workers know it. Fails with `invalid-input`. */
export const limitQueue = async (store: Store, queue: string, options: QueueLimitOptions): Promise<void> => {
  refuseUnknown(options, FIELDS, "limitQueue()")
  const { by, ...changes } = options
  const { maxInFlight } = parseQueueChanges(changes)
  checkedQueue(queue)
  const operation =
    maxInFlight === null
      ? QUEUE_LIMITS.remove(queue)
      : QUEUE_LIMITS.put(queue, { ...(await since(store, by)), maxInFlight })
  await store.write([operation])
  await untilHeard(store)
}

const MAX_LISTED = 10_000

/** The limits, by queue. */
export const queueLimits = async (store: Store): Promise<ReadonlyMap<string, QueueLimit>> =>
  new Map((await QUEUE_LIMITS.list(store, MAX_LISTED)).map(({ name, value }) => [name, value]))
