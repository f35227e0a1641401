/** All mutants: at least one for each case of the kit, so that no case passes by itself. */

import { lifetimeMutants } from "./mutants/lifetime.ts"
import type { Mutant } from "./mutants/mutant.ts"
import { publishMutants } from "./mutants/publish.ts"
import { recordMutants } from "./mutants/records.ts"
import { settleMutants } from "./mutants/settle.ts"
import { takeMutants } from "./mutants/take.ts"

export type { Mutant } from "./mutants/mutant.ts"

export const mutants: ReadonlyArray<Mutant> = [
  ...publishMutants,
  ...takeMutants,
  ...settleMutants,
  ...recordMutants,
  ...lifetimeMutants,
]
