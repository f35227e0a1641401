/** What every connection is told. */

export interface ConnectOptions {
  /** Prefixes every stream, subject, key and row, so that several boards share a server. `[A-Za-z0-9_-]{1,64}`. */
  readonly namespace: string
  /** How long a delivery is ours unless extended. At least 1,000 or the declared resolution. */
  readonly lease: number
  /** Name of the connecting process, for the broker's own tools. */
  readonly name: string
  /** Bound on connecting. */
  readonly timeout: number
  /**
   * Keep-alive of the connection, looked at twice as often: it counts as lost after one to one and a half of these
   * intervals without a sign of life. 0: it is not watched. Absent: as the plugin sees fit. A plugin without a
   * connection ignores it.
   */
  readonly heartbeat?: number
  /** How long to wait before a try to connect again, counted from 1. Absent: as the plugin sees fit. */
  readonly reconnectDelay?: (tries: number) => number
}
