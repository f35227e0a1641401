/** The defaults of settings, for the command line and `serve()` alike. */
import { availableParallelism } from "node:os"
import { DEFAULT_HEARTBEAT_MS, DEFAULT_LEASE_MS, DEFAULT_TRANSPORT } from "../connection/connect.ts"
import { DEFAULT_KEEP_FAILED_MS } from "../connection/connection.ts"
import { RECONNECT_DEFAULTS } from "./reconnect.ts"

/** Exit code of a process whose worker ended because stuck handlers held all of its slots: it is to be started again. */
export const STUCK_EXIT_CODE = 5

export const DEFAULTS = {
  transport: DEFAULT_TRANSPORT,
  actors: "actors",
  concurrency: Math.max(4, availableParallelism()),
  prefetch: 4,
  processes: 1,
  order: "strict",
  grace: "25 seconds",
  stuckGrace: "one lease",
  resultTtl: "24 hours",
  failureTtl: `${DEFAULT_KEEP_FAILED_MS / 86_400_000} days`,
  lease: `${DEFAULT_LEASE_MS / 1000} seconds`,
  rateLimits: true,
  lostCap: 3,
  unknownGrace: "60 seconds",
  maxBody: 1024 * 1024,
  reconnect: RECONNECT_DEFAULTS,
  heartbeat: `${DEFAULT_HEARTBEAT_MS / 1000} seconds`,
  prefetchReduction: true,
  cancelOnConnectionLoss: false,
  http: { port: 7420, host: "127.0.0.1" },
  log: { level: "info" },
} as const
