/** The schema of the causes why a job waits, and the facts from which they are decided. */
import * as Schema from "effect/Schema"
import type { ActorDescription, WorkerDescription } from "../../cluster/directory.ts"
import type { Postponement } from "../../cluster/postponements.ts"
import { Time } from "../../options/fields.ts"
import { compact } from "../../protocol/compact.ts"
import type { JobRecord } from "../../protocol/record.ts"
import { STATES, type State } from "../../protocol/state.ts"

const Text = Schema.String
const about = (description: string) => Schema.optionalKey(Text.annotate({ description }))

/** Every cause there is. Programs decide by it; more may come. */
const CAUSES = [
  "transport-down",
  "ended",
  "running",
  "worker-lost",
  "overdue",
  "waiting-for-jobs",
  "waiting-for-signal",
  "sleeping",
  "scheduled",
  "retrying",
  "queue-paused",
  "no-worker",
  "unknown-actor",
  "unsupported",
  "actor-elsewhere",
  "workers-suspended",
  "workers-starting",
  "workers-blocked",
  "workers-stuck",
  "actor-unhealthy",
  "rate-limit",
  "concurrency-limit",
  "tenant-limit",
  "queue-limit",
  "suspect",
  "reserved",
  "behind",
  "prefetch-full",
  "in-hand",
  "next",
  "unclear",
] as const

export const WaitCause = Schema.Struct({
  code: Schema.Literals(CAUSES).annotate({ description: "Stable code for programs" }),
  message: Text.annotate({ description: "The cause and what to do, for people" }),
  queue: about("The queue in which the job waits"),
  actor: about("The actor of the job"),
  workers: Schema.optionalKey(Schema.Array(Text).annotate({ description: "The workers concerned" })),
  until: Schema.optionalKey(Time.annotate({ description: "When the job continues, if known" })),
  since: Schema.optionalKey(Time),
  jobs: Schema.optionalKey(
    Schema.Int.annotate({ description: "Number of jobs ahead of it, or that must end before it starts" }),
  ),
  atLeast: Schema.optionalKey(Schema.Literal(true).annotate({ description: "There are more than `jobs`" })),
  attempt: Schema.optionalKey(Schema.Int.annotate({ description: "The attempt that is running, or that failed" })),
  attempts: Schema.optionalKey(Schema.Int.annotate({ description: "Maximum number of attempts" })),
  state: Schema.optionalKey(Schema.Literals(STATES)),
  reason: about("Why the job ended, failed or was handed back"),
  waiting: Schema.optionalKey(
    Schema.Array(Schema.Struct({ id: Text, state: Schema.optionalKey(Schema.Literals(STATES)) })).annotate({
      description: "Jobs that must end before it starts, at most 20; a job that is no longer kept has no state",
    }),
  ),
  running: Schema.optionalKey(
    Schema.Array(Schema.Struct({ id: Text, name: Text, worker: Text, since: Time })).annotate({
      description: "Running jobs that occupy the workers, at most 100",
    }),
  ),
}).annotate({ identifier: "Cause", description: "Why a job is waiting" })
export type WaitCause = typeof WaitCause.Type

/** Why a job waits: the first cause is the true one; the others would hold it up next. */
export const Why = Schema.Struct({
  id: Text,
  state: Schema.optionalKey(
    Schema.Literals(STATES).annotate({ description: "Absent if the transport is unreachable" }),
  ),
  causes: Schema.Array(WaitCause).annotate({
    description: "The actual cause first, then the causes that would delay the job next",
  }),
}).annotate({ identifier: "Why" })
export type Why = typeof Why.Type

/** The causes without the value that a limit has taken from the input of the job. */
export const withoutTenant = ({ causes, ...why }: Why): Why => ({
  ...why,
  causes: causes.map(({ reason, ...cause }) =>
    cause.code === "tenant-limit"
      ? { ...cause, message: "waiting for the limit of its tenant" }
      : { ...cause, ...compact({ reason }) },
  ),
})

/** Most jobs that are counted before a job. */
export const MAX_AHEAD = 1_000

/** Most parents of a job that are looked at. */
export const MAX_PARENTS_SHOWN = 20

/**
 * How many due jobs are before the job in its queue; with `more`, at least so many. `undefined`: the job is not in the
 * queue.
 */
export type QueuePosition = { readonly ahead: number; readonly more?: true } | undefined

/** What is known about a job and its workers. A fact that could not be found out is absent, and decides nothing. */
export interface WaitFacts {
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
  /** How many jobs of its queue may run at a time, if that is limited. */
  readonly maxInFlight?: number
  /** Names of workers that are suspended. */
  readonly suspended?: ReadonlyArray<string>
  /** All living workers. */
  readonly workers?: ReadonlyArray<WorkerDescription>
  /** The actors that living workers serve. */
  readonly actors?: ReadonlyArray<ActorDescription>
  /** Names of workers that hold the job until a handler is free. */
  readonly reservedBy?: ReadonlyArray<string>
  /** Notes of workers that handed the job back. */
  readonly postponements?: ReadonlyArray<Omit<Postponement, "queue"> & { readonly worker: string }>
  readonly position?: { readonly inQueue: QueuePosition }
}
