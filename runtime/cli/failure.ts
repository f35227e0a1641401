/** Failures of commands: one line that says what to do, and an exit code. Stack traces only with `-l debug`. */

import { fileURLToPath } from "node:url"
import { stripVTControlCharacters } from "node:util"
import { DiscoveryFailed } from "../actor/discover.ts"
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
  // A file that does not compile: Bun gives the position in a field, Deno in the message.
  if (error instanceof DiscoveryFailed || error instanceof ConfigError) {
    const found = syntaxErrorOf(error.cause)
    if (found !== undefined) return `${found.where} cannot be loaded: ${found.message}`
  }
  return error.message === "" ? error.name : error.message
}

interface SyntaxErrorFound {
  /** `file:line:column` */
  readonly where: string
  readonly message: string
}

/** The first error of a compiler, if the failure is a compile error. */
const syntaxErrorOf = (cause: unknown): SyntaxErrorFound | undefined => {
  const error: unknown = cause instanceof AggregateError ? cause.errors[0] : cause
  if (!isObject(error) || !("message" in error)) return undefined
  return ofBun(error) ?? ofDeno(String(error.message))
}

const ofBun = (error: object & { readonly message: unknown }): SyntaxErrorFound | undefined => {
  if (!("position" in error)) return undefined
  const { position, message } = error
  if (!isObject(position) || !("file" in position)) return undefined
  const line = "line" in position ? `:${position.line}` : ""
  const column = "column" in position ? `:${position.column}` : ""
  return { where: `${position.file}${line}${column}`, message: String(message) }
}

/** Message and position of a compile error in Deno, which prints the source line between the two. */
const ofDeno = (message: string): SyntaxErrorFound | undefined => {
  const [, file, position] = /^[ \t]*at (file:\S+)(:\d+:\d+)$/m.exec(stripVTControlCharacters(message)) ?? []
  if (file === undefined) return undefined
  return {
    where: `${fileURLToPath(file)}${position}`,
    message: (message.split("\n")[0] ?? "").replace(/^SyntaxError: /, ""),
  }
}

/** An error with its stack and those of its causes: for `-l debug`. */
export const stackOf = (error: unknown): string => {
  if (!(error instanceof Error)) return String(error)
  const own = error.stack ?? `${error.name}: ${error.message}`
  return error.cause === undefined ? own : `${own}\ncaused by ${stackOf(error.cause)}`
}
