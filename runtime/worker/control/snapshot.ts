/** The state of a worker, as the list of workers and remote commands show it. */
import { hostname } from "node:os"
import { MOST_RUNNING, type WorkerDescription } from "../../cluster/directory.ts"
import { VERSION } from "../../version.ts"
import type { ActorPool } from "../actors/actor-pool.ts"
import type { DeliveryBuffer } from "../fetch/delivery-buffer.ts"
import type { QueueSubscription } from "../fetch/queue-subscription.ts"
import type { Counts } from "../telemetry/counts.ts"

/** A job whose handler runs. */
export type ActiveJob = NonNullable<WorkerDescription["jobs"]>[number]

/** A task that waits in the worker for a slot. */
export interface ReservedTask {
  /** Id of the job; empty where it cannot be read. */
  readonly id: string
  readonly queue: string
}

/** The jobs and tasks that a worker has. */
export interface WorkerJobs {
  readonly active: ReadonlyArray<ActiveJob>
  readonly reserved: ReadonlyArray<ReservedTask>
}

export interface WorkerSnapshotOptions {
  readonly name: string
  readonly leaseMs: number
  readonly actors: ReadonlyArray<string>
  readonly pool: ActorPool
  readonly buffer: DeliveryBuffer
  readonly counts: Counts
  readonly subscription: QueueSubscription
}

/** Describes the present state of a worker. It lives as long as the worker. */
export class WorkerSnapshot {
  readonly startedAt = new Date().toISOString()
  /** Whether the worker consumes now. */
  isListening = false
  readonly #options: WorkerSnapshotOptions
  readonly #methods: ReadonlyArray<string>
  #stopAskedAt: string | undefined

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
    const { name, leaseMs, actors, pool, buffer, counts, subscription } = this.#options
    const stopAskedAt = this.#stopAskedAt
    const jobs = jobsIn(buffer).active
    return {
      name,
      pid: process.pid,
      host: hostname(),
      version: VERSION,
      queues: [...subscription.listed],
      actors: [...actors],
      methods: this.#methods,
      concurrency: buffer.concurrency,
      state: this.#state(jobs.length > 0),
      running: jobs.map(({ id }) => id).slice(0, MOST_RUNNING),
      jobs: jobs.slice(0, MOST_RUNNING),
      inFlight: buffer.inFlight.size,
      capacity: buffer.capacity,
      room: buffer.room,
      ...(pool.unhealthy.length === 0 ? {} : { unhealthy: pool.unhealthy }),
      processed: counts.processed,
      failed: counts.failed,
      superseded: counts.superseded,
      workingSeconds: counts.workingMs / 1000,
      lease: leaseMs / 1000,
      startedAt: this.startedAt,
      heartbeatAt: new Date().toISOString(),
      ...(stopAskedAt === undefined ? {} : { stopAskedAt }),
    }
  }

  #state(isBusy: boolean): WorkerDescription["state"] {
    if (this.isStopping) return "stopping"
    if (this.#options.subscription.isStuck) return "stuck"
    if (isBusy) return "busy"
    if (this.#options.subscription.isSuspended) return "suspended"
    return this.isListening ? "idle" : "starting"
  }
}

export const jobsIn = ({ inFlight }: DeliveryBuffer): WorkerJobs => {
  const active: Array<ActiveJob> = []
  const reserved: Array<ReservedTask> = []
  for (const { run, id, delivery, phase } of inFlight.values()) {
    if (run === undefined) {
      // A task that waits for a limit is listed as deferred, not as reserved, because a free slot would not start it.
      if (phase !== "waiting") reserved.push({ id: id ?? "", queue: delivery.queue })
      continue
    }
    active.push({
      id: run.posting.id,
      name: run.record.name,
      queue: run.posting.queue,
      attempt: run.record.attempt,
      startedAt: new Date(run.startedAt).toISOString(),
    })
  }
  return { active, reserved }
}
