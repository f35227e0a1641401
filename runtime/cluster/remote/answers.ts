/** What a worker answers to each command: the worker builds its answers by these types, and callers read them by the same. */
import type { WorkerDescription } from "../directory.ts"
import type { Call, CommandName } from "./call.ts"

/** A job whose handler runs. */
export interface ActiveTask {
  readonly id: string
  /** Task and method, or what the submitter wants to be shown instead. */
  readonly name: string
  readonly queue: string
  readonly attempt: number
  /** ISO 8601. */
  readonly startedAt: string
}

/** Limits let a task run later; of the others nobody knows whether it ever can. */
export const LIMIT_REASONS = ["rate-limit", "concurrency-limit", "tenant-limit"] as const
export const PUT_OFF_REASONS = ["unknown-actor", "actor-unhealthy", ...LIMIT_REASONS] as const

/** A task that was handed back because it could not run, and comes again. */
export interface WaitingTask {
  readonly id: string
  readonly queue: string
  readonly reason: (typeof PUT_OFF_REASONS)[number]
  /** When it comes again at the latest, in milliseconds since the epoch. */
  readonly until: number
  /** More about it, for people. */
  readonly detail: string
}

export interface Answers {
  readonly ping: "pong"
  readonly active: ReadonlyArray<ActiveTask>
  readonly reserved: ReadonlyArray<{ readonly id: string; readonly queue: string }>
  readonly "put-off": ReadonlyArray<WaitingTask>
  readonly stats: WorkerDescription & {
    readonly uptimeSeconds: number
    /** In bytes. */
    readonly memory: { readonly rss: number; readonly heapTotal: number; readonly heapUsed: number }
  }
  readonly registered: ReadonlyArray<{ readonly name: string; readonly methods: ReadonlyArray<string> }>
  /** The queues that it listens to, in order of preference. */
  readonly queues: ReadonlyArray<string>
  readonly "pool-grow": { readonly concurrency: number }
  readonly "pool-shrink": { readonly concurrency: number }
  readonly autoscale: { readonly min: number; readonly max: number }
  /** The queues that it listens to from now on. */
  readonly "add-consumer": ReadonlyArray<string>
  readonly "cancel-consumer": ReadonlyArray<string>
  readonly "time-limit": {
    readonly task: string
    readonly hard: number | string
    readonly soft: number | string | null
  }
  readonly "rate-limit": { readonly task: string; readonly rate: number | string }
  readonly "enable-events": string
  readonly "disable-events": string
  readonly shutdown: "stopping"
}

/** The arguments of a command. */
export type ArgumentsOf<C extends CommandName> = Extract<Call, { readonly command: C }>["arguments"]

/** What one worker answered to a command: a value, or in `error` why there is none. */
export interface AnswerTo<C extends CommandName> {
  readonly worker: string
  readonly value?: Answers[C]
  readonly error?: string
}
