/** What the page reads is what the service answers: these assignments are checked by the compiler, and nothing here runs. */
import type { BulkPlan, BulkReport, JobList, JobTree, Me } from "../../../../runtime/http/schema.ts"
import type {
  ErrorDetails,
  ErrorList,
  PulseSchema,
  SeriesSchema,
  StatsSchema,
  TaskList,
} from "../../../../runtime/http/statistics-schema.ts"
import type { Job, JobSummary } from "../../../../runtime/jobs/responses.ts"
import type { Why } from "../../../../runtime/jobs/why/cause.ts"
import type * as page from "../../../../runtime/page/api.ts"

/** Compiles where every answer of the service can be read by the page. */
type Reads<Page, Answer extends Page> = [Page, Answer]

export type Read = [
  Reads<page.Me, typeof Me.Type>,
  Reads<page.JobSummary, typeof JobSummary.Type>,
  Reads<page.Job, typeof Job.Type>,
  Reads<page.JobList, typeof JobList.Type>,
  Reads<page.Total, NonNullable<(typeof JobList.Type)["total"]>>,
  Reads<page.Why, typeof Why.Type>,
  Reads<page.Tree, typeof JobTree.Type>,
  Reads<page.BulkReport, typeof BulkReport.Type>,
  Reads<page.DryRun, typeof BulkPlan.Type>,
  Reads<page.Stats, typeof StatsSchema.Type>,
  Reads<page.TaskList, typeof TaskList.Type>,
  Reads<page.Pulse, typeof PulseSchema.Type>,
  Reads<page.ErrorList, typeof ErrorList.Type>,
  Reads<page.ErrorDetails, typeof ErrorDetails.Type>,
  Reads<Omit<page.Series, "series">, typeof SeriesSchema.Type>,
]
