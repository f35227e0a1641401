/** What every handler of one application shares. */
import type { Client } from "../client/client.ts"
import type { Log } from "../log/log.ts"
import type { MetricsText } from "../metrics/metrics.ts"
import type { OpenApi } from "./openapi-document.ts"

export interface Desk {
  readonly client: Client
  readonly log: Log
  /** Largest task, in bytes. */
  readonly maxBody: number
  readonly keepAliveMs: number
  /** Why this does not do its work, for people; `undefined`: it does, it consumes, and its transport is within reach. */
  readonly unready: () => string | undefined | Promise<string | undefined>
  /** Why the transport is out of reach; `undefined` while it is not. */
  readonly lost: () => string | undefined
  /** What `/metrics` answers with; `undefined` where metrics are off. */
  readonly metrics: MetricsText | undefined
  /** Fires when the service stops: waits and streams end. */
  readonly closing: AbortSignal
  /** The description of this application as it is mounted under `base`. */
  readonly describe: (base: string) => OpenApi
}
