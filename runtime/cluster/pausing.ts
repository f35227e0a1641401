/**
 * Paused queues and suspended workers: entries of the store, which every worker watches. A paused queue accepts tasks, but
 * workers pull none from it; a suspended worker pulls nothing. Jobs that run go on.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { StoreEntry } from "../async/store-entry.ts"
import { CallboardError } from "../errors.ts"
import { milliseconds } from "../options/duration.ts"
import { isName } from "../options/fields.ts"
import { refuseInput, refuseUnknown } from "../options/refuse.ts"
import { compact } from "../protocol/compact.ts"
import { checkQueueName } from "../protocol/name.ts"
import { untilHeard } from "../transport/job-store/watch-store.ts"
import type { Store } from "../transport/store.ts"

/** Value of the entry: since when the queue is paused or the worker suspended, as an ISO time, and the name of the token that did it. */
export const Since = Schema.Struct({ at: Schema.String, by: Schema.optionalKey(Schema.String) })

/** Paused queues, by name. */
export const PAUSES = new StoreEntry("pause/", Since)
/** Suspended workers, by name. */
export const SUSPENSIONS = new StoreEntry("suspend/", Since)

/** Name of the suspension of all workers. No worker can have this name. */
const EVERY_WORKER = "*"

const LIMIT = 10_000

/** The time is that of the transport, with which readers compare it: the clock of this machine may be wrong. */
export const since = async (store: Store, by?: string): Promise<typeof Since.Type> => ({
  at: new Date(await store.now()).toISOString(),
  ...compact({ by }),
})

/** The name of a queue. Fails with `invalid-input`. */
export const checkedQueue = (queue: string): string => {
  const checked = checkQueueName(queue)
  if (Result.isFailure(checked)) throw new CallboardError("invalid-input", checked.failure.message, { field: "queue" })
  return queue
}

/** Pauses a queue, which need not exist yet, and resolves once workers know it; `by` is shown as the name of what paused it. Fails with `invalid-input` where the name is no name of a queue. */
export const pauseQueue = async (store: Store, queue: string, by?: string): Promise<void> => {
  await store.write([PAUSES.put(checkedQueue(queue), await since(store, by))])
  await untilHeard(store)
}

export const resumeQueue = async (store: Store, queue: string): Promise<void> => {
  await store.write([PAUSES.remove(checkedQueue(queue))])
}

/** Since when queues are paused, by name. */
export const pauses = async (store: Store): Promise<ReadonlyMap<string, typeof Since.Type>> =>
  new Map((await PAUSES.list(store, LIMIT)).map(({ name, value }) => [name, value]))

export const pausedQueues = (store: Store): Promise<ReadonlyArray<string>> => PAUSES.names(store, LIMIT)

/** Names of all suspended workers, for {@link isSuspended}. */
export const suspensions = (store: Store): Promise<ReadonlyArray<string>> => SUSPENSIONS.names(store, LIMIT)

/** Whether these suspensions include this worker. */
export const isSuspended = (names: Iterable<string>, worker: string): boolean => {
  const all = new Set(names)
  return all.has(EVERY_WORKER) || all.has(worker)
}

export interface SuspendOptions {
  /**
   * The suspension ends by itself after this time, 1 second at least: seconds, or text such as `5m`. Defaults to no
   * end.
   */
  readonly ttl?: number | string | undefined
}

const SUSPEND = { ttl: true } satisfies Record<keyof SuspendOptions, true>

const checkedWorker = (worker: string): string =>
  isName(worker) ? worker : refuseInput("worker", "must be the name of a worker: text of 1 to 255 bytes")

/** Suspends one worker; without a name all workers, also those that start later. Fails with `invalid-input`. */
export const suspendWorkers = async (
  store: Store,
  worker: string | undefined,
  options: SuspendOptions = {},
): Promise<void> => {
  refuseUnknown(options, SUSPEND, "suspend()")
  const { ttl } = options
  const ttlMs = ttl === undefined ? undefined : milliseconds("ttl", ttl, refuseInput, { min: 1_000 })
  const name = worker === undefined ? EVERY_WORKER : checkedWorker(worker)
  await store.write([SUSPENSIONS.put(name, await since(store), ttlMs)])
  await untilHeard(store)
}

/** Ends the suspension of one worker; without a name it ends all suspensions. */
export const resumeWorkers = async (store: Store, worker: string | undefined): Promise<void> => {
  const names = worker === undefined ? await suspensions(store) : [checkedWorker(worker)]
  if (names.length > 0) await store.write(names.map((name) => SUSPENSIONS.remove(name)))
}
