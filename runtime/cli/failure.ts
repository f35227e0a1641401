/** Failures of commands: one line that says what to do, and an exit code. Stack traces only with `-l debug`. */

import { ConfigError } from "../config/file.ts"
import { CallboardError, type ErrorCode } from "../errors.ts"
import { AddressTaken } from "../http/listener.ts"
import { isObject } from "../protocol/guards.ts"
import { STUCK_EXIT_CODE } from "../service/service.ts"
import { TransportError, type TransportReason } from "../transport/mod.ts"

/** Exit codes, by which scripts tell failures apart. */
export const EXIT = {
  done: 0,
  failed: 1,
  usage: 2,
  timeout: 3,
  unreachable: 4,
  stuck: STUCK_EXIT_CODE,
  partial: 6,
} as const

/** Ends a command with a line and an exit code. Without a message nothing more is printed. */
export class CommandFailed extends Error {
  readonly _tag = "CommandFailed"
  override readonly name = "CommandFailed"
  readonly exitCode: number
  constructor(exitCode: number, message = "", options: { readonly cause?: unknown } = {}) {
    super(message, options)
    this.exitCode = exitCode
  }
}

/** Fails with {@link EXIT.usage}: the arguments of the command are wrong. */
export const wrongUsage = (message: string): never => {
  throw new CommandFailed(EXIT.usage, message)
}

const REQUEST: Partial<Record<ErrorCode, number>> = {
  "invalid-json": EXIT.usage,
  "invalid-input": EXIT.usage,
  "unknown-field": EXIT.usage,
  "transport-unavailable": EXIT.unreachable,
  "not-connected": EXIT.unreachable,
}

const TRANSPORT: Partial<Record<TransportReason, number>> = {
  unavailable: EXIT.unreachable,
  closed: EXIT.unreachable,
  unauthorized: EXIT.unreachable,
  unsupported: EXIT.usage,
  invalid: EXIT.usage,
}

const hasTag = (error: unknown, tag: string): boolean => isObject(error) && "_tag" in error && error._tag === tag

export const exitCodeOf = (error: unknown): number => {
  if (error instanceof CommandFailed) return error.exitCode
  if (error instanceof ConfigError) return EXIT.usage
  if (error instanceof TransportError) return TRANSPORT[error.reason] ?? EXIT.failed
  // Not a usage error, since the arguments were right a moment before.
  if (error instanceof AddressTaken) return EXIT.failed
  if (error instanceof CallboardError) return REQUEST[error.code] ?? EXIT.failed
  return hasTag(error, "WaitTimeout") ? EXIT.timeout : EXIT.failed
}

/** An error in one line. */
export const lineOf = (error: unknown): string => {
  const message = messageOf(error)
    .replace(/(?<!\s)\s*\n\s*/g, " ")
    .trim()
  // A server that refuses the credentials is running.
  if (error instanceof TransportError && error.reason !== "unauthorized" && exitCodeOf(error) === EXIT.unreachable) {
    return `${message}; is it running? Name another with --transport, and see: callboard doctor`
  }
  return message
}

const messageOf = (error: unknown): string => {
  if (!(error instanceof Error)) return String(error)
  if (error instanceof CommandFailed) return error.message
  return error.message === "" ? error.name : error.message
}

/** An error with its stack and those of its causes: for `-l debug`. */
export const stackOf = (error: unknown): string => {
  if (!(error instanceof Error)) return String(error)
  const own = error.stack ?? `${error.name}: ${error.message}`
  return error.cause === undefined ? own : `${own}\ncaused by ${stackOf(error.cause)}`
}
