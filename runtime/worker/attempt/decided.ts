/** How a delivery is settled whose handler is not to run. */
import type { AttemptEnd } from "../../transport/lift/transport.ts"

/** Nothing to settle: the delivery is not ours any more. */
export const NOTHING = undefined

/** Ends the way of a delivery before its handler, with a settlement. */
export class Decided {
  readonly settlement: AttemptEnd | undefined
  constructor(settlement: AttemptEnd | undefined) {
    this.settlement = settlement
  }
}
