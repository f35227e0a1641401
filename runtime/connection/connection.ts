/**
 * A connected transport with all the parts that client and worker need. A transport that lacks one is refused here, by
 * name.
 */
import type { KeepFailed } from "../protocol/outside.ts"
import type { Jobs, Transport } from "../transport/lift/transport.ts"
import type { Broadcast } from "../transport/mod.ts"
import { TransportError } from "../transport/mod.ts"
import type { Store } from "../transport/store.ts"

/** What one process holds of its transport while it is connected. */
export interface Connection {
  readonly transport: Transport
  readonly jobs: Jobs
  readonly store: Store
  readonly broadcast: Broadcast
  /** How long the record of a job that has failed, expired or was cancelled is kept, unless its task says otherwise. */
  readonly keepFailed: KeepFailed
}

export const DEFAULT_KEEP_FAILED_MS = 7 * 86_400_000

/** Throws `TransportError` `unsupported` where the transport lacks a part. `keepFailed` defaults to 7 days. */
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

/** Topic on which workers announce that they ask for permits of a limit, or have given some back. */
export const LIMIT_TOPIC = "limit"
