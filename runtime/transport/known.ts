/** What a driver knows about one job, and the fields by which jobs are listed. */
import type { Message, Undecodable } from "../protocol/message.ts"
import type { State } from "../protocol/state.ts"
import type { Revision } from "./store.ts"

/** What is known about one job. */
export interface Known {
  /** Revision of the stored record; `""` when none is stored. */
  readonly revision: Revision
  readonly record?: Uint8Array
  /**
   * Only with `all`: the newest task of this job that is in a queue, also one that a delivery has. As long as the job has no
   * record, one that another program has published counts only where there was none before it: the id is that one's.
   */
  readonly task?: QueuedTask
}

export interface QueuedTask {
  readonly queue: string
  /** When it was due as posted. The delay of a release does not change it. */
  readonly due?: number
  readonly expires?: number
  /** When it was published. */
  readonly at: number
  /** As in `Delivery`. Needed where other programs publish tasks to the same queues. */
  readonly sequence?: number
  /** Whether a delivery has the task, as far as the broker tells. */
  readonly held?: boolean
  /** How often it was delivered, as far as the broker tells: 0 is certain. */
  readonly deliveries?: number
  readonly content: Uint8Array | Message | Undecodable
}

/** The fields by which jobs are listed. */
export interface Index {
  readonly state: State
  /** The job is not listed any more: it was forgotten, and its record stays only to refuse late workers. */
  readonly hidden?: true
  readonly dead?: true
  readonly queue: string
  readonly task: string
  readonly method?: string
  readonly root?: string
  readonly parent?: string
  readonly group?: string
  /** Fingerprint of the failure, the same for jobs that failed alike. */
  readonly error?: string
  /** Tenant of the job, where a limit of its method counts per tenant. */
  readonly tenant?: string
  /** When the job was submitted. */
  readonly at: number
}
