/** What calls that change many jobs have in common: each answers within its budget, with 202 where jobs are left. */
import * as Result from "effect/Result"
import type { BulkReport as Report } from "../jobs/commands/decide.ts"
import type { BulkReport } from "../jobs/lists.ts"
import { parseDuration } from "../protocol/time.ts"
import { DECISION_BUDGET_MS } from "../routes/bounds.ts"
import { json } from "./response.ts"

/** A checked budget, in seconds as options of the client take it. */
export const budgetOf = (given: string | undefined): number =>
  Result.getOrElse(
    given === undefined ? Result.succeed(DECISION_BUDGET_MS) : parseDuration(given),
    () => DECISION_BUDGET_MS,
  ) / 1_000

/** The answer to a decision about many jobs. */
export const reported = (report: Report): Response =>
  json<typeof BulkReport.Type>({ ...report, more: report.next !== undefined }, report.partial === undefined ? 200 : 202)
