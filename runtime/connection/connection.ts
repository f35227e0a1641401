/** A connected transport with everything that client and worker need of it; what is missing is refused here, by name. */

import type { Jobs, Transport } from "../transport/lift/transport.ts"
import type { Broadcast } from "../transport/mod.ts"
import { TransportError } from "../transport/mod.ts"
import type { Store } from "../transport/store.ts"

export interface Connection {
  readonly transport: Transport
  readonly jobs: Jobs
  readonly store: Store
  readonly broadcast: Broadcast
  /** How long a job that ends without a result is kept, unless its task says otherwise. */
  readonly keepFailed: KeepFailed
}

/** Milliseconds for the jobs of a method; negative: for ever. */
export type KeepFailed = (task: string, meth: string | null) => number

export const DEFAULT_KEEP_FAILED_MS = 7 * 86_400_000

/** Fails with a `TransportError` `unsupported` where a part is missing. */
export const connectionOf = (
  transport: Transport,
  keepFailed: KeepFailed = () => DEFAULT_KEEP_FAILED_MS,
): Connection => {
  const { jobs, store, broadcast } = transport
  if (broadcast === undefined) {
    throw new TransportError("unsupported", `transport ${transport.name} has no broadcast, which Callboard needs`)
  }
  return { transport, jobs, store, broadcast, keepFailed }
}

/** Topic on which a cancelled job is announced to the workers that may run it: JSON `{id, run, terminate}`. */
export const CANCEL_TOPIC = "cancel"

/** Where workers tell each other of limits: some ask for permits, or have given some back. */
export const LIMIT_TOPIC = "limit"
