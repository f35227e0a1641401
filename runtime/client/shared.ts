/**
 * Exports of both entry points, `callboard` and `callboard/client`: to submit jobs, follow them, and ask about them.
 */
export type { Actor } from "../actor/actor.ts"
export type { ActorHandle, MethodHandle } from "../actor/actor-handle.ts"
export type { Board, BoardIterator, BoardOptions } from "../board/board.ts"
export type { BoardClaim, ClaimOptions, TakeOptions } from "../board/claiming.ts"
export {
  type BoardPlugin,
  type BoardSource,
  boardConfiguration,
  type FetchBoardSettings,
  fetchBoard,
  reorder,
} from "../board/fetch.ts"
export type { IterateOptions } from "../board/iterating.ts"
export type { BoardJob, JobWaitOptions } from "../board/job.ts"
export type { BoardEvent, BoardListener } from "../board/notifications.ts"
export type { HeldOptions } from "../board/owning.ts"
export type { BoardEntity, PostOptions } from "../board/requests.ts"
export type { BoardJobView } from "../board/view.ts"
export type { ActorDescription, WorkerDescription } from "../cluster/directory.ts"
export type { OwnEventFields, ReceivedEvent } from "../cluster/events.ts"
export type { Answers, AnswerTo, ArgumentsOf } from "../cluster/remote-command.ts"
export type { Revocation, RevokeOptions } from "../cluster/revocation.ts"
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
export type { GroupView } from "../jobs/groups.ts"
export type { JobHandle, ResultsOptions, SubmittedJob, WaitOptions } from "../jobs/handle.ts"
export type { JsonForm } from "../jobs/json-form.ts"
export type { JobLink, LinkOptions, LinkScope } from "../jobs/link.ts"
export type { JobEvent } from "../jobs/lists.ts"
export type { Receipt } from "../jobs/receipt.ts"
export type { Submission, SubmissionFields } from "../jobs/submission/submission.ts"
export type { Outcome } from "../jobs/tracking/outcome.ts"
export type { QueuePlace, WaitingRange } from "../jobs/tracking/waiting.ts"
export type { JobView, RunView, TransitionView } from "../jobs/view.ts"
export type { WaitCause as Cause, Why } from "../jobs/why/cause.ts"
export type { BoardConfiguration, BoardPriority, BoardState, EarlierClaim } from "../protocol/board.ts"
export type { JobError } from "../protocol/record.ts"
export type { State } from "../protocol/state.ts"
export type { ScheduleChanges, ScheduleFields } from "../schedules/fields.ts"
export type { ScheduleQuery } from "../schedules/query.ts"
export type { SchedulePage, Schedules } from "../schedules/schedules.ts"
export type { ScheduleView } from "../schedules/view.ts"
export type { JobCount } from "../transport/job-store/transport.ts"
export { TransportError } from "../transport/mod.ts"
export { Client, connect } from "./client.ts"
export type { Conductor, ConductorEvent, ConductorOptions } from "./conductor.ts"
export type { BodyFields, GroupHandle, GroupOptions, PendingGroup, SubmittedGroup } from "./group.ts"
export type { JobPage, JobQuery } from "./job-query.ts"
export type { ClientSettings } from "./settings.ts"
