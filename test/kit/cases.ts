/** All cases, in the order in which a report lists them. */
import type { Case } from "./case.ts"
import { claimCases } from "./cases/claim.ts"
import { closeCases } from "./cases/close.ts"
import { delayCases } from "./cases/delay.ts"
import { fenceCases } from "./cases/fence.ts"
import { hostileCases } from "./cases/hostile.ts"
import { leaseCases } from "./cases/lease.ts"
import { nextRunCases } from "./cases/next-run.ts"
import { publishCases } from "./cases/publish.ts"
import { pullCases } from "./cases/pull.ts"
import { queryCases } from "./cases/query.ts"
import { recordCases } from "./cases/records.ts"
import { recoveryCases } from "./cases/recovery.ts"
import { settleCases } from "./cases/settle.ts"

export const cases: ReadonlyArray<Case> = [
  ...publishCases,
  ...pullCases,
  ...delayCases,
  ...leaseCases,
  ...settleCases,
  ...fenceCases,
  ...claimCases,
  ...nextRunCases,
  ...recordCases,
  ...queryCases,
  ...hostileCases,
  ...closeCases,
  ...recoveryCases,
]
