/** What `callboard dev` and the process that does the work say to each other. */

/** To the process. */
export type Order =
  /** Take over. `port`: the one that the process before it had. */
  | { readonly type: "start"; readonly reload: boolean; readonly port?: number }
  /** Stop softly: another process takes over. */
  | { readonly type: "stop" }

/** From the process. */
export type News =
  /** Settings and actors are there; nothing was started. */
  | { readonly type: "loaded" }
  /** It works, and listens on this port. */
  | { readonly type: "ready"; readonly port: number }
  /** The jobs that run, by name and id, when that has changed and at its end. */
  | { readonly type: "running"; readonly jobs: string }

const hasType = (value: unknown): value is { readonly type: unknown } =>
  typeof value === "object" && value !== null && "type" in value

export const isOrder = (value: unknown): value is Order =>
  hasType(value) && (value.type === "start" || value.type === "stop")

export const isNews = (value: unknown): value is News =>
  hasType(value) && (value.type === "loaded" || value.type === "ready" || value.type === "running")
