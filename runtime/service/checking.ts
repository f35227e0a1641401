/** Checks the options of `serve()` by the schema of the configuration: the same rules and the same messages. */
import { Result, Schema } from "effect"
import type { ActorDefinition } from "../actor/actor.ts"
import { problemOf } from "../config/checking.ts"
import { HttpConfig, LogConfig } from "../config/groups.ts"
import { ConfigSchema } from "../config/schema.ts"
import { CallboardError } from "../errors.ts"
import { parseAutoscale } from "../options/autoscale.ts"
import { didYouMean } from "../options/suggest.ts"
import type { ServeOptions } from "./options.ts"

const isObject = (value: unknown): value is object => typeof value === "object" && value !== null
const isFunction = (value: unknown): value is (...args: ReadonlyArray<unknown>) => unknown =>
  typeof value === "function"
const isActor = (value: unknown): value is ActorDefinition =>
  isObject(value) && "_tag" in value && value._tag === "Actor"

const AnyFunction = Schema.declare(isFunction, { expected: "a function" })
const AnyObject = Schema.declare(isObject, { expected: "an object" })
const { name, autoscale, ...worker } = ConfigSchema.fields
const { lease: _lease, heartbeat: _heartbeat, processes: _processes, http: _http, log: _log, ...settings } = worker

/** The settings of the configuration, and the options that only code can give. */
const fields = {
  ...settings,
  name,
  transport: Schema.optionalKey(Schema.Union([Schema.String, AnyObject])),
  actors: Schema.optionalKey(Schema.Array(Schema.declare(isActor, { expected: "an actor, as `actor()` returns it" }))),
  autoscale: Schema.optionalKey(
    Schema.Unknown.check(
      Schema.makeFilter((value: unknown) => {
        const parsed = parseAutoscale(value)
        return Result.isSuccess(parsed) || parsed.failure
      }),
    ),
  ),
  // The ranges of these are checked where the options of the URL are parsed.
  namespace: Schema.optionalKey(Schema.String),
  leaseMs: Schema.optionalKey(Schema.Number),
  heartbeatMs: Schema.optionalKey(Schema.Number),
  timeoutMs: Schema.optionalKey(Schema.Number),
  reconnectDelay: Schema.optionalKey(AnyFunction),
  tracing: Schema.optionalKey(Schema.Union([Schema.Boolean, AnyObject])),
  http: Schema.optionalKey(Schema.Union([Schema.Literal(false), HttpConfig])),
  signals: Schema.optionalKey(Schema.Boolean),
  logLevel: LogConfig.fields.level,
  logLevels: LogConfig.fields.levels,
  logFormat: LogConfig.fields.format,
  logColor: LogConfig.fields.color,
  log: Schema.optionalKey(Schema.Union([AnyFunction, AnyObject])),
  onFailure: Schema.optionalKey(Schema.Array(AnyFunction)),
  onSettled: Schema.optionalKey(AnyFunction),
  onReady: Schema.optionalKey(AnyFunction),
} satisfies Readonly<Record<keyof ServeOptions, Schema.Top>>

const decode = Schema.decodeUnknownResult(Schema.Struct(fields), { onExcessProperty: "error", errors: "all" })

/** Removes fields that are `undefined`: code that passes options on writes them, and they mean the default. */
const withoutUndefined = (value: unknown): unknown =>
  isObject(value) && Object.getPrototypeOf(value) === Object.prototype
    ? Object.fromEntries(Object.entries(value).filter(([, each]) => each !== undefined))
    : value

/** Fails with `CallboardError` `invalid-input`, naming the option. */
export const checkOptions = (options: ServeOptions): void => {
  const given = withoutUndefined({ ...options, http: withoutUndefined(options.http) })
  const decoded = decode(given)
  if (Result.isSuccess(decoded)) return
  const { path, message, isUnknown } = problemOf(decoded.failure.issue)
  // For an element of a list, `field` names the option, and the message names the element.
  const field = path.replace(/\.\d+(\.|$).*/, "")
  const why = isUnknown ? `is not an option of serve()${didYouMean(path, namesBeside(path))}` : message
  throw new CallboardError("invalid-input", `${path}${isUnknown ? " " : ": "}${why}`, { field })
}

const namesBeside = (path: string): ReadonlyArray<string> =>
  path.startsWith("http.") ? Object.keys(HttpConfig.fields).map((key) => `http.${key}`) : Object.keys(fields)
