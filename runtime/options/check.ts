/** Checks the options of a function against a schema: code without types may give anything. */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type * as SchemaAST from "effect/SchemaAST"
import * as SchemaIssue from "effect/SchemaIssue"
import { CallboardError } from "../errors.ts"
import { isObject, isPlainObject } from "../protocol/guards.ts"
import { isSignal } from "./plain.ts"
import { refuseUnknown, requirementOf, unknownOption } from "./refuse.ts"

const format = SchemaIssue.makeFormatterStandardSchemaV1()

/** Where a problem is: names joined by dots. */
const pathOf = (path: ReadonlyArray<PropertyKey | { readonly key: PropertyKey }> = []): string =>
  path.map((key) => String(typeof key === "object" ? key.key : key)).join(".")

/** The first problem of a value: where it is, and what the value must be. */
export const issueOf = (issue: SchemaIssue.Issue): { readonly path: string; readonly message: string } => {
  const first = format(issue).issues[0]
  return { path: pathOf(first?.path), message: requirementOf(first?.message) }
}

type Keys = ReadonlyArray<PropertyKey>

/** Where a problem is, as code writes it: `chain[0].retry.max`. */
const placeOf = (keys: Keys): string =>
  keys.reduce<string>((place, key) => {
    if (typeof key === "number") return `${place}[${key}]`
    return place === "" ? String(key) : `${place}.${String(key)}`
  }, "")

/** The kinds that a value of a schema may have: the members of a union, else the schema itself. */
const kindsOf = (ast: SchemaAST.AST): ReadonlyArray<SchemaAST.AST> =>
  ast._tag === "Union" ? ast.types.flatMap(kindsOf) : [ast]

/** What a schema says of the value at a place. */
const partsAt = (ast: SchemaAST.AST, keys: Keys): ReadonlyArray<SchemaAST.AST> =>
  keys.reduce<ReadonlyArray<SchemaAST.AST>>(
    (parts, key) =>
      parts.flatMap(kindsOf).flatMap((part) => {
        if (part._tag === "Arrays") return part.rest
        return part._tag === "Objects"
          ? part.propertySignatures.flatMap(({ name, type }) => (name === key ? type : []))
          : []
      }),
    [ast],
  )

const fieldsAt = (ast: SchemaAST.AST, keys: Keys): Keys =>
  partsAt(ast, keys)
    .flatMap(kindsOf)
    .flatMap((part) => (part._tag === "Objects" ? part.propertySignatures.map(({ name }) => name) : []))

/** What the value at a place must be, by the message of a schema. */
const requirementAt = (ast: SchemaAST.AST, keys: Keys, message: string | undefined): string => {
  const [part] = partsAt(ast, keys)
  const rule: unknown = (part?.checks?.at(-1)?.annotations ?? part?.annotations)?.["message"]
  if (message === "Missing key" && typeof rule === "string") return `is missing: it ${rule}`
  const name: unknown = part?.annotations?.["identifier"]
  return requirementOf(part?._tag === "Objects" && message === `Expected ${name}` ? "Expected object" : message)
}

/** What is wrong with a value. `known`: it has no field of that name, and may have these in its place. */
interface Problem {
  readonly place: string
  readonly message: string
  readonly known?: ReadonlyArray<string>
}

/** What is wrong with a value of a schema: an unknown field comes before every other problem. */
const problemOf = (ast: SchemaAST.AST, problem: SchemaIssue.Issue): Problem => {
  const { issues } = format(problem)
  const unknown = issues.find(({ message }) => message === "Expected no excess property")
  const issue = unknown ?? issues[0]
  const keys = (issue?.path ?? []).map((key) => (typeof key === "object" ? key.key : key))
  const [place, message] = [placeOf(keys), requirementAt(ast, keys, issue?.message)]
  return unknown === undefined
    ? { place, message }
    : { place, message, known: fieldsAt(ast, keys.slice(0, -1)).map(String) }
}

/** Checks a value, whose unknown fields are refused at any depth. Fails with the first problem. */
export const checkerOf = <A>(schema: Schema.ConstraintDecoder<A>): ((given: unknown) => Result.Result<A, Problem>) => {
  const decode = Schema.decodeUnknownResult(schema, { onExcessProperty: "error", errors: "all" })
  return (given) => Result.mapError(decode(given), ({ issue }) => problemOf(schema.ast, issue))
}

const invalid = (field: string, message: string): CallboardError =>
  new CallboardError("invalid-input", `${field}: ${message}`, { field })

/**
 * A parser of what is given as `owner`, such as `a task`: absent is what is `undefined`. Fails with `unknown-field` for a
 * field that the schema lacks, at any depth, and with `invalid-input` for every other problem, naming the field, or
 * `whole` if it is none.
 */
export const decoderOf = <A>(
  schema: Schema.ConstraintDecoder<A>,
  owner: string,
  whole: string,
): ((given: unknown) => Result.Result<A, CallboardError>) => {
  const check = checkerOf(schema)
  return (given) =>
    Result.mapError(check(withoutAnyUndefined(given)), ({ place, message, known }) => {
      if (known !== undefined) return unknownOption(place, known, owner)
      return invalid(place || whole, message)
    })
}

/** As {@link decoderOf}, but throws what it fails with. */
export const parserOf = <A>(...given: Parameters<typeof decoderOf<A>>): ((given: unknown) => A) => {
  const decode = decoderOf(...given)
  return (value) => {
    const decoded = decode(value)
    if (Result.isFailure(decoded)) throw decoded.failure
    return decoded.success
  }
}

const isFunction = (value: unknown): value is (...args: ReadonlyArray<unknown>) => unknown =>
  typeof value === "function"

export const AnySignal = Schema.declare(isSignal, { expected: "an AbortSignal" })

export const AnyFunction = Schema.declare(isFunction, { expected: "a function" })
export const AnyObject = Schema.declare(isObject, { expected: "an object" })

/** Options as callers write them: a field that is `undefined` is as if absent, at any depth. */
export type Given<T> = unknown extends T
  ? T
  : T extends ReadonlyArray<infer Item>
    ? T extends readonly [unknown, ...ReadonlyArray<unknown>]
      ? T
      : ReadonlyArray<Given<Item>>
    : T extends Callable | string | number | boolean | bigint | null | undefined | AbortSignal
      ? T
      : {
          readonly [Field in keyof T]: Record<never, never> extends Pick<T, Field>
            ? Given<T[Field]> | undefined
            : Given<T[Field]>
        }

type Callable = (...args: never) => unknown

/** Fields with data and objects of the application, which are carried as they are. */
const DATA: ReadonlySet<string> = new Set([
  ...["input", "output", "args", "kwargs", "meta", "details", "headers"],
  ...["actors", "transport", "transports"],
])

/** Levels of lists and objects below which nothing is removed: the schema of a task refuses fewer, and Node's stack ends at some 3,000. */
const MAX_LEVELS = 1_000

/**
 * Removes fields that are `undefined`, at any depth: code that passes options on writes them, and they mean the default.
 * Returns the value itself if there are none.
 */
export const withoutAnyUndefined = (value: unknown, level = 0): unknown => {
  if (level > MAX_LEVELS) return value
  if (Array.isArray(value)) {
    const items = value.map((item: unknown) => withoutAnyUndefined(item, level + 1))
    return items.every((item, at) => item === value[at]) ? value : items
  }
  if (!isObject(value) || !isPlainObject(value)) return value
  const given = Object.entries(value)
  const kept = given.flatMap(
    ([name, each]): ReadonlyArray<[string, unknown]> =>
      each === undefined ? [] : [[name, DATA.has(name) ? each : withoutAnyUndefined(each, level + 1)]],
  )
  const isSame = kept.length === given.length && kept.every(([, each], at) => each === given[at]?.[1])
  return isSame ? value : Object.fromEntries(kept)
}

/**
 * Checks the options of the function `owner` and returns those that have a value. Throws `invalid-input` for what is no
 * object and for a wrong value, `unknown-field` for an option that `owner` does not have, naming the option.
 */
export const optionsChecker = (
  fields: Readonly<Record<string, Schema.ConstraintDecoder<unknown>>>,
  owner: string,
): ((given: unknown) => object) => {
  const check = checkerOf<object>(Schema.Struct(fields))
  return (given) => {
    refuseUnknown(given, fields, owner)
    const options: Record<string, unknown> = {}
    // By name, as the caller reads them: an option may be inherited, or a getter of a class.
    for (const name in fields) {
      const value: unknown = Reflect.get(given, name)
      const option = DATA.has(name) ? value : withoutAnyUndefined(value)
      if (option !== undefined) options[name] = option
    }
    const checked = check(options)
    if (Result.isSuccess(checked)) return checked.success
    const { place, message, known } = checked.failure
    throw known === undefined ? invalid(place, message) : unknownOption(place, known, owner)
  }
}
