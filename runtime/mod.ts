/** Callboard for applications: define actors, serve them, submit to them. */
export {
  type AckPolicy,
  type Actor,
  type ActorDefinition,
  type ActorOptions,
  type ActorScope,
  actor,
  type DurationInput,
  InvalidActor,
  type Isolation,
  type Limit,
  type MethodDefinition,
  type MethodHooks,
  type MethodOptions,
  type RetryPolicy,
  type TimeLimit,
} from "./actor.ts"
export type { ActorHandle, ChildActorHandle, ChildMethodHandle, MethodHandle } from "./client/actor-handle.ts"
export { Client, type ClientSettings, connect, type JobPage } from "./client/client.ts"
export type { JobHandle, SubmittedJob, WaitOptions } from "./client/job-handle.ts"
export type { JobQuery } from "./client/job-query.ts"
export type { JsonForm } from "./client/json-form.ts"
export type { Receipt } from "./client/submitting/receipt.ts"
export type { Submission, SubmissionFields } from "./client/submitting/submission.ts"
export type { Config } from "./config/schema.ts"
export type { ConnectSettings } from "./connect.ts"
export { Ignore, Reject, Retry } from "./control.ts"
export type { ActorDescription, WorkerDescription } from "./directory.ts"
export { discoverActors } from "./discover.ts"
export {
  CallboardError,
  type ErrorCode,
  JobCancelled,
  JobExpired,
  JobFailed,
  ResultGone,
  WaitTimeout,
} from "./errors.ts"
export type { ReceivedEvent } from "./events.ts"
export { type HttpAppOptions, type HttpOptions, http, type Scope, type Token } from "./http/mod.ts"
export type { Job, JobLog, JobState } from "./job.ts"
export { hostLog, type Log, type LogFormat, type LogLevel, type LogSink } from "./log.ts"
export type { MetricsText, ServiceMetrics } from "./metrics/metrics.ts"
export type { OwnEventFields } from "./own-event.ts"
export type { JobError } from "./protocol/record.ts"
export type { State } from "./protocol/state.ts"
export type { RateInput } from "./rate.ts"
export type { ReconnectOptions } from "./reconnect.ts"
export type { Answers, AnswerTo, ArgumentsOf } from "./remote/answers.ts"
export type { Revocation, RevokeOptions } from "./revocation.ts"
export type { ServeOptions } from "./service/options.ts"
export { serve } from "./service/serve.ts"
export type { Service } from "./service/service.ts"
export type { JobEvent } from "./tracking/following.ts"
export type { Outcome } from "./tracking/outcome.ts"
export { TransportError } from "./transport.ts"
export type { JobView, TransitionView } from "./view.ts"
export type { Cause, Why } from "./why/cause.ts"
export type { Failure, FailureHandler } from "./worker/telling/failure-handlers.ts"
