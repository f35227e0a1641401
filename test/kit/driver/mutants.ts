/** All mutants of drivers: at least one for each case, so that no case passes by itself. */
import { browseMutants } from "./mutants/browse.ts"
import { commitMutants, readMutants } from "./mutants/commit.ts"
import { lifetimeMutants } from "./mutants/lifetime.ts"
import type { DriverMutant } from "./mutants/mutant.ts"
import { publishMutants } from "./mutants/publish.ts"
import { storeMutants } from "./mutants/store.ts"
import { takeMutants } from "./mutants/take.ts"

export type { DriverMutant } from "./mutants/mutant.ts"

export const driverMutants: ReadonlyArray<DriverMutant> = [
  ...publishMutants,
  ...takeMutants,
  ...commitMutants,
  ...readMutants,
  ...browseMutants,
  ...storeMutants,
  ...lifetimeMutants,
]
