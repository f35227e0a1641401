/** The options of a worker, validated and with all defaults applied. */
import type { ActorDefinition } from "../actor/actor.ts"
import type { Clock } from "../async/clock.ts"
import type { Client } from "../client/client.ts"
import type { Connection } from "../connection/connection.ts"
import type { Keep } from "../jobs/outcome/settlement.ts"
import type { Log } from "../log/log.ts"
import type { Autoscale } from "../options/autoscale.ts"
import type { ReconnectPolicy } from "../options/reconnect.ts"
import type { Settlement } from "../transport/job-store/transport.ts"
import type { ExternalTasks } from "./active-delivery.ts"
import type { LeaseThreadTarget } from "./leases/lease-protocol.ts"
import type { FailureHandler } from "./telemetry/failure-reporter.ts"
import type { WorkerObserver } from "./telemetry/observer.ts"

export interface WorkerOptions {
  readonly connection: Connection
  readonly client: Client
  readonly actors: ReadonlyArray<ActorDefinition>
  /** In order of preference. */
  readonly queues: ReadonlyArray<string>
  /** Handlers that run at a time, 1 at least. */
  readonly concurrency: number
  /** Bounds between which the concurrency follows the number of deliveries. Absent: it is fixed. */
  readonly autoscale?: Autoscale
  /** Deliveries per handler, at least 1. With 1, priorities are strict. */
  readonly prefetch: number
  /** Queues take turns instead of being pulled in strict order. */
  readonly rotate: boolean
  /** With `rotate`: the next task to run comes from any of the queues that tasks were pulled from. Defaults to false. */
  readonly random?: boolean
  readonly name: string
  /** The application's own version. */
  readonly version?: string
  /** Time for which stuck handlers may hold all slots before the worker ends, in milliseconds. Absent: one lease. */
  readonly stuckGraceMs?: number
  /** Time that a soft stop gives running handlers, in milliseconds. */
  readonly graceMs: number
  readonly leaseMs: number
  /** How a thread can connect to the same transport while a handler blocks the main thread. Absent: it cannot. */
  readonly leaseThread?: LeaseThreadTarget
  /** False: this worker ignores the rates and limits of methods. */
  readonly rateLimits: boolean
  readonly keep: Keep
  readonly lostCap: number
  readonly unknownGraceMs: number
  readonly maxBody: number
  readonly reconnect: ReconnectPolicy
  /** Whether to fetch less after a broken connection, while running handlers go on. */
  readonly prefetchReduction: boolean
  /** Whether to give everything back when the connection is lost, instead of letting handlers go on. */
  readonly cancelOnConnectionLoss: boolean
  readonly languages: ReadonlyMap<string, string>
  readonly taskNames: ReadonlyMap<string, string>
  readonly log: Log
  /** Called in order after each failed attempt. */
  readonly onFailure: ReadonlyArray<FailureHandler>
  /** Called with each stored settlement. */
  readonly onSettled?: (settlement: Settlement) => void
  /** Whether the worker ends when its queues are empty. */
  readonly burst: boolean
  /** Jobs after which the worker ends. Absent: never. */
  readonly maxJobs?: number
  /** Milliseconds without a job after which the worker ends. Absent: never. */
  readonly maxIdleMs?: number
  /** Whether task events are enabled from the start. */
  readonly events: boolean
  /** Clocks; defaults to those of the machine. */
  readonly clock?: Clock
  /** Completes what Celery's clients wait for. Absent: their tasks run, and their results are not written. */
  readonly external?: ExternalTasks
  /** Observers of deliveries. */
  readonly observers: ReadonlyArray<WorkerObserver>
}
