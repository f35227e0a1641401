/**
 * Turns what a handler throws, or an Effect fails with, into the error of the record: also the reason of its soft time
 * limit, and failures whose recorded error is known already.
 */

import { basename, dirname } from "node:path"
import { fileURLToPath } from "node:url"
import { compact } from "../../protocol/compact.ts"
import { isObject } from "../../protocol/guards.ts"
import type { JobError } from "../../protocol/record.ts"
import { cut } from "../../protocol/text.ts"

/** Longest traceback that is kept, in characters: the record must fit the transport. */
const MAX_TRACEBACK = 16_384
const MAX_MESSAGE = 4_096
const MAX_NAME = 255
/** Most errors of an AggregateError that are kept, and longest message of each, in characters. */
const MAX_ERRORS = 10
const MAX_PART = 1_024

const text = (value: unknown): string => {
  if (typeof value === "string") return value
  try {
    return JSON.stringify(value) ?? String(value)
  } catch {
    // Cycles, BigInt, or a getter that throws.
    return "(not JSON)"
  }
}

const property = (value: object, key: string): unknown => {
  // A getter may throw, and must not hide the error that is being described.
  try {
    return Reflect.get(value, key)
  } catch {
    return undefined
  }
}

/** A text of an error as it is kept, cut. Half a character becomes U+FFFD: an error cannot be refused. */
const kept = (whole: string, max: number): string => cut(whole.toWellFormed(), max)

const nameOf = (thrown: object): string => kept(wholeNameOf(thrown), MAX_NAME)

const wholeNameOf = (thrown: object): string => {
  const tag = property(thrown, "_tag")
  if (typeof tag === "string" && tag !== "") return tag
  const name = property(thrown, "name")
  if (typeof name === "string" && name !== "" && name !== "Error") return name
  const constructor = property(thrown, "constructor")
  const own = typeof constructor === "function" ? property(constructor, "name") : undefined
  return typeof own === "string" && own !== "Object" && own !== "" ? own : "Error"
}

/** What a handler threw; another error in its place where every access to it throws, such as a revoked proxy. */
export const readable = (thrown: unknown): unknown => {
  try {
    void (thrown instanceof Error)
    return thrown
  } catch {
    return new Error("the error that the handler threw cannot be read")
  }
}

/** Name is the error's tag, else its name, else its class. Never throws, whatever was thrown. */
export const jobError = (thrown: unknown, reason = "handler"): JobError => {
  if (!isObject(thrown)) return { name: "Error", message: kept(text(thrown), MAX_MESSAGE), reason }
  const message = property(thrown, "message")
  const stack = property(thrown, "stack")
  const cause = property(thrown, "cause")
  const errors = partsOf(thrown) ?? partsOf(cause)
  return {
    name: nameOf(thrown),
    message: kept(typeof message === "string" ? message : text(thrown), MAX_MESSAGE),
    reason,
    ...(typeof stack === "string" ? { traceback: kept(ownFrames(stack), MAX_TRACEBACK) } : {}),
    ...(cause === undefined || cause === null ? {} : { cause: briefly(cause, MAX_MESSAGE) }),
    ...compact({ errors }),
  }
}

const briefly = (thrown: unknown, max: number): { readonly name: string; readonly message: string } =>
  isObject(thrown)
    ? { name: nameOf(thrown), message: kept(text(property(thrown, "message")), max) }
    : { name: "Error", message: kept(text(thrown), max) }

/** The errors that an AggregateError is made of, as far as they can be read. */
const partsOf = (thrown: unknown): JobError["errors"] => {
  try {
    return wholePartsOf(thrown)
  } catch {
    // A revoked proxy, or a list that throws.
    return undefined
  }
}

const wholePartsOf = (thrown: unknown): JobError["errors"] => {
  if (!(thrown instanceof AggregateError)) return undefined
  const errors = property(thrown, "errors")
  if (!Array.isArray(errors) || errors.length === 0) return undefined
  const isWhole = errors.length <= MAX_ERRORS
  const shown = errors.slice(0, isWhole ? MAX_ERRORS : MAX_ERRORS - 1).map((each) => briefly(each, MAX_PART))
  return isWhole ? shown : [...shown, { name: "AggregateError", message: `and ${errors.length - shown.length} more` }]
}

export const OUTCOME_LOST = "outcome-lost"

/** The error of a job whose handler has run, where its outcome could not be stored. */
export const outcomeLost = (why: string): JobError => ({
  name: "OutcomeLost",
  message: kept(`the handler has run, but its outcome could not be stored: ${why}`, MAX_MESSAGE),
  reason: OUTCOME_LOST,
})

/**
 * The folder of the runtime, as Bun writes the place of a frame, and as Deno does. A bundle has no such folder, and in one of
 * CommonJS there is no URL.
 */
const oursOf = (url: string | undefined): ReadonlyArray<string> =>
  (url === undefined ? [] : [fileURLToPath(url), url])
    .map((file) => dirname(dirname(dirname(file))))
    .filter((folder) => basename(folder) === "runtime")
    .map((folder) => `${folder}/`)

const OURS = oursOf(import.meta.url)

const FOREIGN = /[\\/]node_modules[\\/]effect[\\/]|[( ](?:native|node:|ext:|bun:|internal:|<anonymous>\)$)/

const isFrame = (line: string): boolean => /^\s+at /.test(line)
const isOwn = (line: string): boolean => !FOREIGN.test(line) && !OURS.some((folder) => line.includes(folder))

/** The first frame of a traceback that is the application's own. */
export const ownFrame = (traceback: string): string | undefined =>
  traceback.split("\n").find((line) => isFrame(line) && isOwn(line))

/** A stack with the application's own frames alone; with all of them where none is its own. */
export const ownFrames = (stack: string): string => {
  const lines = stack.split("\n")
  const own = lines.filter((line) => !isFrame(line) || isOwn(line))
  return own.some(isFrame) ? own.join("\n") : stack
}

/**
 * A failure whose recorded error is known already: it was made where the failure arose, possibly in another process.
 */
export class KnownFailure extends Error {
  override readonly name: string
  readonly error: JobError
  /** Whether the job is not retried, whatever its policy says: a wrong input or result would be wrong again. */
  readonly final: boolean

  constructor(error: JobError, final = false) {
    super(error.message)
    this.name = error.name
    this.error = error
    this.final = final
  }
}

/** The abort reason of the handler's signal at its soft time limit. */
export const softLimit = (seconds: number): DOMException =>
  new DOMException(`it exceeded its soft time limit of ${seconds} s`, "TimeoutError")

/** The error of an attempt that threw the abort reason of its signal, or an error whose cause it is. */
export const softLimitError = (thrown: unknown, reason: DOMException | undefined): JobError | undefined =>
  reason !== undefined && (thrown === reason || causeOf(thrown) === reason)
    ? { name: "SoftTimeLimitExceeded", message: reason.message, reason: "timeout" }
    : undefined

const causeOf = (thrown: unknown): unknown => {
  try {
    return isObject(thrown) && "cause" in thrown ? thrown.cause : undefined
  } catch {
    // The property `cause` is a getter that throws.
    return undefined
  }
}
