/** The facts from which the causes are decided. A fact that could not be found out is absent, and decides nothing. */
import type { Deferral } from "../../cluster/deferrals.ts"
import type { ActorDescription, WorkerDescription } from "../../cluster/directory.ts"
import type { JobRecord } from "../../protocol/record.ts"
import type { State } from "../../protocol/state.ts"

/** Most jobs that are counted before a job. */
export const MAX_AHEAD = 1_000

/** Most parents of a job that are looked at. */
export const MAX_PARENTS_SHOWN = 20

/**
 * How many due jobs are before the job in its queue; with `more`, at least so many. `undefined`: the job is not in the
 * queue.
 */
export type QueuePosition = { readonly ahead: number; readonly more?: true } | undefined

export interface Facts {
  /** Milliseconds since the epoch. */
  readonly now: number
  readonly record: JobRecord
  /** The actor and method that the task's name stands for. */
  readonly actor: string
  readonly method: string
  /** Of a deferred job: some of its parents. A parent without a state is not kept any more. */
  readonly parents?: ReadonlyArray<{ readonly id: string; readonly state?: State }>
  /** Queues that are paused. */
  readonly paused?: ReadonlyArray<string>
  /** Names of workers that are suspended. */
  readonly suspended?: ReadonlyArray<string>
  /** All living workers. */
  readonly workers?: ReadonlyArray<WorkerDescription>
  /** The actors that living workers serve. */
  readonly actors?: ReadonlyArray<ActorDescription>
  /** Names of workers that hold the job until a handler is free. */
  readonly reservedBy?: ReadonlyArray<string>
  /** Notes of workers that handed the job back. */
  readonly deferrals?: ReadonlyArray<Omit<Deferral, "queue"> & { readonly worker: string }>
  readonly position?: { readonly inQueue: QueuePosition }
}
