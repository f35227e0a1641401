/** Callboard for applications that only submit and follow jobs: loads neither HTTP nor a worker, and runs on Node as well. */
export type { Actor } from "../actor.ts"
export type { ConnectSettings } from "../connect.ts"
export type { ActorDescription, WorkerDescription } from "../directory.ts"
export {
  CallboardError,
  type ErrorCode,
  JobCancelled,
  JobExpired,
  JobFailed,
  ResultGone,
  WaitTimeout,
} from "../errors.ts"
export type { ReceivedEvent } from "../events.ts"
export type { OwnEventFields } from "../own-event.ts"
export type { JobError } from "../protocol/record.ts"
export type { State } from "../protocol/state.ts"
export type { Answers, AnswerTo, ArgumentsOf } from "../remote/answers.ts"
export type { Revocation, RevokeOptions } from "../revocation.ts"
export type { JobEvent } from "../tracking/following.ts"
export type { Outcome } from "../tracking/outcome.ts"
export { TransportError } from "../transport.ts"
export type { JobView, TransitionView } from "../view.ts"
export type { Cause, Why } from "../why/cause.ts"
export type { ActorHandle, MethodHandle } from "./actor-handle.ts"
export { Client, type ClientSettings, connect, type JobPage } from "./client.ts"
export type { JobHandle, SubmittedJob, WaitOptions } from "./job-handle.ts"
export type { JobQuery } from "./job-query.ts"
export type { JsonForm } from "./json-form.ts"
export type { Receipt } from "./submitting/receipt.ts"
export type { Submission, SubmissionFields } from "./submitting/submission.ts"
