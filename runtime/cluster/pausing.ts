/**
 * Queues that are paused and workers that are suspended: entries of the store, which workers watch. A paused queue takes
 * tasks and gives none out; a suspended worker pulls nothing. What runs goes on.
 */
import { Result } from "effect"
import { CallboardError } from "../errors.ts"
import { checkQueueName } from "../protocol/name.ts"
import { parseDuration } from "../protocol/time.ts"
import type { Store } from "../transport/mod.ts"

export const PAUSE_PREFIX = "pause/"
export const SUSPEND_PREFIX = "suspend/"

/** Key of a suspension that holds for every worker. No worker can have this name. */
const EVERYBODY = "*"

const LIMIT = 10_000

const encoder = new TextEncoder()
const note = (): Uint8Array => encoder.encode(JSON.stringify({ at: new Date().toISOString() }))

const queueKey = (queue: string): string => {
  const checked = checkQueueName(queue)
  if (Result.isFailure(checked)) throw new CallboardError("invalid-input", checked.failure.message, { field: "queue" })
  return `${PAUSE_PREFIX}${queue}`
}

/** Fails with `invalid-input` on what cannot be a queue; one that does not exist yet may be paused. */
export const pauseQueue = async (store: Store, queue: string): Promise<void> => {
  await store.write([{ key: queueKey(queue), value: note() }])
}

export const resumeQueue = async (store: Store, queue: string): Promise<void> => {
  await store.write([{ key: queueKey(queue) }])
}

export const pausedQueues = async (store: Store): Promise<ReadonlyArray<string>> =>
  (await store.list({ prefix: PAUSE_PREFIX, limit: LIMIT })).map(({ key }) => key.slice(PAUSE_PREFIX.length))

const suspendKey = (worker: string | undefined): string => `${SUSPEND_PREFIX}${worker ?? EVERYBODY}`

/** Keys of all suspensions: what {@link isSuspended} is asked with. */
export const suspensions = async (store: Store): Promise<ReadonlyArray<string>> =>
  (await store.list({ prefix: SUSPEND_PREFIX, limit: LIMIT })).map(({ key }) => key)

/** Whether one of some keys of suspensions means a worker. */
export const isSuspended = (keys: Iterable<string>, worker: string): boolean => {
  const all = new Set(keys)
  return all.has(suspendKey(undefined)) || all.has(suspendKey(worker))
}

export interface SuspendOptions {
  /** Ends by itself after this long, 1 second at least: seconds, or text. Defaults to no end. */
  readonly ttl?: number | string
}

/** Suspends one worker, or all there are and will be. Fails with `invalid-input`. */
export const suspendWorkers = async (
  store: Store,
  worker: string | undefined,
  { ttl }: SuspendOptions = {},
): Promise<void> => {
  const parsed = ttl === undefined ? undefined : parseDuration(ttl)
  if (parsed !== undefined && (Result.isFailure(parsed) || parsed.success < 1_000)) {
    const why = Result.isFailure(parsed) ? parsed.failure.message : "must be 1 second at least"
    throw new CallboardError("invalid-input", `ttl: ${why}`, { field: "ttl" })
  }
  const ends = parsed === undefined ? {} : { ttl: parsed.success }
  await store.write([{ key: suspendKey(worker), value: note(), ...ends }])
}

/** Ends the suspension of one worker, or every suspension there is. */
export const resumeWorkers = async (store: Store, worker: string | undefined): Promise<void> => {
  const keys = worker === undefined ? await suspensions(store) : [suspendKey(worker)]
  if (keys.length > 0) await store.write(keys.map((key) => ({ key })))
}
