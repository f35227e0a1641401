/** Callboard for applications: define actors, serve them, submit to them. */

export {
  type AckPolicy,
  type ActorDefinition,
  type ActorOptions,
  type ActorScope,
  actor,
  InvalidActor,
  type Isolation,
  type Limit,
  type MethodDefinition,
  type MethodHooks,
  type MethodOptions,
  type RetryPolicy,
  type TimeLimit,
} from "./actor/actor.ts"
export type { ChildActorHandle, ChildMethodHandle } from "./actor/actor-handle.ts"
export { discoverActors } from "./actor/discover.ts"
export type { Job, JobLog, JobState } from "./actor/job.ts"
export { Ignore, Reject, Retry } from "./actor/outcomes.ts"
export * from "./client/shared.ts"
export type { Config } from "./config/schema.ts"
export { type HttpAppOptions, type HttpOptions, http, type Scope, type Token, type TokenScope } from "./http/mod.ts"
export { hostLog, type Log, type LogFormat, type LogLevel, type LogSink } from "./log/log.ts"
export type { MetricsText, ServiceMetrics } from "./metrics/metrics.ts"
export type { DurationInput } from "./options/duration.ts"
export type { RateInput } from "./options/rate.ts"
export type { ReconnectOptions } from "./options/reconnect.ts"
export type { ServeOptions } from "./service/options.ts"
export { serve } from "./service/serve.ts"
export type { Service } from "./service/service.ts"
export { connectSync, type SyncSettings } from "./service/sync.ts"
export type { Failure, FailureHandler } from "./worker/telemetry/failure-reporter.ts"
