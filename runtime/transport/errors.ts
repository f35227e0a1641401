/** The error of transports, and its reasons. */

export type TransportReason =
  | "unavailable" // not reachable now; trying again may help
  | "closed" // this transport was closed
  | "unauthorized"
  | "unsupported" // the broker, or this plugin, cannot do that
  | "too-large"
  | "invalid" // fails whenever it is tried
  | "internal" // a fault of the plugin or the broker

/** The only error that a driver throws or answers. Programs read `reason`, people `message`; neither holds credentials. */
export class TransportError extends Error {
  readonly _tag = "TransportError"
  override readonly name = "TransportError"
  readonly reason: TransportReason
  /** `unknown`: the call may have succeeded all the same, for instance where its acknowledgement was lost. */
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

/** Reasons by the error codes of a broker: the first pattern that matches counts. Other codes are faults of the plugin. */
export type Reasons = ReadonlyArray<readonly [code: RegExp, reason: TransportReason]>

/**
 * Translates an error of a client library. Without a `code` of the broker the connection was lost, and the broker may have
 * done what it was asked.
 */
export const explainCode = (
  plugin: string,
  error: unknown,
  code: string | undefined,
  reasons: Reasons,
): TransportError => {
  if (!(error instanceof Error) || error instanceof TypeError || error instanceof RangeError) {
    return new TransportError("internal", `${plugin}: ${String(error)}`, { cause: error })
  }
  const message = `${plugin}: ${error.message}`
  if (code === undefined) return new TransportError("unavailable", message, { outcome: "unknown", cause: error })
  const [, reason = "internal"] = reasons.find(([pattern]) => pattern.test(code)) ?? []
  return new TransportError(reason, message, { cause: error })
}
