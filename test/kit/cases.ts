/** All cases, in the order in which a report lists them. */
import type { Case } from "./case.ts"
import { claimCases } from "./cases/claim.ts"
import { declaredCases } from "./cases/declared.ts"
import { delayCases } from "./cases/delay.ts"
import { fenceCases } from "./cases/fence.ts"
import { leaseCases } from "./cases/lease.ts"
import { orderCases } from "./cases/order.ts"
import { publishCases } from "./cases/publish.ts"
import { pullCases } from "./cases/pull.ts"
import { settleCases } from "./cases/settle.ts"

export const cases: ReadonlyArray<Case> = [
  ...declaredCases,
  ...publishCases,
  ...pullCases,
  ...orderCases,
  ...delayCases,
  ...leaseCases,
  ...settleCases,
  ...fenceCases,
  ...claimCases,
]
