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
import { queryCases } from "./cases/query.ts"
import { recordCases } from "./cases/records.ts"
import { recoveryCases } from "./cases/recovery.ts"
import { settleCases } from "./cases/settle.ts"
import { takeCases } from "./cases/take.ts"

/** What the runtime passes on to any driver alike: the cases about drivers try what a driver can change about it. */
const passedOn: ReadonlyArray<Case> = [...publishCases, ...takeCases, ...delayCases, ...leaseCases, ...closeCases]

/** The rules of the runtime in which the driver has a part. */
export const ruleCases: ReadonlyArray<Case> = [
  ...settleCases,
  ...fenceCases,
  ...claimCases,
  ...nextRunCases,
  ...recordCases,
  ...queryCases,
  ...hostileCases,
  ...recoveryCases,
]

export const cases: ReadonlyArray<Case> = [...passedOn, ...ruleCases]
