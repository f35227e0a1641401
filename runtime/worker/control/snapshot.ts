/** The state of a worker, as the list of workers and remote commands show it. */
import { hostname } from "node:os"
import * as Result from "effect/Result"
import { MAX_RUNNING, type WorkerDescription } from "../../cluster/directory.ts"
import { newWorkerProcess } from "../../cluster/worker-process.ts"
import { NO_LIMIT_MS } from "../../options/duration.ts"
import { compact } from "../../protocol/compact.ts"
import { UNDERSTOOD } from "../../protocol/headers.ts"
import type { Load } from "../../statistics/load.ts"
import { VERSION } from "../../version.ts"
import type { HandlerRun } from "../active-delivery.ts"
import type { ActorPool } from "../actors/actor-pool.ts"
import type { DeliveryBuffer } from "../fetch/delivery-buffer.ts"
import type { QueueSubscription } from "../fetch/queue-subscription.ts"
import { parseDelivery } from "../parsed-delivery.ts"
import type { WorkerCounts } from "../telemetry/counts.ts"

/** A job whose handler runs. */
export type ActiveJob = NonNullable<WorkerDescription["jobs"]>[number]

/** A task that waits in the worker for a slot. */
export interface ReservedTask {
  /** Id of the job; empty where it cannot be read. */
  readonly id: string
  /** Task and method, or the name for people that the submitter has set instead; empty where the task cannot be read. */
  readonly name: string
  readonly queue: string
}

/** The jobs and tasks that a worker has. */
export interface WorkerJobs {
  readonly active: ReadonlyArray<ActiveJob>
  readonly reserved: ReadonlyArray<ReservedTask>
  /** The tasks of these jobs by their ids, where the name of the job is another one. */
  readonly tasks: ReadonlyMap<string, string>
}

export interface WorkerSnapshotOptions {
  readonly name: string
  readonly leaseMs: number
  readonly actors: ReadonlyArray<string>
  readonly pool: ActorPool
  readonly buffer: DeliveryBuffer
  readonly counts: WorkerCounts
  readonly subscription: QueueSubscription
  /** The application's own version. */
  readonly version: string | undefined
  readonly load: () => Load
}

/** Over how long deliveries are counted for the rate of a worker, and how often at most. */
const RATE_MS = 60_000
const SAMPLE_MS = 5_000

/** Describes the present state of a worker. It lives as long as the worker. */
export class WorkerSnapshot {
  readonly startedAt = new Date().toISOString()
  readonly #process = newWorkerProcess()
  /** Whether the worker consumes now. */
  isListening = false
  /** How many tasks were given back with a delay, by queue; set by the worker. */
  postponed: () => ReadonlyMap<string, number> = () => new Map()
  readonly #options: WorkerSnapshotOptions
  readonly #methods: ReadonlyArray<string>
  #stopAskedAt: string | undefined
  /** How many deliveries were settled at some moments of the last minute, by the monotonic clock. */
  #settled: ReadonlyArray<{ readonly at: number; readonly processed: number }> = []

  constructor(options: WorkerSnapshotOptions) {
    this.#options = options
    this.#methods = options.pool.actors.flatMap(({ name, methods }) =>
      [...methods.keys()].map((each) => `${name}.${each}`),
    )
  }

  get isStopping(): boolean {
    return this.#stopAskedAt !== undefined
  }

  /** The worker was told to stop. */
  stop(): void {
    this.#stopAskedAt ??= new Date().toISOString()
  }

  describe(): WorkerDescription {
    const { name, leaseMs, actors, pool, buffer, counts, subscription, version, load } = this.#options
    const stopAskedAt = this.#stopAskedAt
    const jobs = jobsIn(buffer).active
    return {
      name,
      ...this.#process,
      host: hostname(),
      version: VERSION,
      queues: [...subscription.listed],
      actors: [...actors],
      methods: this.#methods,
      understands: UNDERSTOOD,
      concurrency: buffer.concurrency,
      state: this.#state(jobs.length > 0),
      running: jobs.map(({ id }) => id).slice(0, MAX_RUNNING),
      ...workIn(buffer, this.postponed()),
      jobs: jobs.slice(0, MAX_RUNNING),
      inFlight: buffer.held.size,
      capacity: buffer.capacity,
      room: buffer.room,
      ...(pool.unhealthy.length === 0 ? {} : { unhealthy: pool.unhealthy }),
      processed: counts.processed,
      failed: counts.failed,
      superseded: counts.superseded,
      workingSeconds: counts.workingMs / 1000,
      lease: leaseMs / 1000,
      ...compact({ appVersion: version }),
      ...load(),
      perMinute: this.#perMinute(),
      startedAt: this.startedAt,
      heartbeatAt: new Date().toISOString(),
      ...compact({ stopAskedAt }),
    }
  }

  #perMinute(): number {
    const at = performance.now()
    const { processed } = this.#options.counts
    if (at - (this.#settled.at(-1)?.at ?? Number.NEGATIVE_INFINITY) >= SAMPLE_MS)
      this.#settled = [...this.#settled.filter((each) => at - each.at <= RATE_MS), { at, processed }]
    const [first] = this.#settled
    const passed = first === undefined ? 0 : at - first.at
    // Shortly after the start a few deliveries are no rate yet.
    return first === undefined ? 0 : Math.round(((processed - first.processed) * RATE_MS) / Math.max(passed, SAMPLE_MS))
  }

  #state(isBusy: boolean): WorkerDescription["state"] {
    if (this.isStopping) return "stopping"
    if (this.#options.subscription.isStuck) return "stuck"
    if (isBusy) return "busy"
    if (this.#options.subscription.isSuspended) return "suspended"
    return this.isListening ? "idle" : "starting"
  }
}

/** How many handlers run, in all and by queue. */
const workIn = (
  { held }: DeliveryBuffer,
  postponed: ReadonlyMap<string, number>,
): Pick<WorkerDescription, "busy" | "byQueue"> => {
  const byQueue = new Map([...postponed].map(([queue, count]) => [queue, { running: 0, acked: 0, postponed: count }]))
  let busy = 0
  for (const { run, phase, offQueue, delivery } of held.values()) {
    if (run === undefined || phase !== "running") continue
    busy++
    const work = byQueue.get(delivery.queue) ?? { running: 0, acked: 0, postponed: 0 }
    work.running++
    if (offQueue) work.acked++
    byQueue.set(delivery.queue, work)
  }
  return { busy, byQueue: Object.fromEntries(byQueue) }
}

export const jobsIn = ({ held }: DeliveryBuffer): WorkerJobs => {
  const active: Array<ActiveJob> = []
  const reserved: Array<ReservedTask> = []
  const tasks = new Map<string, string>()
  for (const { run, id = "", delivery, phase } of held.values()) {
    // A task that waits for a limit is listed as deferred, not as reserved, because a free slot would not start it.
    if (run === undefined && phase === "waiting") continue
    const task = run?.task ?? Result.getOrUndefined(parseDelivery(delivery))?.task
    const own = task === undefined ? "" : task.meth === null ? task.task : `${task.task}.${task.meth}`
    if (task !== undefined && task.shadow !== null) tasks.set(task.id, own)
    if (run === undefined) {
      reserved.push({ id, name: task?.shadow ?? own, queue: delivery.queue })
      continue
    }
    active.push({
      id: run.posting.id,
      name: run.record.name,
      queue: run.posting.queue,
      attempt: run.record.attempt,
      startedAt: new Date(run.startedAt).toISOString(),
      ...deadlineOf(run),
      ...compact({ step: run.steps?.step, progress: run.progress?.fraction }),
    })
  }
  return { active, reserved, tasks }
}

const deadlineOf = ({ startedAt, hardMs }: HandlerRun): { readonly deadline?: string } =>
  hardMs < NO_LIMIT_MS ? { deadline: new Date(startedAt + hardMs).toISOString() } : {}
