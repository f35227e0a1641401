/** The one error of transports. */

export type TransportReason =
  | "unavailable" // not reachable now; trying again may help
  | "closed" // this transport was closed
  | "unauthorized"
  | "unsupported" // the broker, or this plugin, cannot do that
  | "too-large"
  | "invalid" // never right, whenever it is tried
  | "internal" // a fault of the plugin or the broker

/** The one error that a driver throws or answers. `reason` is for programs, `message` for people; neither holds credentials. */
export class TransportError extends Error {
  readonly _tag = "TransportError"
  override readonly name = "TransportError"
  readonly reason: TransportReason
  /** Whether what was asked may have happened all the same: `unknown` after a lost acknowledgement. */
  readonly outcome: "none" | "unknown"
  constructor(
    reason: TransportReason,
    message: string,
    options: { readonly outcome?: "none" | "unknown"; readonly cause?: unknown } = {},
  ) {
    super(message, "cause" in options ? { cause: options.cause } : {})
    this.reason = reason
    this.outcome = options.outcome ?? "none"
  }
  /** Whether the same call may succeed later. */
  get retryable(): boolean {
    return this.reason === "unavailable"
  }
}
