/** The settings of clients, as schemas: those of a connection, and those of `connect` as a whole. */
import * as Schema from "effect/Schema"
import { type ConnectSettings, isPlugin } from "../connection/connect.ts"
import { AnyFunction } from "../options/check.ts"
import { duration } from "../options/duration.ts"
import { OwnName } from "../options/fields.ts"
import { isObject } from "../protocol/guards.ts"
import type { TracingSettings } from "../tracing/tracing.ts"

const isTracing = (value: unknown): value is boolean | object =>
  typeof value === "boolean" || (isObject(value) && "startSpan" in value && typeof value.startSpan === "function")

const isNames = (value: unknown): value is ReadonlyMap<string, string> =>
  value instanceof Map && [...value].flat().every((name) => typeof name === "string")

/** What every function takes that connects to a transport. Ranges are checked where the options of the URL are parsed. */
export const CONNECTION_FIELDS = {
  transports: Schema.optionalKey(
    Schema.Record(
      Schema.String,
      Schema.declare(isPlugin, { expected: "a transport plugin, an object with `schemes` and `connect`" }),
    ),
  ),
  namespace: Schema.optionalKey(Schema.String),
  leaseMs: Schema.optionalKey(Schema.Number),
  heartbeatMs: Schema.optionalKey(Schema.Number),
  timeoutMs: Schema.optionalKey(Schema.Number),
  reconnectDelay: Schema.optionalKey(AnyFunction),
  name: Schema.optionalKey(OwnName),
  tracing: Schema.optionalKey(
    Schema.declare(isTracing, { expected: "true, false or a tracer of OpenTelemetry, which has `startSpan`" }),
  ),
} satisfies Readonly<Record<keyof ConnectSettings | keyof TracingSettings, Schema.Top>>

/** The settings of `connect`. */
export const CLIENT_FIELDS = {
  ...CONNECTION_FIELDS,
  taskNames: Schema.optionalKey(Schema.declare(isNames, { expected: "a Map of task names to methods" })),
  taskSentEvents: Schema.optionalKey(Schema.Boolean),
  failureTtl: Schema.optionalKey(duration({ forEver: true })),
}
