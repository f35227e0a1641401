/**
 * Events: what a worker sends to monitors about its tasks and itself (Celery's event protocol). Always JSON; a message
 * holds one map, or a list of them when a worker flushes several at once.
 */
import * as Result from "effect/Result"
import type { CodecFailure } from "../codec/codec.ts"
import { jsonCodec } from "../codec/json.ts"
import { isObject } from "../guards.ts"

/** Fields that every event has. */
export interface EventFields {
  /** The node's name, `worker@host`. */
  readonly hostname: string
  /** Seconds since the epoch, with a fraction. */
  readonly timestamp: number
  /** Whole hours west of UTC of the sender; receivers subtract the difference to their own. Send 0 with UTC. */
  readonly utcoffset: number
  readonly pid: number
  /** The sender's Lamport clock. */
  readonly clock: number
}

/** Events about a task. Reprs are text for people, at most 1024 characters. */
export interface TaskEvents {
  readonly "task-sent": {
    readonly uuid: string
    readonly name: string
    readonly args: string
    readonly kwargs: string
    readonly retries: number
    readonly eta: string | null
    readonly expires: string | null
    readonly queue: string
    readonly exchange: string
    readonly routing_key: string
    readonly root_id?: string | null
    readonly parent_id?: string | null
  }
  readonly "task-received": {
    readonly uuid: string
    readonly name: string
    readonly args: string
    readonly kwargs: string
    readonly retries: number
    readonly eta: string | null
    readonly expires: string | null
    readonly root_id: string | null
    readonly parent_id: string | null
  }
  readonly "task-started": { readonly uuid: string }
  readonly "task-succeeded": {
    readonly uuid: string
    readonly result: string
    /** Seconds. */
    readonly runtime: number
  }
  readonly "task-failed": { readonly uuid: string; readonly exception: string; readonly traceback?: string | null }
  readonly "task-retried": { readonly uuid: string; readonly exception: string; readonly traceback?: string | null }
  readonly "task-rejected": { readonly uuid: string; readonly requeue: boolean }
  readonly "task-revoked": {
    readonly uuid: string
    readonly terminated: boolean
    readonly signum: number | string | null
    readonly expired: boolean
  }
  readonly "task-cancelled": { readonly uuid: string }
}

/** Load of a worker, in its events. */
export interface WorkerLoad {
  /** Seconds between heartbeats; a node is gone after twice that time. */
  readonly freq: number
  readonly active: number
  readonly processed: number
  readonly loadavg: ReadonlyArray<number>
  readonly sw_ident: string
  readonly sw_ver: string
  readonly sw_sys: string
}

/** Events about a worker. */
export interface WorkerEvents {
  readonly "worker-online": WorkerLoad
  readonly "worker-heartbeat": WorkerLoad
  readonly "worker-offline": WorkerLoad
}

type KnownEvents = TaskEvents & WorkerEvents

/** An event of a known type. */
export type KnownEvent = {
  readonly [Type in keyof KnownEvents]: EventFields & { readonly type: Type } & KnownEvents[Type]
}[keyof KnownEvents]

/** A received event: its type, and fields that are not checked. */
export interface ReceivedEvent {
  readonly type: string
  readonly [field: string]: unknown
}

/** Why a message holds no events. */
export interface InvalidEvent {
  readonly _tag: "InvalidEvent"
  readonly message: string
}

const isEvent = (value: unknown): value is ReceivedEvent =>
  isObject(value) && "type" in value && typeof value.type === "string"

/** Decodes the body of a message: one event, or a list. Fails with {@link InvalidEvent}. */
export const decodeEvents = (body: Uint8Array): Result.Result<ReadonlyArray<ReceivedEvent>, InvalidEvent> => {
  const decoded = jsonCodec.decode(body)
  if (Result.isFailure(decoded)) return Result.fail({ _tag: "InvalidEvent", message: decoded.failure.message })
  const value: unknown = decoded.success
  const events: ReadonlyArray<unknown> = Array.isArray(value) ? value : [value]
  return events.every(isEvent)
    ? Result.succeed(events)
    : Result.fail({ _tag: "InvalidEvent", message: "An event must be a map with a type." })
}

/** Encodes one event or several as the body of a message. Fails with CodecFailure where a field cannot be JSON. */
export const encodeEvents = (
  events: KnownEvent | ReceivedEvent | ReadonlyArray<KnownEvent | ReceivedEvent>,
): Result.Result<Uint8Array, CodecFailure> => jsonCodec.encode(events)

const [COMMA, OPEN, CLOSE] = [0x2c, 0x5b, 0x5d]

/** Joins bodies of one event each to the body of one message; `asList`: a list also where there is only one. */
export const joinEvents = (bodies: ReadonlyArray<Uint8Array>, asList = false): Uint8Array => {
  const [only] = bodies
  if (bodies.length === 1 && only !== undefined && !asList) return only
  const commas = Math.max(0, bodies.length - 1)
  const joined = new Uint8Array(bodies.reduce((length, body) => length + body.length, 2 + commas))
  let at = 0
  for (const body of bodies) {
    joined[at] = COMMA
    joined.set(body, at + 1)
    at += body.length + 1
  }
  joined[0] = OPEN
  joined[joined.length - 1] = CLOSE
  return joined
}
