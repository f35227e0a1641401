/** What a worker shows of itself: to the list of workers, and to those who ask what is in its hands. */
import { hostname } from "node:os"
import { MOST_RUNNING, type WorkerDescription } from "../../cluster/directory.ts"
import { VERSION } from "../../version.ts"
import type { ActorPool } from "../actors/actor-pool.ts"
import type { Hands } from "../fetch/buffer.ts"
import type { Counts } from "../telemetry/counts.ts"
import type { ActiveJob, ReservedTask, WorkerHands } from "./worker.ts"

/** How it stands, as far as its hands do not tell. */
export interface Standing {
  readonly queues: ReadonlyArray<string>
  readonly isListening: boolean
  readonly isSuspended: boolean
  /** When it was told to stop. */
  readonly stopAskedAt: string | undefined
}

export interface Sitter {
  readonly name: string
  readonly actors: ReadonlyArray<string>
  readonly startedAt: string
  readonly pool: ActorPool
  readonly hands: Hands
  readonly counts: Counts
}

export const portraitOf = (sitter: Sitter, standing: Standing): WorkerDescription => {
  const { name, actors, startedAt, pool, hands, counts } = sitter
  const { queues, stopAskedAt } = standing
  const jobs = handsOf(hands).active
  return {
    name,
    pid: process.pid,
    host: hostname(),
    version: VERSION,
    queues: [...queues],
    actors: [...actors],
    concurrency: hands.concurrency,
    state: stateOf(standing, jobs.length > 0),
    running: jobs.map(({ id }) => id).slice(0, MOST_RUNNING),
    jobs: jobs.slice(0, MOST_RUNNING),
    inFlight: hands.held.size,
    capacity: hands.capacity,
    room: hands.room,
    ...(pool.unhealthy.length === 0 ? {} : { unhealthy: pool.unhealthy }),
    processed: counts.processed,
    failed: counts.failed,
    superseded: counts.superseded,
    workingSeconds: counts.workingMs / 1000,
    startedAt,
    heartbeatAt: new Date().toISOString(),
    ...(stopAskedAt === undefined ? {} : { stopAskedAt }),
  }
}

const stateOf = ({ isListening, isSuspended, stopAskedAt }: Standing, isBusy: boolean): WorkerDescription["state"] => {
  if (stopAskedAt !== undefined) return "stopping"
  if (isBusy) return "busy"
  if (isSuspended) return "suspended"
  return isListening ? "idle" : "starting"
}

export const handsOf = ({ held }: Hands): WorkerHands => {
  const active: Array<ActiveJob> = []
  const reserved: Array<ReservedTask> = []
  for (const { run, id, delivery, phase } of held.values()) {
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
