/** Messages between the supervisor of `callboard dev` and the process that runs worker and HTTP. */
import type { Watched } from "./changes.js"

/** From the supervisor to the process. */
export type SupervisorMessage =
  /** Load the actors: the files are watched. */
  | { readonly type: "load" }
  /**
   * Start serving. `reload`: a process was ready before. `replaces`: the one before is told to stop now, and may hold the
   * port. `port` is the one that the process before used.
   */
  | { readonly type: "start"; readonly reload: boolean; readonly replaces: boolean; readonly port?: number }
  /** Stop, and let running jobs finish: another process takes over. */
  | { readonly type: "stop" }

/** From the process to the supervisor. */
export type ProcessMessage =
  /** The settings are read, and these files are to be watched. The first message of a process. */
  | { readonly type: "watch"; readonly watched: Watched }
  /** Settings and actors are loaded; nothing was started yet. */
  | { readonly type: "loaded" }
  /** The worker is ready, and HTTP listens on this port. */
  | { readonly type: "ready"; readonly port: number }
  /** Names and ids of the running jobs, sent when they change and when the process exits. */
  | { readonly type: "running"; readonly jobs: string }

const hasType = (value: unknown): value is { readonly type: unknown } =>
  typeof value === "object" && value !== null && "type" in value

export const isSupervisorMessage = (value: unknown): value is SupervisorMessage =>
  hasType(value) && (value.type === "load" || value.type === "start" || value.type === "stop")
