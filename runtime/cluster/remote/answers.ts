/**
 * The value that a worker replies to each command: one type for the worker that builds it and the caller that reads it.
 */
import type { Deferral } from "../deferrals.ts"
import type { WorkerDescription } from "../directory.ts"
import type { Command, CommandName } from "./command.ts"

/** A job whose handler runs now. */
export interface ActiveTask {
  readonly id: string
  /** Task and method, or the name for people that the submitter has set instead. */
  readonly name: string
  readonly queue: string
  readonly attempt: number
  /** ISO 8601. */
  readonly startedAt: string
}

/** The value of a reply, by command. */
export interface Answers {
  readonly ping: "pong"
  readonly active: ReadonlyArray<ActiveTask>
  readonly reserved: ReadonlyArray<{ readonly id: string; readonly queue: string }>
  readonly "put-off": ReadonlyArray<Omit<Deferral, "waits">>
  readonly stats: WorkerDescription & {
    readonly uptimeSeconds: number
    /** In bytes. */
    readonly memory: { readonly rss: number; readonly heapTotal: number; readonly heapUsed: number }
  }
  readonly registered: ReadonlyArray<{ readonly name: string; readonly methods: ReadonlyArray<string> }>
  /** Queues that the worker pulls from, in order of preference. */
  readonly queues: ReadonlyArray<string>
  readonly "pool-grow": { readonly concurrency: number }
  readonly "pool-shrink": { readonly concurrency: number }
  readonly autoscale: { readonly min: number; readonly max: number }
  /** Queues that the worker pulls from after the command. */
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
export type ArgumentsOf<C extends CommandName> = Extract<Command, { readonly command: C }>["arguments"]

/** The reply of one worker to a command: a value, or in `error` the reason why there is none. */
export interface AnswerTo<C extends CommandName> {
  readonly worker: string
  readonly value?: Answers[C]
  readonly error?: string
}
