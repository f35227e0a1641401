/** What the document says of answers is what is answered: the views and the schemas are the same types. */

import type { BulkReport, JobEventSchema } from "../../../../runtime/http/schema.ts"
import type { BulkReport as Report } from "../../../../runtime/jobs/commands/decide.ts"
import type { JobEvent } from "../../../../runtime/jobs/tracking/following.ts"
import { same } from "../../../support/same.ts"

type Plain<T> = T extends object ? { readonly [K in keyof T]: Plain<T[K]> } : T

same<Plain<JobEvent>, Plain<typeof JobEventSchema.Type>>(true)
same<keyof Report | "more", keyof typeof BulkReport.Type>(true)
