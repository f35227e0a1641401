/** What there is to know about a job that waits. What could not be found out is absent, and decides nothing. */

import type { Deferral } from "../../cluster/deferrals.ts"
import type { ActorDescription, WorkerDescription } from "../../cluster/directory.ts"
import type { JobRecord } from "../../protocol/record.ts"
import type { State } from "../../protocol/state.ts"

/** Most jobs before another that are counted. */
export const MAX_AHEAD = 1_000

/** Most jobs that another waits for that are looked at. */
export const MAX_PARENTS_SHOWN = 20

/** How many of those that are due are before it, `more`: and others. `undefined`: it is not among them. */
export type QueuePosition = { readonly ahead: number; readonly more?: true } | undefined

export interface Facts {
  /** Milliseconds since the epoch. */
  readonly now: number
  readonly record: JobRecord
  /** What its names mean. */
  readonly actor: string
  readonly method: string
  /** Of a deferred job: some of those that it waits for. Without a state: not kept any more. */
  readonly parents?: ReadonlyArray<{ readonly id: string; readonly state?: State }>
  /** Queues that are paused. */
  readonly paused?: ReadonlyArray<string>
  /** Names of workers that are suspended. */
  readonly suspended?: ReadonlyArray<string>
  /** All that live. */
  readonly workers?: ReadonlyArray<WorkerDescription>
  /** What they serve. */
  readonly actors?: ReadonlyArray<ActorDescription>
  /** Workers in which it waits for a handler. */
  readonly reservedBy?: ReadonlyArray<string>
  /** What workers say that handed it back. */
  readonly deferrals?: ReadonlyArray<Omit<Deferral, "queue"> & { readonly worker: string }>
  readonly position?: { readonly inQueue: QueuePosition }
}
