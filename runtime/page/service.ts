/** What the HTTP interface tells about the service: queues, limits, workers, schedules. As far as the page reads it. */
import type { Time } from "./api.ts"

export interface Queue {
  readonly name: string
  readonly paused: boolean
  readonly depth: number
  readonly scheduled: number
  readonly inFlight: number
  readonly oldestAge?: number
  readonly pausedSince?: Time
  /** The name of the token that paused it. */
  readonly pausedBy?: string
  /** Jobs that came and went, a minute, lately. */
  readonly perMinute?: { readonly in: number; readonly out: number }
  readonly trend?: "empty" | "steady" | "growing" | "draining"
  readonly emptyAt?: Time
  /** Of all workers that take from it. */
  readonly handlers: number
  readonly workers: number
}

export interface Limit {
  readonly task: string
  readonly rate?: string
  readonly concurrency?: number
  /** Whether each value of a key has a limit of its own. */
  readonly keyed: boolean
  readonly running: number
  readonly held: number
  /** How long the one waits that waits longest, in seconds. */
  readonly oldest?: number
  readonly keys?: { readonly total: number }
}

export interface LimitKey {
  readonly key: string
  readonly running: number
  readonly held: number
  readonly oldest?: number
  /** When the rate lets the next one start. */
  readonly nextFree?: Time
}

export interface RunningJob {
  readonly id: string
  readonly name: string
  readonly queue: string
  readonly attempt: number
  readonly startedAt: Time
  /** When its time limit ends it. */
  readonly deadline?: Time
  /** How much of it is done, from 0 to 1. */
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
  readonly running: ReadonlyArray<string>
  readonly jobs?: ReadonlyArray<RunningJob>
  readonly inFlight: number
  readonly unhealthy?: ReadonlyArray<{ readonly actor: string; readonly condition: string; readonly reason: string }>
  readonly processed: number
  readonly failed: number
  readonly perMinute?: number
  /** Bytes of memory. */
  readonly rss?: number
  /** How late its event loop is, in seconds. */
  readonly loopLag?: number
  readonly startedAt: Time
  readonly heartbeatAt: Time
  /** It has gone, and this is the last that is known of it. */
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
  /** The next five; where one schedule was asked for. */
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
