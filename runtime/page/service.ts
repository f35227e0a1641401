/** The answers of the HTTP interface about queues, limits, workers and schedules, as far as the page reads them. */
import type { Time } from "./api.ts"

export interface Queue {
  readonly name: string
  readonly paused: boolean
  readonly depth: number
  readonly scheduled: number
  readonly inFlight: number
  readonly oldestAge?: number
  readonly pausedSince?: Time
  /** Name of the token that paused the queue. */
  readonly pausedBy?: string
  /** Jobs per minute that were added and that left, lately. */
  readonly perMinute?: { readonly in: number; readonly out: number }
  readonly trend?: "empty" | "steady" | "growing" | "draining"
  readonly emptyAt?: Time
  /** Sum over all workers that take from the queue. */
  readonly handlers: number
  readonly workers: number
}

export interface Limit {
  readonly task: string
  readonly rate?: string
  readonly concurrency?: number
  /** Whether each value of the limit's key has a limit of its own. */
  readonly keyed: boolean
  readonly running: number
  readonly held: number
  /** How long the oldest waiting task waits, in seconds. */
  readonly oldest?: number
  readonly keys?: { readonly total: number }
}

export interface LimitKey {
  readonly key: string
  readonly running: number
  readonly held: number
  readonly oldest?: number
  /** When the rate lets the next task start. */
  readonly nextFree?: Time
}

export interface RunningJob {
  readonly id: string
  readonly name: string
  readonly queue: string
  readonly attempt: number
  readonly startedAt: Time
  /** When the time limit ends the job. */
  readonly deadline?: Time
  /** Progress of the job, from 0 to 1. */
  readonly progress?: number
}

export interface Worker {
  readonly name: string
  readonly pid: number
  readonly host: string
  readonly version: string
  readonly appVersion?: string
  readonly queues: ReadonlyArray<string>
  readonly actors: ReadonlyArray<string>
  readonly concurrency: number
  readonly state: string
  /** A handler blocks its thread. */
  readonly blocked?: { readonly since: Time; readonly job?: string }
  readonly running: ReadonlyArray<string>
  readonly jobs?: ReadonlyArray<RunningJob>
  readonly inFlight: number
  readonly unhealthy?: ReadonlyArray<{ readonly actor: string; readonly condition: string; readonly reason: string }>
  readonly processed: number
  readonly failed: number
  readonly perMinute?: number
  /** Memory of the process in bytes. */
  readonly rss?: number
  /** Lag of the event loop in seconds. */
  readonly loopLag?: number
  readonly startedAt: Time
  readonly heartbeatAt: Time
  /** The worker has ended; this is its last known state. */
  readonly lost?: { readonly lastSeen: Time; readonly goodbye: boolean }
}

export interface ScheduleRun {
  readonly id: string
  readonly due: Time
  readonly posted: Time
  readonly state?: string
}

export interface Schedule {
  readonly name: string
  readonly state: "active" | "paused" | "over"
  readonly next?: Time
  /** The next five starts; only where one schedule was requested. */
  readonly upcoming?: ReadonlyArray<Time>
  readonly fields: {
    readonly task: string
    readonly meth?: string
    readonly cron?: string
    readonly timeZone?: string
    readonly every?: string | number
    readonly at?: string
  }
  readonly waiting: number
  readonly runs: ReadonlyArray<ScheduleRun>
  readonly missed: {
    readonly count: number
    readonly latest: ReadonlyArray<{
      readonly from: Time
      readonly to: Time
      readonly count: number
      readonly why: string
      readonly detail?: string
    }>
  }
  readonly declaredBy?: string
}
