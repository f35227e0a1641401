/**
 * Names and ids: which are allowed, and which actor and method a task means. This file alone decides it, so that a name
 * means the same in an HTTP body and in a Celery header.
 */
import * as Result from "effect/Result"
import { isObject } from "./guards.ts"
import { cut } from "./text.ts"

/** A name that is not allowed. `kind`: what it should name. */
interface InvalidName {
  readonly _tag: "InvalidName"
  readonly kind: "actor" | "method" | "queue"
  readonly name: string
  readonly message: string
}

/** Longest id of a job, in bytes of UTF-8. */
export const MAX_ID_BYTES = 255

/** Longest name of an actor, a method or a queue, in characters. */
const MAX_NAME_LENGTH = 128

const ACTOR = /^[A-Za-z_][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)*$/
const METHOD = /^[A-Za-z_$][A-Za-z0-9_$-]*$/
const QUEUE = /^[A-Za-z0-9_][A-Za-z0-9_.:@-]*$/

/** Names that JavaScript reads or calls on any object: a method with such a name would be called by accident. */
const FORBIDDEN_METHODS: ReadonlyArray<string> = ["then", "toJSON", "constructor", "__proto__"]

const byteLength = (text: string): number => {
  let bytes = text.length
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at)
    // A pair of surrogates is two units and four bytes: two each.
    if (unit > 0x7f) bytes += unit > 0x7ff && (unit < 0xd800 || unit > 0xdfff) ? 2 : 1
  }
  return bytes
}

/**
 * Whether text can be the id of a job: 1–255 bytes of well-formed UTF-8. A task of another sender may have any such id; a
 * transport escapes the characters that it cannot store.
 */
export const isId = (text: unknown): boolean =>
  typeof text === "string" &&
  text.length > 0 &&
  text.length <= MAX_ID_BYTES &&
  text.isWellFormed() &&
  (text.length * 3 <= MAX_ID_BYTES || byteLength(text) <= MAX_ID_BYTES)

const shorten = (name: string): string => cut(name, 60)

const refuse = (kind: InvalidName["kind"], name: unknown, rule: string): Result.Result<never, InvalidName> => {
  const shown = typeof name === "string" ? shorten(name) : typeof name
  return Result.fail({
    _tag: "InvalidName",
    kind,
    name: shown,
    message: `"${shown}" cannot be a ${NOUN[kind]}: ${rule}.`,
  })
}

const NOUN: Readonly<Record<InvalidName["kind"], string>> = {
  actor: "name of an actor",
  method: "name of a method",
  queue: "name of a queue",
}

const checked = (
  kind: InvalidName["kind"],
  name: unknown,
  pattern: RegExp,
  rule: string,
): Result.Result<string, InvalidName> =>
  typeof name === "string" && name.length <= MAX_NAME_LENGTH && pattern.test(name)
    ? Result.succeed(name)
    : refuse(kind, name, rule)

/** An actor's name: words of letters, digits, `_` and `-`, joined by dots. Fails with {@link InvalidName}. */
export const checkActorName = (name: unknown): Result.Result<string, InvalidName> =>
  checked(
    "actor",
    name,
    ACTOR,
    `use at most ${MAX_NAME_LENGTH} letters, digits, "_" or "-", in words joined by dots, starting with a letter or "_"`,
  )

/**
 * A method's name: like an identifier, `-` allowed, no dot, because names are split at dots. `then`, `toJSON`,
 * `constructor` and `__proto__` are refused: JavaScript itself looks for them on objects. Fails with {@link InvalidName}.
 */
export const checkMethodName = (name: unknown): Result.Result<string, InvalidName> =>
  typeof name === "string" && FORBIDDEN_METHODS.includes(name)
    ? refuse("method", name, "JavaScript uses that name on objects itself; choose another name")
    : checked(
        "method",
        name,
        METHOD,
        `use at most ${MAX_NAME_LENGTH} letters, digits, "_", "$" or "-", starting with a letter, "_" or "$"`,
      )

/** A queue's name: letters, digits, `_`, `.`, `:`, `@` and `-`. Fails with {@link InvalidName}. */
export const checkQueueName = (name: unknown): Result.Result<string, InvalidName> =>
  checked(
    "queue",
    name,
    QUEUE,
    `use at most ${MAX_NAME_LENGTH} letters, digits, "_", ".", ":", "@" or "-", starting with a letter, a digit or "_"`,
  )

/** The actor and the method that a task means. `meth: null`: the default method. */
export interface Target {
  readonly actor: string
  readonly meth: string | null
}

/** The method of a task that names none. */
export const DEFAULT_METHOD = "run"

/**
 * Resolves the name of a task. With a `meth`, `task` is the name of the actor. Otherwise, in this order: `task` is the name
 * of an existing actor; `mapping` has an entry for `task`, which is resolved in the same way, but without `mapping`; `task`
 * is split at its last dot. The actor or method in the answer need not exist. `hasActor` is called at most twice.
 */
export const resolveName = (
  task: string,
  meth: string | null,
  hasActor: (name: string) => boolean,
  mapping?: ReadonlyMap<string, string>,
): Target => {
  if (meth !== null) return { actor: task, meth }
  if (hasActor(task)) return { actor: task, meth: null }
  const mapped = mapping?.get(task)
  if (mapped !== undefined) return hasActor(mapped) ? { actor: mapped, meth: null } : splitName(mapped)
  return splitName(task)
}

/** A name split at its last dot. A dot at the beginning or the end does not count. */
const splitName = (name: string): Target => {
  const dot = name.lastIndexOf(".")
  return dot <= 0 || dot === name.length - 1
    ? { actor: name, meth: null }
    : { actor: name.slice(0, dot), meth: name.slice(dot + 1) }
}

// A tenant is named by the text under the key of a limit. Each tenant has a limit of its own.

const MAX_TENANT_BYTES = 255
/** What the name of a tenant must be, for messages. */
export const TENANT_RULE = `text of 1 to ${MAX_TENANT_BYTES} bytes`

export const isTenant = (value: unknown): value is string => {
  if (typeof value !== "string" || !value.isWellFormed()) return false
  const bytes = Buffer.byteLength(value)
  return bytes >= 1 && bytes <= MAX_TENANT_BYTES
}

/** The value of a field of an input; `undefined` where the input is no object, or lacks the field. */
export const fieldOf = (input: unknown, field: string): unknown =>
  isObject(input) && Object.hasOwn(input, field) ? Reflect.get(input, field) : undefined
