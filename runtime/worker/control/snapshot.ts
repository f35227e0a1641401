/** What a worker shows of itself: to the list of workers, and to those who ask what is in its hands. */
import { hostname } from "node:os"
import { MOST_RUNNING, type WorkerDescription } from "../../cluster/directory.ts"
import { VERSION } from "../../version.ts"
import type { ActorPool } from "../actors/actor-pool.ts"
import type { DeliveryBuffer } from "../fetch/delivery-buffer.ts"
import type { QueueSubscription } from "../fetch/queue-subscription.ts"
import type { Counts } from "../telemetry/counts.ts"

/** A job whose handler runs. */
export type ActiveJob = NonNullable<WorkerDescription["jobs"]>[number]

/** A task that waits in a worker for a handler. */
export interface ReservedTask {
  /** Empty where it cannot be read. */
  readonly id: string
  readonly queue: string
}

/** What a worker has in its hands. */
export interface WorkerJobs {
  readonly active: ReadonlyArray<ActiveJob>
  readonly reserved: ReadonlyArray<ReservedTask>
}

export interface WorkerSnapshotOptions {
  readonly name: string
  readonly actors: ReadonlyArray<string>
  readonly pool: ActorPool
  readonly buffer: DeliveryBuffer
  readonly counts: Counts
  readonly subscription: QueueSubscription
}

/** How a worker stands, for as long as it lives. */
export class WorkerSnapshot {
  readonly startedAt = new Date().toISOString()
  /** Whether it consumes now. */
  isListening = false
  readonly #options: WorkerSnapshotOptions
  #stopAskedAt: string | undefined

  constructor(options: WorkerSnapshotOptions) {
    this.#options = options
  }

  get isStopping(): boolean {
    return this.#stopAskedAt !== undefined
  }

  /** The worker was told to stop. */
  stop(): void {
    this.#stopAskedAt ??= new Date().toISOString()
  }

  describe(): WorkerDescription {
    const { name, actors, pool, buffer, counts, subscription } = this.#options
    const stopAskedAt = this.#stopAskedAt
    const jobs = jobsIn(buffer).active
    return {
      name,
      pid: process.pid,
      host: hostname(),
      version: VERSION,
      queues: [...subscription.listed],
      actors: [...actors],
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
      startedAt: this.startedAt,
      heartbeatAt: new Date().toISOString(),
      ...(stopAskedAt === undefined ? {} : { stopAskedAt }),
    }
  }

  #state(isBusy: boolean): WorkerDescription["state"] {
    if (this.isStopping) return "stopping"
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
      // What waits for a limit is told of as put off: no handler would help it.
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
