/**
 * Callboard over HTTP alone, for browsers, edge functions and every other program that reaches a service by `fetch`: loads
 * no library, nothing of Node and no transport. Types of actors come by `import type`.
 */
export type { ActorHandle, AnyActor, MethodHandle } from "../actor/actor-handle.ts"
export {
  CallboardError,
  type ErrorCode,
  isCallboardError,
  JobCancelled,
  JobExpired,
  JobFailed,
  ResultGone,
  WaitTimeout,
} from "../errors.ts"
export type { JobHandle, ResultsOptions, SubmittedJob, WaitOptions } from "../jobs/handle.ts"
export type { JsonForm } from "../jobs/json-form.ts"
export type { JobEvent } from "../jobs/lists.ts"
export type { Receipt } from "../jobs/receipt.ts"
export type { Submission, SubmissionFields } from "../jobs/submission/submission.ts"
export type { Outcome } from "../jobs/tracking/outcome.ts"
export type { JobView, RunView, TransitionView } from "../jobs/view.ts"
export { type HttpBoard, type HttpBoardClaim, type HttpBoardIterator, httpBoard } from "./http-board.ts"
export {
  connectHttp,
  type HttpClient,
  type HttpClientSettings,
  type HttpJob,
  type HttpSchedules,
  type HttpSubmittedJob,
} from "./http-client.ts"
