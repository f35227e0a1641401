/** The settings of clients, as schemas: those of a connection, and those of `connect` as a whole. */
import * as Schema from "effect/Schema"
import { isPlugin, LEASE_RANGE, type TransportSettings } from "../connection/connect.ts"
import { AnyFunction } from "../options/check.ts"
import { type DurationInput, duration, milliseconds } from "../options/duration.ts"
import { OwnName } from "../options/fields.ts"
import { compact, ifGiven } from "../protocol/compact.ts"
import { isObject } from "../protocol/guards.ts"
import type { TracingSettings } from "../tracing/tracing.ts"
import type { AnyPlugin } from "../transport/job-store/plugin.ts"

/** Settings of a connection to a transport. Parameters of the URL set the same options, and are overridden by these. */
export interface ConnectSettings {
  /** Plugins of third parties, by scheme: the configuration's `transports`. */
  readonly transports?: Readonly<Record<string, AnyPlugin>>
  /** Prefixes everything on the broker. Defaults to the URL's `ns`, else `callboard`. */
  readonly namespace?: string
  /**
   * How long a delivered task belongs to its worker unless the worker extends it: 1 second to 1 day. Defaults to the
   * URL's `lease`, else 30 seconds.
   */
  readonly lease?: DurationInput
  /** Longest wait for a connection, 1 ms to 1 day. Defaults to 5 seconds. */
  readonly timeout?: DurationInput
  /**
   * Keep-alive of the connection: 0 (off), or 1 second at least. Defaults to 20 seconds. Transports without a connection
   * ignore it.
   */
  readonly heartbeat?: DurationInput
  /** Wait before the n-th try to connect again, with n from 1. Defaults to the transport's own waits. */
  readonly reconnectDelay?: (tries: number) => DurationInput
  /** Name of this connection, which brokers show. Defaults to `callboard@<host>:<pid>`. */
  readonly name?: string
}

const isTracing = (value: unknown): value is boolean | object =>
  typeof value === "boolean" || (isObject(value) && "startSpan" in value && typeof value.startSpan === "function")

const isNames = (value: unknown): value is ReadonlyMap<string, string> =>
  value instanceof Map && [...value].flat().every((name) => typeof name === "string")

/** What every function takes that connects to a transport. */
export const CONNECTION_FIELDS = {
  transports: Schema.optionalKey(
    Schema.Record(
      Schema.String,
      Schema.declare(isPlugin, { expected: "a transport plugin, an object with `schemes` and `connect`" }),
    ),
  ),
  namespace: Schema.optionalKey(Schema.String),
  lease: Schema.optionalKey(duration(LEASE_RANGE)),
  heartbeat: Schema.optionalKey(duration({ min: 1_000, orZero: true })),
  timeout: Schema.optionalKey(duration({ min: 1, max: 86_400_000 })),
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

/** The settings of a connection, which were checked, with durations in milliseconds. */
export const transportSettings = (settings: ConnectSettings): TransportSettings => {
  const { transports, namespace, name, lease, timeout, heartbeat, reconnectDelay: wait } = settings
  return compact({
    transports,
    namespace,
    name,
    leaseMs: ifGiven(lease, (given) => milliseconds("lease", given)),
    timeoutMs: ifGiven(timeout, (given) => milliseconds("timeout", given)),
    heartbeatMs: ifGiven(heartbeat, (given) => milliseconds("heartbeat", given)),
    reconnectDelay: wait && ((tries: number) => milliseconds("reconnectDelay", wait(tries))),
  })
}
