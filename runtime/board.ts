/** A connected transport with everything that client and worker need of it; what is missing is refused here, by name. */
import type { Broadcast, Queue, Records, Store, Transport } from "./transport.ts"
import { TransportError } from "./transport.ts"

export interface Board {
  readonly transport: Transport
  readonly queue: Queue
  readonly records: Records
  readonly store: Store
  readonly broadcast: Broadcast
}

/** Fails with a `TransportError` `unsupported` that names the missing part. */
export const boardOf = (transport: Transport): Board => {
  const { queue, records, store, broadcast } = transport
  const missing = [
    ...(records === undefined ? ["records"] : []),
    ...(store === undefined ? ["a store"] : []),
    ...(broadcast === undefined ? ["broadcast"] : []),
  ]
  if (records === undefined || store === undefined || broadcast === undefined) {
    throw new TransportError(
      "unsupported",
      `transport ${transport.name} has no ${missing.join(" and no ")}, which Callboard needs`,
    )
  }
  return { transport, queue, records, store, broadcast }
}

/** Topic on which a cancelled job is announced to the workers that may run it: JSON `{id, run, terminate}`. */
export const CANCEL_TOPIC = "cancel"
