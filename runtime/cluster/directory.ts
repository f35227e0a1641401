/**
 * The directory: the workers that are alive and the actors that they serve, as store entries with a time to live. A
 * submitter looks up there to which queue the tasks of an actor go.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { StoreEntry } from "../async/store-entry.ts"
import { checkActorName, DEFAULT_METHOD, resolveName, type Target } from "../protocol/name.ts"
import type { Store, StoreOperation } from "../transport/store.ts"

/** An option that the method, its actor, the service or the configuration may set. */
const held = <A extends Schema.Top>(value: A) =>
  Schema.Struct({
    value,
    from: Schema.String.annotate({
      description:
        "Where it is set: `method`, `actor`, `service`, or the file, variable or flag of the configuration; `default` if nowhere",
    }),
  })

const Waits = Schema.Struct({
  base: Schema.Finite,
  factor: Schema.Finite,
  max: Schema.Finite,
  jitter: Schema.Boolean,
})

/** The options of a method that hold. Durations are in seconds. */
const AppliedOptions = Schema.Struct({
  timeLimit: held(Schema.Struct({ hard: Schema.NullOr(Schema.Finite), soft: Schema.optionalKey(Schema.Finite) })),
  retry: held(
    Schema.Struct({
      max: Schema.Int,
      backoff: Schema.optionalKey(Waits),
      interval: Schema.optionalKey(Schema.Array(Schema.Finite)),
      front: Schema.optionalKey(Schema.Boolean),
      on: Schema.optionalKey(Schema.Array(Schema.String)),
      except: Schema.optionalKey(Schema.Array(Schema.String)),
    }),
  ),
  resultTtl: held(Schema.Finite),
  failureTtl: held(Schema.Finite),
  onLost: held(Schema.Literals(["redeliver", "fail"])),
}).annotate({
  identifier: "AppliedOptions",
  description:
    "The options that hold unless a task sets its own. Durations are in seconds; `timeLimit.hard`: `null` means no limit; `resultTtl` and `failureTtl`: -1 means kept indefinitely",
})
export type AppliedOptions = typeof AppliedOptions.Type

const MethodDescription = Schema.Struct({
  name: Schema.String,
  description: Schema.optionalKey(Schema.String),
  queue: Schema.optionalKey(Schema.String),
  priority: Schema.optionalKey(Schema.Int),
  /** Its limit over all workers; `keyed`: each tenant has a limit of its own. */
  limit: Schema.optionalKey(
    Schema.Struct({
      /** As `10/m`. */
      rate: Schema.optionalKey(Schema.String),
      concurrency: Schema.optionalKey(Schema.Int),
      keyed: Schema.Boolean,
    }),
  ),
  options: Schema.optionalKey(AppliedOptions),
  params: Schema.optionalKey(Schema.Array(Schema.String)),
  /** Arguments that must not be shown anywhere: all of them, or those with these names. */
  redact: Schema.optionalKey(Schema.Union([Schema.Boolean, Schema.Array(Schema.String)])),
  /** Field of the input whose value is the tenant: each tenant has a limit of its own. */
  limitKey: Schema.optionalKey(Schema.String),
  /** JSON Schema of the input and of the result, where the method has schemas that can be expressed in it. */
  input: Schema.optionalKey(Schema.Unknown),
  /** Whether `input` takes every JSON input that the method takes, so that a submitter may refuse by it. */
  exactInput: Schema.optionalKey(Schema.Boolean),
  output: Schema.optionalKey(Schema.Unknown),
})

/** An actor as the directory describes it: its queue and its methods. */
export const ActorDescription = Schema.Struct({
  name: Schema.String,
  queue: Schema.String,
  description: Schema.optionalKey(Schema.String),
  methods: Schema.Array(MethodDescription),
})
export type ActorDescription = typeof ActorDescription.Type

/** Most running jobs that a worker lists in its entry. */
export const MAX_RUNNING = 100

const RunningJob = Schema.Struct({
  id: Schema.String,
  name: Schema.String,
  queue: Schema.String,
  attempt: Schema.Int,
  startedAt: Schema.String,
  /** When its time limit ends it; absent where it has none, or its handler has not begun. */
  deadline: Schema.optionalKey(Schema.String),
  /** Its durable step that runs, or is undone. */
  step: Schema.optionalKey(Schema.String),
  /** How far its handler says that it has come, 0 to 1. */
  progress: Schema.optionalKey(Schema.Finite),
})
export type RunningJob = typeof RunningJob.Type

const QueueWork = Schema.Struct({
  /** Handlers that run. */
  running: Schema.Int,
  /** Of these: jobs whose task was acked early, so that it is no longer in the queue. */
  acked: Schema.Int,
  /** Tasks that the worker gave back with a delay because they could not run, and that are not back yet. */
  postponed: Schema.Int,
})
export type QueueWork = typeof QueueWork.Type

/** A worker as the directory describes it. Renewed with every heartbeat. Times are ISO 8601. */
export const WorkerDescription = Schema.Struct({
  name: Schema.String,
  pid: Schema.Int,
  /** Within which its process id counts: a digest of the boot and the PID namespace; absent where they are not known. */
  pidSpace: Schema.optionalKey(Schema.String),
  /** Distinguishes it from every other worker, also of the same name. */
  instance: Schema.optionalKey(Schema.String),
  host: Schema.String,
  version: Schema.String,
  queues: Schema.Array(Schema.String),
  actors: Schema.Array(Schema.String),
  /** Their methods, each as one name with its actor: `orders.total`. */
  methods: Schema.optionalKey(Schema.Array(Schema.String)),
  /** Fields of the header `callboard` that it understands, of those that a worker must not pass over. */
  understands: Schema.optionalKey(Schema.Array(Schema.String)),
  concurrency: Schema.Int,
  state: Schema.Literals(["starting", "idle", "busy", "suspended", "blocked", "stuck", "stopping"]),
  /** Set while a handler blocks its thread: since when, and the id of the job where it is known whose handler it is. */
  blocked: Schema.optionalKey(Schema.Struct({ since: Schema.String, job: Schema.optionalKey(Schema.String) })),
  /** Jobs whose handlers run now, {@link MAX_RUNNING} at most. */
  running: Schema.Array(Schema.String),
  /** How many handlers run. */
  busy: Schema.optionalKey(Schema.Int),
  /** The same, and other numbers of its tasks, by queue. */
  byQueue: Schema.optionalKey(Schema.Record(Schema.String, QueueWork)),
  /** More about these jobs. */
  jobs: Schema.optionalKey(Schema.Array(RunningJob)),
  /** Tasks that the worker holds, those that run included. */
  inFlight: Schema.Int,
  /** Most tasks that it may hold. */
  capacity: Schema.optionalKey(Schema.Int),
  /** How many more tasks it takes now: 0 until enough handlers have ended. */
  room: Schema.optionalKey(Schema.Int),
  /** Actors that are not ready, each with the reason. Their tasks are handed back. */
  unhealthy: Schema.optionalKey(
    Schema.Array(Schema.Struct({ actor: Schema.String, condition: Schema.String, reason: Schema.String })),
  ),
  processed: Schema.Int,
  failed: Schema.Int,
  /** Outcomes that were refused, because another worker or a cancellation had decided about the job. */
  superseded: Schema.optionalKey(Schema.Int),
  /** Sum of the times that its handlers ran. */
  workingSeconds: Schema.optionalKey(Schema.Finite),
  /** The application's own version. */
  appVersion: Schema.optionalKey(Schema.String),
  /** Bytes of memory of its process. */
  rss: Schema.optionalKey(Schema.Int),
  /** Processor time of its process over the last ten seconds, 1 for one core. */
  cpu: Schema.optionalKey(Schema.Finite),
  /** The latest that its event loop came to a timer in the last ten seconds, in seconds. */
  loopLag: Schema.optionalKey(Schema.Finite),
  /** Deliveries that it settled in the last minute. */
  perMinute: Schema.optionalKey(Schema.Finite),
  startedAt: Schema.String,
  heartbeatAt: Schema.String,
  /** Its lease, in seconds. */
  lease: Schema.optionalKey(Schema.Finite),
  /** When it was told to stop. */
  stopAskedAt: Schema.optionalKey(Schema.String),
})
export type WorkerDescription = typeof WorkerDescription.Type

/** A worker as it is shown: also one that is gone. */
const WorkerView = Schema.Struct({
  ...WorkerDescription.fields,
  state: Schema.Literals([...WorkerDescription.fields.state.literals, "stopped", "lost"]),
  lost: Schema.optionalKey(
    Schema.Struct({
      lastSeen: Schema.String,
      goodbye: Schema.Boolean.annotate({ description: "Whether it shut down gracefully" }),
    }).annotate({ description: "The worker has ended; this is its last known state" }),
  ),
}).annotate({ identifier: "Worker" })
export type WorkerView = typeof WorkerView.Type

/** How many handlers of a worker run. One of an older version lists its first {@link MAX_RUNNING} jobs alone. */
export const handlersOf = ({ busy, running }: Pick<WorkerDescription, "busy" | "running">): number =>
  busy ?? running.length

export const WorkerList = Schema.Struct({ workers: Schema.Array(WorkerView) }).annotate({ identifier: "WorkerList" })

export const ActorList = Schema.Struct({
  actors: Schema.Array(ActorDescription.annotate({ identifier: "Actor" })),
}).annotate({ identifier: "ActorList" })

/** How often a worker renews its entry. It counts as gone after three missed renewals. */
export const HEARTBEAT_MS = 2_000
export const WORKER_TTL_MS = 3 * HEARTBEAT_MS
/** How often workers renew the entries of their actors. The entry of an actor that no worker serves any more lapses. */
export const ACTOR_REFRESH_MS = 20_000
const ACTOR_TTL_MS = 3 * ACTOR_REFRESH_MS

export const DEFAULT_QUEUE = "default"

/** The actors that workers serve, by name. */
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

/** Whether a worker lists a method among those that it serves. One of an older version lists only its actors. */
export const serves = ({ actors, methods }: WorkerDescription, { actor, meth }: Target): boolean =>
  actors.includes(actor) && (methods === undefined || methods.includes(`${actor}.${meth ?? DEFAULT_METHOD}`))

/**
 * What workers have written about the method of a task; `undefined` where none serves it under this name. Fails as the store
 * does.
 */
export const describedMethod = async (
  store: Store,
  task: string,
  meth: string | null,
): Promise<ActorDescription["methods"][number] | undefined> => {
  const split = resolveName(task, meth, () => false)
  // An actor may have a dot in its name.
  const targets = meth === null && split.meth !== null ? [{ actor: task, meth: null }, split] : [split]
  for (const target of targets) {
    if (Result.isFailure(checkActorName(target.actor))) continue
    const actor = (await ACTORS.get(store, target.actor))?.value
    if (actor !== undefined) return actor.methods.find(({ name }) => name === (target.meth ?? DEFAULT_METHOD))
  }
  return undefined
}

/** Looks actors up in the store, and caches what it found, or that it found nothing, for 5 seconds. */
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

  /** Actors of this process: found without asking the store. */
  get local(): ReadonlyMap<string, ActorDescription> {
    return this.#local
  }

  /** Whether a living worker serves a method, by its own entry. Fails as the store does. */
  async isServed(target: Target): Promise<boolean> {
    return (await listWorkers(this.#store)).some((worker) => serves(worker, target))
  }

  /** The actor with this name. Fails as the store does; a failure is not cached. */
  find(name: string): Promise<ActorDescription | undefined> | ActorDescription | undefined {
    const local = this.#local.get(name)
    if (local !== undefined) return local
    // Not the name of any actor; a store need not accept it as a key.
    if (Result.isFailure(checkActorName(name))) return undefined
    const now = performance.now()
    const known = this.#known.get(name)
    if (known !== undefined && known.until > now) return known.actor
    if (this.#known.size >= Directory.#CAPACITY) this.#known.clear()
    const actor = ACTORS.get(this.#store, name).then((entry) => entry?.value)
    const remembered = { until: now + Directory.#REMEMBER_MS, actor }
    this.#known.set(name, remembered)
    // A cached failure would send the tasks of the next seconds to the wrong queue.
    actor.catch(() => {
      if (this.#known.get(name) === remembered) this.#known.delete(name)
    })
    return actor
  }
}
