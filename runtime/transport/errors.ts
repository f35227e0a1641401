/** The error of transports, and its reasons. */

export type TransportReason =
  | "unavailable" // not reachable now; trying again may help
  | "closed" // this transport was closed
  | "unauthorized"
  | "unsupported" // the broker, or this plugin, cannot do that
  | "too-large"
  | "invalid" // fails whenever it is tried
  | "internal" // a fault of the plugin or the broker

const CODES = {
  unavailable: "transport-unavailable",
  closed: "transport-unavailable",
  // The user did not give these credentials: the process has them.
  unauthorized: "transport-unavailable",
  unsupported: "unsupported",
  "too-large": "too-large",
  invalid: "invalid-input",
  internal: "internal",
} as const satisfies Record<TransportReason, string>

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
  /** The code for programs, one of those that `CallboardError` has: `transport-unavailable`, and for a wrong URL `invalid-input`. */
  get code(): (typeof CODES)[TransportReason] {
    return CODES[this.reason]
  }
  /** Whether the same call may succeed later. */
  get retryable(): boolean {
    return this.reason === "unavailable"
  }
}

/** A stored record that cannot be read, of this revision: its job can be deleted, and nothing else. */
export class UnreadableRecord extends TransportError {
  readonly id: string
  readonly revision: string
  constructor(id: string, revision: string, cause: Error) {
    super("internal", `the record of job ${id} cannot be read: delete the job (${cause.message})`, { cause })
    this.id = id
    this.revision = revision
  }
}

/**
 * Reasons by the error codes of a broker: the first pattern that matches counts. Other codes are faults of the plugin. A code
 * after which the broker may have done what it was asked names the outcome `unknown`; without it the outcome is `none`.
 */
export type Reasons = ReadonlyArray<readonly [code: RegExp, reason: TransportReason, outcome?: "unknown"]>

/** Whether an error tells of a mistake in the code. `fetch` throws a TypeError, too, when a connection fails: with a cause or a code. */
const isMistake = (error: unknown): boolean =>
  (error instanceof TypeError || error instanceof RangeError || error instanceof ReferenceError) &&
  error.cause === undefined &&
  !("code" in error)

/**
 * Translates an error of a client library. Without a `code` of the broker the connection was lost, and the broker may have
 * done what it was asked; an error that tells of a mistake in the plugin is `internal`.
 */
export const explainCode = (
  plugin: string,
  error: unknown,
  code: string | undefined,
  reasons: Reasons,
): TransportError => {
  const message = `${plugin}: ${error instanceof Error ? error.message : String(error)}`
  if (code === undefined) return explainUnknown(error, message)
  const [, reason = "internal", outcome = "none"] = reasons.find(([pattern]) => pattern.test(code)) ?? []
  return new TransportError(reason, message, { outcome, cause: error })
}

/** The error of a driver that threw something else than a `TransportError`: what it was asked may have been done. */
export const explainUnknown = (thrown: unknown, message = String(thrown)): TransportError =>
  new TransportError(isMistake(thrown) ? "internal" : "unavailable", message, { outcome: "unknown", cause: thrown })
