/** The defaults of settings, for the command line and `serve()` alike. */
import { availableParallelism } from "node:os"
import { DEFAULT_HEARTBEAT_MS, DEFAULT_LEASE_MS, DEFAULT_TRANSPORT } from "../connection/connect.ts"
import { DEFAULT_KEEP_FAILED_MS } from "../connection/connection.ts"
import { RECONNECT_DEFAULTS } from "./reconnect.ts"

export const DEFAULTS = {
  transport: DEFAULT_TRANSPORT,
  actors: "actors",
  concurrency: Math.max(4, availableParallelism()),
  prefetch: 4,
  processes: 1,
  order: "strict",
  grace: "25 seconds",
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
