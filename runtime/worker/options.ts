/** The options of a worker, validated and with all defaults applied. */
import type { ActorDefinition } from "../actor/actor.ts"
import type { Clock } from "../async/clock.ts"
import type { Client } from "../client/client.ts"
import type { Values } from "../config/setting.ts"
import type { SERVE } from "../config/table.ts"
import type { Connection } from "../connection/connection.ts"
import type { Keep } from "../jobs/outcome/settlement.ts"
import type { Log } from "../log/log.ts"
import type { Autoscale } from "../options/autoscale.ts"
import type { Settlement } from "../transport/job-store/transport.ts"
import type { ExternalTasks } from "./active-delivery.ts"
import type { LeaseThreadTarget } from "./leases/lease-protocol.ts"
import type { FailureHandler } from "./telemetry/failure-reporter.ts"
import type { WorkerObserver } from "./telemetry/observer.ts"

/** The settings that hold, those that a worker takes in another form or finds in its methods left out. */
type AsGiven = Omit<
  Values<typeof SERVE>,
  | "queues"
  | "autoscale"
  | "prefetch"
  | "name"
  | "version"
  | "leaseMs"
  | "languages"
  | "taskNames"
  | "timeLimit"
  | "retry"
  | "onLost"
  | "logLevel"
  | "logLevels"
  | "logFormat"
  | "logColor"
>

export interface WorkerOptions extends AsGiven {
  readonly connection: Connection
  readonly client: Client
  readonly actors: ReadonlyArray<ActorDefinition>
  /** In order of preference. */
  readonly queues: ReadonlyArray<string>
  /** Bounds between which the concurrency follows the number of deliveries. Absent: it is fixed. */
  readonly autoscale?: Autoscale
  /** Deliveries per handler, at least 1. With 1, priorities are strict. */
  readonly prefetch: number
  readonly name: string
  /** The application's own version. */
  readonly version?: string
  readonly leaseMs: number
  /** How a thread can connect to the same transport while a handler blocks the main thread. Absent: it cannot. */
  readonly leaseThread?: LeaseThreadTarget
  readonly keep: Keep
  readonly languages: ReadonlyMap<string, string>
  readonly taskNames: ReadonlyMap<string, string>
  readonly log: Log
  /** Called in order after each failed attempt. */
  readonly onFailure: ReadonlyArray<FailureHandler>
  /** Called with each stored settlement. */
  readonly onSettled?: (settlement: Settlement) => void
  /** Clocks; defaults to those of the machine. */
  readonly clock?: Clock
  /** Completes what Celery's clients wait for. Absent: their tasks run, and their results are not written. */
  readonly external?: ExternalTasks
  /** Observers of deliveries. */
  readonly observers: ReadonlyArray<WorkerObserver>
}
