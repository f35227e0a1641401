/** What a worker is told when it starts. Everything is checked already, and nothing is left to a default. */
import type { ActorDefinition } from "../actor/actor.ts"
import type { Clock } from "../async/clock.ts"
import type { Client } from "../client/client.ts"
import type { Connection } from "../connection/connection.ts"
import type { Keep } from "../jobs/outcome/verdict.ts"
import type { Log } from "../log/log.ts"
import type { Autoscale } from "../options/autoscale.ts"
import type { ReconnectPolicy } from "../options/reconnect.ts"
import type { AttemptEnd } from "../transport/lift/transport.ts"
import type { LeaseThreadTarget } from "./leases/lease-protocol.ts"
import type { FailureHandler } from "./telemetry/failure-handlers.ts"
import type { WorkerObserver } from "./telemetry/observer.ts"

export interface WorkerOptions {
  readonly connection: Connection
  readonly client: Client
  readonly actors: ReadonlyArray<ActorDefinition>
  /** In order of preference. */
  readonly queues: ReadonlyArray<string>
  /** Handlers that run at a time, 1 at least. */
  readonly concurrency: number
  /** Between which bounds the concurrency follows what is held. Absent: it does not. */
  readonly autoscale?: Autoscale
  /** Deliveries held per handler, 1 at least; 1 keeps priorities strict. */
  readonly prefetch: number
  /** Queues take turns instead of strict order. */
  readonly rotate: boolean
  readonly name: string
  /** How long a soft stop lets handlers run, in milliseconds. */
  readonly graceMs: number
  readonly leaseMs: number
  /** How a thread can open the same transport, to keep leases while a handler blocks. Absent: it cannot. */
  readonly leaseThread?: LeaseThreadTarget
  /** False: neither rates nor limits of methods hold here. */
  readonly rateLimits: boolean
  readonly keep: Keep
  readonly lostCap: number
  readonly unknownGraceMs: number
  readonly maxBody: number
  readonly reconnect: ReconnectPolicy
  /** Fetch less after a broken connection, while what ran goes on. */
  readonly prefetchReduction: boolean
  /** Hand everything back when the connection is lost, instead of letting handlers go on. */
  readonly cancelOnConnectionLoss: boolean
  readonly languages: ReadonlyMap<string, string>
  readonly taskNames: ReadonlyMap<string, string>
  readonly log: Log
  /** Run in order after each failed attempt. */
  readonly onFailure: ReadonlyArray<FailureHandler>
  /** Called once per settled job. */
  readonly onSettled?: (settlement: AttemptEnd) => void
  /** Ends when the queues are empty. */
  readonly burst: boolean
  /** Ends after so many jobs. Absent: never. */
  readonly maxJobs?: number
  /** Ends after so many milliseconds without a job. Absent: never. */
  readonly maxIdleMs?: number
  /** Whether it tells what happens to every task from the start. */
  readonly events: boolean
  /** Defaults to those of the machine. */
  readonly clock?: Clock
  /** Told what happens to deliveries. */
  readonly observers: ReadonlyArray<WorkerObserver>
}
