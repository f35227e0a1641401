/** Schemas of lists of jobs, and of what is told about several jobs at once. */
import * as Schema from "effect/Schema"
import { ERROR_CODES } from "../errors.ts"
import { Count, next, Total } from "../options/fields.ts"
import { JobSummary, PartlyDone, progress, StateSchema, transition } from "./responses.ts"
import type { JobView } from "./view.ts"

export const JobList = Schema.Struct({
  jobs: Schema.Array(JobSummary),
  next,
  partial: Schema.optionalKey(
    Schema.Literal(true).annotate({ description: "The search stopped after its `budget`; continue with `next`" }),
  ),
  scanned: Schema.optionalKey(
    Count.annotate({ description: "Number of rows, entries or messages read, if the transport reports it" }),
  ),
  total: Schema.optionalKey(Total),
}).annotate({ identifier: "JobList" })
export type JobList = typeof JobList.Type

export const JobCount = Schema.Struct({
  count: Count,
  more: Schema.Boolean.annotate({ description: "Whether there are more than `count`" }),
}).annotate({ identifier: "JobCount" })

export const WaitingJobs = Schema.Struct({
  ids: Schema.Array(Schema.String).annotate({ description: "Ids of jobs, in the order in which workers take them" }),
}).annotate({ identifier: "WaitingJobs" })

const TreeNode = Schema.Struct({
  id: Schema.String,
  name: Schema.String,
  state: StateSchema,
  times: JobSummary.fields.times,
  parentId: Schema.optionalKey(Schema.String),
  group: Schema.optionalKey(Schema.String),
  kind: Schema.Literals(["root", "child", "callback", "errback", "chain"]).annotate({
    description: "`callback`, `errback`, `chain`: submitted when its parent ended; `child`: any other",
  }),
  after: Schema.optionalKey(
    Schema.Array(Schema.String).annotate({ description: "The jobs that it waits for, or waited for" }),
  ),
}).annotate({ identifier: "TreeNode" })
export type TreeNode = typeof TreeNode.Type

export const JobTree = Schema.Struct({
  root: Schema.String,
  nodes: Schema.Array(TreeNode).annotate({ description: "The root first, then oldest first" }),
  more: Schema.Boolean.annotate({ description: "Whether there are more jobs than these" }),
}).annotate({ identifier: "JobTree" })
export type JobTree = typeof JobTree.Type

export const QueuePlace = Schema.Struct({
  position: Schema.NullOr(Count).annotate({
    description: "Number of jobs ahead of it; `null` if it is not waiting in a queue",
  }),
  more: Schema.Boolean.annotate({ description: "Whether it is further back than `position`" }),
}).annotate({ identifier: "QueuePlace" })
export const GroupList = Schema.Struct({
  groups: Schema.Array(Schema.String.annotate({ description: "Name of the group" })),
  next,
}).annotate({ identifier: "GroupList" })

export const Group = Schema.Struct({
  id: Schema.String,
  total: Count.annotate({ description: "Number of its jobs" }),
  states: Schema.Record(Schema.String, Count).annotate({ description: "Number of its jobs in each state" }),
}).annotate({ identifier: "Group" })
export type Group = typeof Group.Type

export const BulkReport = Schema.Struct({
  changed: Count.annotate({ description: "Number of changed jobs" }),
  ids: Schema.Array(Schema.String).annotate({ description: "Ids of the changed jobs" }),
  refused: Schema.Array(
    Schema.Struct({ id: Schema.String, code: Schema.Literals(ERROR_CODES), detail: Schema.String }),
  ).annotate({
    description: "Jobs that could not be changed, with the reason",
  }),
  more: Schema.Boolean.annotate({ description: "Whether more jobs match: call again with `cursor`" }),
  next,
  partial: Schema.optionalKey(PartlyDone),
}).annotate({ identifier: "BulkReport" })
export type BulkReport = typeof BulkReport.Type

const Tally = Schema.Record(Schema.String, Count)

export const BulkPlan = Schema.Struct({
  matches: Total.annotate({ description: "Number of matching jobs; up to 10,000 are read, within the budget" }),
  will: Count.annotate({ description: "Number of jobs that will be changed" }),
  refused: Tally.annotate({ description: "Number of jobs that cannot be changed, by error code" }),
  changed: Count.annotate({
    description: "Number of jobs whose state has changed since `until`; they are not changed",
  }),
  by: Schema.Struct({ task: Tally, queue: Tally }).annotate({
    description: "The tasks and queues of the jobs that will be changed, the 20 most frequent",
  }),
  warnings: Schema.Array(
    Schema.Struct({
      code: Schema.String.annotate({
        description: "`no-worker`, `paused`, `still-failing`, `limited`, `not-idempotent`, `long`",
      }),
      text: Schema.String,
    }),
  ),
  sample: Schema.Array(Schema.String).annotate({ description: "Ids of the newest" }),
  until: Schema.String.annotate({
    description: "Pass it to the following calls, so that jobs that change later are not affected",
  }),
}).annotate({ identifier: "BulkPlan", description: "The effect that a call without `dryRun` would have" })
export type BulkPlan = typeof BulkPlan.Type

export const JobEventSchema = Schema.Union([
  Schema.Struct({ type: Schema.Literal("transition"), ...transition }),
  Schema.Struct({ type: Schema.Literal("progress"), ...progress }),
]).annotate({ identifier: "JobEvent" })
export type JobEvent = typeof JobEventSchema.Type

export const BoardEvent = Schema.Struct({ job: JobSummary, event: JobEventSchema }).annotate({
  identifier: "BoardEvent",
})

export const summaryOf = ({ result: _result, transitions: _transitions, ...rest }: JobView): typeof JobSummary.Type =>
  rest
