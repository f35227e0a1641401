/** Checks that the types of the page fit the answers of the service. Only the compiler reads this file; nothing in it runs. */
import type { LimitKeys, LimitList } from "../../../../runtime/http/method-limits.ts"
import type {
  BulkPlan,
  BulkReport,
  JobList,
  JobTree,
  Me,
  QueueList,
  WorkerList,
} from "../../../../runtime/http/schema.ts"
import type {
  ErrorDetails,
  ErrorList,
  PulseSchema,
  SeriesSchema,
  StatsSchema,
  TaskList,
} from "../../../../runtime/http/statistics-schema.ts"
import type { Job, JobSummary, JobWith } from "../../../../runtime/jobs/responses.ts"
import type { Why } from "../../../../runtime/jobs/why/cause.ts"
import type * as page from "../../../../runtime/page/api.ts"
import type * as service from "../../../../runtime/page/service.ts"
import type { ScheduleViewSchema } from "../../../../runtime/schedules/view.ts"
import type { StepPage } from "../../../../runtime/steps/listing.ts"

/** Compiles only if the type of the page accepts every answer of the service. */
type Reads<Page, Answer extends Page> = [Page, Answer]

/** A job that was asked for with its attempts. */
type WithAttempts = Omit<typeof JobWith.Type, "attempts"> & {
  readonly attempts: Extract<(typeof JobWith.Type)["attempts"], ReadonlyArray<unknown>>
}

type AnySeries = (typeof SeriesSchema.Type)["series"][number]

/** The series that the page requests: ended jobs by outcome, as numbers and not as percentiles. */
type EndedByOutcome = Omit<typeof SeriesSchema.Type, "series"> & {
  readonly series: ReadonlyArray<
    Omit<AnySeries, "points"> & { readonly points: Extract<AnySeries["points"], ReadonlyArray<unknown>> }
  >
}

export type Read = [
  Reads<page.Me, typeof Me.Type>,
  Reads<page.JobSummary, typeof JobSummary.Type>,
  Reads<page.Job, typeof Job.Type>,
  Reads<page.FullJob, WithAttempts>,
  Reads<page.JobList, typeof JobList.Type>,
  Reads<page.Total, NonNullable<(typeof JobList.Type)["total"]>>,
  Reads<page.StepPage, StepPage>,
  Reads<page.Why, typeof Why.Type>,
  Reads<page.Tree, typeof JobTree.Type>,
  Reads<page.BulkReport, typeof BulkReport.Type>,
  Reads<page.DryRun, typeof BulkPlan.Type>,
  Reads<page.Stats, typeof StatsSchema.Type>,
  Reads<page.TaskList, typeof TaskList.Type>,
  Reads<page.Pulse, typeof PulseSchema.Type>,
  Reads<page.ErrorList, typeof ErrorList.Type>,
  Reads<page.ErrorDetails, typeof ErrorDetails.Type>,
  Reads<page.Series, EndedByOutcome>,
  Reads<service.Queue, (typeof QueueList.Type)["queues"][number]>,
  Reads<service.Worker, (typeof WorkerList.Type)["workers"][number]>,
  Reads<service.Limit, (typeof LimitList.Type)["limits"][number]>,
  Reads<service.LimitKey, (typeof LimitKeys.Type)["keys"][number]>,
  Reads<service.Schedule, typeof ScheduleViewSchema.Type>,
]
