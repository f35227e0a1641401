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
export type { Job, JobState } from "./actor/job.ts"
export { Ignore, Reject, Retry } from "./actor/job.ts"
export {
  alwaysRevert,
  alwaysRevertAll,
  forEach,
  type GiveUpOptions,
  parameterizedForEach,
  type TimesOptions,
  times,
} from "./actor/scope.ts"
export {
  type JobLog,
  type RetryController,
  type Revert,
  type ScopeDecision,
  type ScopeOptions,
  type ScopeTry,
  type Step,
  StepError,
  type StepOptions,
  type StepRetry,
} from "./actor/step.ts"
export {
  CeleryClient,
  type CeleryConnectSettings,
  type CeleryJob,
  type CeleryLink,
  type CeleryTask,
  type ControlOptions,
  connectCelery,
} from "./celery/client.ts"
export * from "./client/shared.ts"
export type { Scope, Token, TokenScope } from "./config/scopes.ts"
export type { Config, HttpOptions, ReconnectOptions } from "./config/table.ts"
export {
  type Flow,
  type FlowOptions,
  type FlowPattern,
  type FlowTask,
  type FlowValues,
  flow,
  handlerOf,
  type IgnoreDepth,
  InvalidFlow,
  type TaskOptions,
  type TaskRevert,
  task,
} from "./flows/flow.ts"
export { type HttpAppOptions, http } from "./http/app.ts"
export type { LogFormat, LogLevel } from "./log/choices.ts"
export { hostLog, type Log, type LogSink } from "./log/log.ts"
export type { MetricsText, ServiceMetrics } from "./metrics/metrics.ts"
export type { DurationInput } from "./options/duration.ts"
export type { RateInput } from "./options/limit.ts"
export type { ServeOptions } from "./service/options.ts"
export { serve } from "./service/serve.ts"
export type { Service } from "./service/service.ts"
export { connectSync, type SyncSettings } from "./service/sync.ts"
export type { Failure, FailureHandler } from "./worker/telemetry/failure-reporter.ts"
