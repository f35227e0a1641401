/** What a transport knows about one job, and what it is listed by. */
import type { Message } from "../protocol/message.ts"
import type { State } from "../protocol/state.ts"
import type { Revision } from "./store.ts"

/** What is known about one job. */
export interface Known {
  /** Revision of the stored record; `""` when none is stored. */
  readonly revision: Revision
  readonly record?: Uint8Array
  /** Only with `all`: the newest task of this job that is in a queue, whether a delivery has it or not. */
  readonly task?: QueuedTask
}

export interface QueuedTask {
  readonly queue: string
  /** Not to be taken before, as it was posted. What was given back with a delay is not due later. */
  readonly due?: number
  readonly expires?: number
  /** When it was published. */
  readonly at: number
  /** Whether a delivery has the task, as far as the broker tells. */
  readonly held?: boolean
  readonly content: Uint8Array | Message
}

/** What lists look for. */
export interface Index {
  readonly state: State
  /** Not to be listed any more: the job was forgotten, and its record only refuses late workers. */
  readonly hidden?: true
  readonly dead?: true
  readonly queue: string
  readonly task: string
  readonly method?: string
  readonly root?: string
  readonly parent?: string
  readonly group?: string
  /** Fingerprint of a failure: jobs that failed alike have the same. */
  readonly error?: string
  /** Tenant of the job, where a limit of its method counts by one. */
  readonly tenant?: string
  /** When the job was submitted. */
  readonly at: number
}
