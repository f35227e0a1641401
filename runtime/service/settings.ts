/**
 * The settings of a worker, made from the options of `serve()`: checked, durations in milliseconds, defaults filled in.
 */

import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { type ActorDefinition, isActor } from "../actor/actor.ts"
import { CONNECTION_FIELDS } from "../client/settings.ts"
import { DEFAULT_QUEUE } from "../cluster/directory.ts"
import { HttpConfig, LogConfig } from "../config/groups.ts"
import { ConfigSchema } from "../config/schema.ts"
import { CallboardError } from "../errors.ts"
import { parseAutoscale } from "../options/autoscale.ts"
import { AnyFunction, AnyObject, problemOf, withoutUndefined } from "../options/check.ts"
import { DEFAULTS } from "../options/defaults.ts"
import { milliseconds, timeToLive } from "../options/duration.ts"
import { resolveReconnect } from "../options/reconnect.ts"
import { compact, ifGiven } from "../protocol/compact.ts"
import { beginning } from "../protocol/text.ts"
import { didYouMean } from "../suggest.ts"
import type { WorkerOptions } from "../worker/options.ts"
import type { ServeOptions } from "./options.ts"

/** The settings of a worker that follow from the options alone. */
type Settings = Omit<
  WorkerOptions,
  "connection" | "client" | "actors" | "name" | "leaseMs" | "leaseThread" | "log" | "observers"
>

/** Fails with `CallboardError` `invalid-input`, naming the option. */
export const settingsOf = (options: ServeOptions): Settings => {
  checkServeOptions(options)
  return checkedSettingsOf(options)
}

const checkedSettingsOf = (options: ServeOptions): Settings => ({
  queues: options.queues ?? queuesOf(options.actors ?? []),
  rotate: options.order === "rotate" || options.order === "random",
  random: options.order === "random",
  concurrency: options.concurrency ?? DEFAULTS.concurrency,
  prefetch: options.prefetch ?? prefetchOf(options),
  burst: options.burst ?? false,
  ...versionOf(options),
  ...compact({
    autoscale: ifGiven(options.autoscale, (given) => Result.getOrThrow(parseAutoscale(given))),
    maxJobs: options.maxJobs,
    maxIdleMs: ifGiven(options.maxIdle, (given) => milliseconds("maxIdle", given)),
    stuckGraceMs: ifGiven(options.stuckGrace, (given) => milliseconds("stuckGrace", given)),
  }),
  graceMs: milliseconds("grace", options.grace ?? DEFAULTS.grace),
  lostCap: options.lostCap ?? DEFAULTS.lostCap,
  unknownGraceMs: milliseconds("unknownGrace", options.unknownGrace ?? DEFAULTS.unknownGrace),
  maxBody: options.maxBody ?? DEFAULTS.maxBody,
  reconnect: resolveReconnect(options.reconnect),
  rateLimits: options.rateLimits ?? DEFAULTS.rateLimits,
  prefetchReduction: options.prefetchReduction ?? DEFAULTS.prefetchReduction,
  cancelOnConnectionLoss: options.cancelOnConnectionLoss ?? DEFAULTS.cancelOnConnectionLoss,
  keep: {
    resultMs: timeToLive("resultTtl", options.resultTtl ?? DEFAULTS.resultTtl),
    failureMs: timeToLive("failureTtl", options.failureTtl ?? DEFAULTS.failureTtl),
  },
  languages: new Map(Object.entries(options.languages ?? {})),
  taskNames: new Map(Object.entries(options.taskNames ?? {})),
  events: options.events ?? false,
  onFailure: options.onFailure ?? [],
  ...compact({ onSettled: options.onSettled }),
})

const versionOf = ({ version = process.env["CALLBOARD_VERSION"] }: ServeOptions): { readonly version?: string } =>
  version === undefined || version === "" ? {} : { version: beginning(version, 100) }

const queuesOf = (actors: ReadonlyArray<ActorDefinition>): ReadonlyArray<string> => {
  const queues = new Set<string>()
  for (const actor of actors) {
    queues.add(actor.queue ?? DEFAULT_QUEUE)
    for (const method of actor.methods.values()) if (method.queue !== undefined) queues.add(method.queue)
  }
  queues.add(DEFAULT_QUEUE)
  return [...queues]
}

/**
 * In strict order a worker holds no tasks in advance: they would run before tasks that come later to an earlier queue.
 */
const prefetchOf = ({ queues = [], order = DEFAULTS.order }: ServeOptions): number =>
  order === "strict" && queues.length > 1 ? 1 : DEFAULTS.prefetch

const { autoscale, ...worker } = ConfigSchema.fields
const { processes: _processes, http: _http, log: _log, ...settings } = worker

/** The settings of the configuration, and the options that only code can give. */
const fields = {
  ...settings,
  ...CONNECTION_FIELDS,
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

/**
 * Checks the options by the schema of the configuration: the same rules and the same messages. Fails with
 * `CallboardError` `invalid-input` or `unknown-field`, naming the option.
 */
const checkServeOptions = (options: ServeOptions): void => {
  const given = withoutUndefined({ ...options, http: withoutUndefined(options.http) })
  const decoded = decode(given)
  if (Result.isSuccess(decoded)) return
  const { path, message, isUnknown } = problemOf(decoded.failure.issue)
  // For an element of a list, `field` names the option, and the message names the element.
  const field = path.replace(/\.\d+(\.|$).*/, "")
  const why = isUnknown ? `is not an option of serve()${didYouMean(path, namesBeside(path))}` : message
  const code = isUnknown ? "unknown-field" : "invalid-input"
  throw new CallboardError(code, `${path}${isUnknown ? " " : ": "}${why}`, { field })
}

const namesBeside = (path: string): ReadonlyArray<string> =>
  path.startsWith("http.") ? Object.keys(HttpConfig.fields).map((key) => `http.${key}`) : Object.keys(fields)
