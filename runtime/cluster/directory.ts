/**
 * Who is there: workers that are alive, and the actors that they serve, as entries of the store with a time to live.
 * A submitter learns from it which queue an actor's tasks go to.
 */
import { hostname } from "node:os"
import { Result, Schema } from "effect"
import { StoreEntry } from "../async/store-entry.ts"
import { checkActorName } from "../protocol/name.ts"
import type { Store, StoreOperation } from "../transport/store.ts"

const MethodDescription = Schema.Struct({
  name: Schema.String,
  description: Schema.optionalKey(Schema.String),
  queue: Schema.optionalKey(Schema.String),
  priority: Schema.optionalKey(Schema.Int),
  /** After a failed attempt, at most, where the method says so. */
  retries: Schema.optionalKey(Schema.Int),
  params: Schema.optionalKey(Schema.Array(Schema.String)),
  /** Arguments that are not shown to anybody: all, or those with these names. */
  redact: Schema.optionalKey(Schema.Union([Schema.Boolean, Schema.Array(Schema.String)])),
  /** Field of the input that says whose limit a job falls under. */
  limitKey: Schema.optionalKey(Schema.String),
  /** JSON Schema of the input and of the result, where the method's schemas can tell. */
  input: Schema.optionalKey(Schema.Unknown),
  output: Schema.optionalKey(Schema.Unknown),
})

export const ActorDescription = Schema.Struct({
  name: Schema.String,
  queue: Schema.String,
  description: Schema.optionalKey(Schema.String),
  methods: Schema.Array(MethodDescription),
})
export type ActorDescription = typeof ActorDescription.Type

/** Jobs that a worker tells of at a time. */
export const MOST_RUNNING = 100

export const WorkerDescription = Schema.Struct({
  name: Schema.String,
  pid: Schema.Int,
  host: Schema.String,
  version: Schema.String,
  queues: Schema.Array(Schema.String),
  actors: Schema.Array(Schema.String),
  concurrency: Schema.Int,
  state: Schema.Literals(["starting", "idle", "busy", "suspended", "stopping"]),
  /** Jobs whose handlers run now, {@link MOST_RUNNING} at most. */
  running: Schema.Array(Schema.String),
  /** More about them. */
  jobs: Schema.optionalKey(
    Schema.Array(
      Schema.Struct({
        id: Schema.String,
        name: Schema.String,
        queue: Schema.String,
        attempt: Schema.Int,
        startedAt: Schema.String,
      }),
    ),
  ),
  /** Deliveries held, running ones included. */
  inFlight: Schema.Int,
  /** How many it may hold. */
  capacity: Schema.optionalKey(Schema.Int),
  /** How many more it takes now: 0 until enough handlers have ended. */
  room: Schema.optionalKey(Schema.Int),
  /** Actors that are not ready, and why: their tasks are handed back. */
  unhealthy: Schema.optionalKey(
    Schema.Array(Schema.Struct({ actor: Schema.String, condition: Schema.String, reason: Schema.String })),
  ),
  processed: Schema.Int,
  failed: Schema.Int,
  /** Outcomes that were refused, because another worker or a cancellation had the job. */
  superseded: Schema.optionalKey(Schema.Int),
  /** Time that its handlers ran, all together. */
  workingSeconds: Schema.optionalKey(Schema.Finite),
  startedAt: Schema.String,
  heartbeatAt: Schema.String,
  /** When it was told to stop. */
  stopAskedAt: Schema.optionalKey(Schema.String),
})
export type WorkerDescription = typeof WorkerDescription.Type

/** A worker beats this often and is gone after three missed beats. */
export const HEARTBEAT_MS = 2_000
export const WORKER_TTL_MS = 3 * HEARTBEAT_MS
/** Actors are told again this often, and forgotten when nobody serves them any more. */
export const ACTOR_REFRESH_MS = 20_000
const ACTOR_TTL_MS = 3 * ACTOR_REFRESH_MS

export const DEFAULT_QUEUE = "default"

/** What workers serve, by the actor's name. */
const ACTORS = new StoreEntry("actor/", ActorDescription, { ttlMs: ACTOR_TTL_MS })
/** The living workers, by name. */
export const WORKERS = new StoreEntry("worker/", WorkerDescription, { ttlMs: WORKER_TTL_MS })

export const actorEntries = (actors: Iterable<ActorDescription>): ReadonlyArray<StoreOperation> =>
  [...actors].map((actor) => ACTORS.put(actor.name, actor))

const LIST_LIMIT = 1_000

export const listWorkers = async (store: Store): Promise<ReadonlyArray<WorkerDescription>> =>
  (await WORKERS.list(store, LIST_LIMIT)).map(({ value }) => value)

export const listActors = async (store: Store): Promise<ReadonlyArray<ActorDescription>> =>
  (await ACTORS.list(store, LIST_LIMIT)).map(({ value }) => value)

/** Whether a worker is known to be dead: of another machine nobody here can tell. */
export const isDead = ({ host, pid, startedAt }: WorkerDescription): boolean => {
  if (host !== hostname()) return false
  // In a container that was started again, this process has the number of the one before.
  if (pid === process.pid) return Date.parse(startedAt) < performance.timeOrigin
  try {
    process.kill(pid, 0)
    return false
  } catch (cause) {
    return cause instanceof Error && "code" in cause && cause.code === "ESRCH"
  }
}

/** Looks actors up in the store and remembers what it found, or did not find, for a moment. */
export class Directory {
  readonly #store: Store
  readonly #local: ReadonlyMap<string, ActorDescription>
  readonly #known = new Map<string, { readonly until: number; readonly actor: Promise<ActorDescription | undefined> }>()
  static readonly #REMEMBER_MS = 5_000
  static readonly #CAPACITY = 1_000

  constructor(store: Store, local: ReadonlyArray<ActorDescription> = []) {
    this.#store = store
    this.#local = new Map(local.map((actor) => [actor.name, actor]))
  }

  /** Actors of this very process: known without asking. */
  get local(): ReadonlyMap<string, ActorDescription> {
    return this.#local
  }

  /** Fails as the store does; a failure is not remembered. */
  find(name: string): Promise<ActorDescription | undefined> | ActorDescription | undefined {
    const local = this.#local.get(name)
    if (local !== undefined) return local
    // No actor can have such a name, and a store need not be able to look for it.
    if (Result.isFailure(checkActorName(name))) return undefined
    const now = performance.now()
    const known = this.#known.get(name)
    if (known !== undefined && known.until > now) return known.actor
    if (this.#known.size >= Directory.#CAPACITY) this.#known.clear()
    const actor = ACTORS.get(this.#store, name).then((entry) => entry?.value)
    const remembered = { until: now + Directory.#REMEMBER_MS, actor }
    this.#known.set(name, remembered)
    // Remembered, a failure would send the tasks of the next seconds to the wrong queue.
    actor.catch(() => {
      if (this.#known.get(name) === remembered) this.#known.delete(name)
    })
    return actor
  }
}
