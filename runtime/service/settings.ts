/** The settings of a worker, made from the options of `serve()`: checked, durations in milliseconds, defaults filled in. */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { type ActorDefinition, isActor } from "../actor/actor.ts"
import { CONDUCTOR_FIELDS } from "../client/conductor.ts"
import { CLIENT_FIELDS } from "../client/settings.ts"
import { DEFAULT_QUEUE } from "../cluster/directory.ts"
import { fieldsInCode, valuesOf } from "../config/setting.ts"
import { SERVE, TABLE } from "../config/table.ts"
import { AnyLog } from "../log/log.ts"
import { parseAutoscale } from "../options/autoscale.ts"
import { AnyFunction, optionsChecker } from "../options/check.ts"
import { compact, ifGiven } from "../protocol/compact.ts"
import { beginning } from "../protocol/text.ts"
import type { WorkerOptions } from "../worker/options.ts"
import type { ServeOptions } from "./options.ts"

/** The settings of a worker that follow from the options alone. */
type Settings = Omit<
  WorkerOptions,
  "connection" | "client" | "actors" | "name" | "leaseMs" | "leaseThread" | "log" | "observers"
>

/** Fails with `CallboardError` `invalid-input` or `unknown-field`, naming the option. */
export const settingsOf = (options: ServeOptions): Settings => {
  checkServeOptions(options)
  const { autoscale, ...values } = valuesOf(SERVE, options)
  return {
    ...values,
    queues: options.queues ?? queuesOf(options.actors ?? []),
    prefetch: options.prefetch ?? prefetchOf(values),
    keep: { resultMs: values.resultTtlMs, failureMs: values.failureTtlMs },
    languages: new Map(Object.entries(values.languages ?? {})),
    taskNames: new Map(Object.entries(values.taskNames ?? {})),
    onFailure: options.onFailure ?? [],
    ...compact({
      autoscale: ifGiven(autoscale, (given) => Result.getOrThrow(parseAutoscale(given))),
      version: versionOf(options),
      onSettled: options.onSettled,
    }),
  }
}

const versionOf = ({ version = process.env["CALLBOARD_VERSION"] }: ServeOptions): string | undefined =>
  version === undefined || version === "" ? undefined : beginning(version, 100)

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
const prefetchOf = ({ queues = [], order }: Pick<ServeOptions, "queues" | "order">): number =>
  order === "strict" && queues.length > 1 ? 1 : 4

/** Options that are no settings of the configuration, or have another name there. */
const OWN = {
  actors: Schema.Array(Schema.declare(isActor, { expected: "an actor, as `actor()` returns it" })),
  http: Schema.Union([Schema.Literal(false), Schema.Struct(fieldsInCode(TABLE.http.fields))]),
  conductors: Schema.Array(Schema.Struct(CONDUCTOR_FIELDS)),
  signals: Schema.Boolean,
  log: AnyLog,
  onFailure: Schema.Array(AnyFunction),
  onSettled: AnyFunction,
  onReady: AnyFunction,
} satisfies Readonly<Record<Exclude<keyof ServeOptions, keyof typeof SERVE | "reconnectDelay">, Schema.Top>>

const checkServeOptions = optionsChecker(
  {
    ...CLIENT_FIELDS,
    ...fieldsInCode(SERVE),
    ...Object.fromEntries(Object.entries(OWN).map(([name, schema]) => [name, Schema.optionalKey(schema)])),
  },
  "serve()",
)
