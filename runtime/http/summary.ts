/** A job as lists and streams show it: without what may be long. */

import type { JobSummary } from "../jobs/answers.ts"
import type { JobView } from "../jobs/view.ts"

export const summaryOf = ({ result: _result, transitions: _transitions, ...rest }: JobView): typeof JobSummary.Type =>
  rest
