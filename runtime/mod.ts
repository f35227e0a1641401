/** Callboard for applications: define actors, serve them, submit to them. */

export {
  type AckPolicy,
  type Actor,
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
export type { ActorHandle, ChildActorHandle, ChildMethodHandle, MethodHandle } from "./actor/actor-handle.ts"
export { discoverActors } from "./actor/discover.ts"
export type { Job, JobLog, JobState } from "./actor/job.ts"
export { Ignore, Reject, Retry } from "./actor/outcomes.ts"
export { Client, type ClientSettings, connect, type JobPage } from "./client/client.ts"
export type { JobQuery } from "./client/job-query.ts"
export type { ActorDescription, WorkerDescription } from "./cluster/directory.ts"
export type { ReceivedEvent } from "./cluster/events.ts"
export type { OwnEventFields } from "./cluster/own-event.ts"
export type { Answers, AnswerTo, ArgumentsOf } from "./cluster/remote/answers.ts"
export type { Revocation, RevokeOptions } from "./cluster/revocation.ts"
export type { Config } from "./config/schema.ts"
export type { ConnectSettings } from "./connection/connect.ts"
export {
  CallboardError,
  type ErrorCode,
  JobCancelled,
  JobExpired,
  JobFailed,
  ResultGone,
  WaitTimeout,
} from "./errors.ts"
export { type HttpAppOptions, type HttpOptions, http, type Scope, type Token } from "./http/mod.ts"
export type { JobHandle, SubmittedJob, WaitOptions } from "./jobs/handle.ts"
export type { JsonForm } from "./jobs/json-form.ts"
export type { Receipt } from "./jobs/receipt.ts"
export type { Submission, SubmissionFields } from "./jobs/submission/submission.ts"
export type { JobEvent } from "./jobs/tracking/following.ts"
export type { Outcome } from "./jobs/tracking/outcome.ts"
export type { JobView, TransitionView } from "./jobs/view.ts"
export type { Cause, Why } from "./jobs/why/cause.ts"
export { hostLog, type Log, type LogFormat, type LogLevel, type LogSink } from "./log/log.ts"
export type { MetricsText, ServiceMetrics } from "./metrics/metrics.ts"
export type { DurationInput } from "./options/duration.ts"
export type { RateInput } from "./options/rate.ts"
export type { ReconnectOptions } from "./options/reconnect.ts"
export type { JobError } from "./protocol/record.ts"
export type { State } from "./protocol/state.ts"
export type { ServeOptions } from "./service/options.ts"
export { serve } from "./service/serve.ts"
export type { Service } from "./service/service.ts"
export { TransportError } from "./transport/mod.ts"
export type { Failure, FailureHandler } from "./worker/telemetry/failure-handlers.ts"
