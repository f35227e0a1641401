/** How a delivery is settled whose handler is not to run. */
import type { Settlement } from "../../transport/lift/transport.ts"

/** Nothing to settle: the delivery is not ours any more. */
export const NOTHING = undefined

/** Ends the way of a delivery before its handler, with a settlement. */
export class Decided {
  readonly settlement: Settlement | undefined
  constructor(settlement: Settlement | undefined) {
    this.settlement = settlement
  }
}
