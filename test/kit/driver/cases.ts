/** All cases about drivers, in the order in which a report lists them. */
import type { DriverCase } from "./case.ts"
import { browseCases } from "./cases/browse.ts"
import { closeCases } from "./cases/close.ts"
import { commitCases } from "./cases/commit.ts"
import { cutCases } from "./cases/cuts.ts"
import { declaredCases } from "./cases/declared.ts"
import { delayCases } from "./cases/delay.ts"
import { hostileCases } from "./cases/hostile.ts"
import { leaseCases } from "./cases/lease.ts"
import { broadcastCases, newsCases } from "./cases/news.ts"
import { orderCases } from "./cases/order.ts"
import { publishCases } from "./cases/publish.ts"
import { readCases } from "./cases/read.ts"
import { recoveryCases } from "./cases/recovery.ts"
import { revisionCases } from "./cases/revision.ts"
import { storeCases } from "./cases/store.ts"
import { takeCases } from "./cases/take.ts"
import { withdrawCases } from "./cases/withdraw.ts"

export const driverCases: ReadonlyArray<DriverCase> = [
  ...declaredCases,
  ...publishCases,
  ...takeCases,
  ...orderCases,
  ...delayCases,
  ...leaseCases,
  ...commitCases,
  ...revisionCases,
  ...withdrawCases,
  ...readCases,
  ...browseCases,
  ...newsCases,
  ...broadcastCases,
  ...storeCases,
  ...hostileCases,
  ...closeCases,
  ...recoveryCases,
  ...cutCases,
]
