/**
 * The messages between a worker and the processes of its isolated handlers. Values of unknown shape (input, result,
 * progress detail …) travel as JSON text inside a message, so that their size is known before they are parsed. Both
 * sides validate every message.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { LOG_LEVELS } from "../../log/choices.ts"
import { cut } from "../../protocol/text.ts"

/** Longest input or result, in characters. It only bounds what is parsed; transports allow far less. */
export const MAX_PAYLOAD = 64 * 1024 * 1024
/** Longest progress detail or fields of a log line, in characters. */
export const MAX_DETAIL = 64 * 1024
const MAX_LINE = 16 * 1024

const Payload = Schema.String.check(Schema.isMaxLength(MAX_PAYLOAD))
const Detail = Schema.String.check(Schema.isMaxLength(MAX_DETAIL))
const Line = Schema.String.check(Schema.isMaxLength(MAX_LINE))
const Name = Schema.String.check(Schema.isMaxLength(1024))

/** Number of a run of the process, which tells messages of an earlier run apart. */
const RunNumber = Schema.Int

const Failure = Schema.Struct({
  name: Name,
  message: Line,
  reason: Name,
  traceback: Schema.optionalKey(Schema.String.check(Schema.isMaxLength(MAX_DETAIL))),
  field: Schema.optionalKey(Line),
  cause: Schema.optionalKey(Schema.Struct({ name: Name, message: Line })),
  errors: Schema.optionalKey(Schema.Array(Schema.Struct({ name: Name, message: Line }))),
})

const Level = Schema.Literals(["debug", "info", "warn", "error"])

/** Messages from the worker to the process. */
const ProcessRequestSchema = Schema.Union([
  /** The first message: which actor to load. */
  Schema.Struct({
    kind: Schema.Literal("start"),
    module: Schema.String,
    actor: Schema.String,
    level: Schema.Literals(LOG_LEVELS),
  }),
  Schema.Struct({
    kind: Schema.Literal("run"),
    run: RunNumber,
    job: Schema.Struct({
      id: Schema.String,
      method: Schema.String,
      attempt: Schema.Int,
      run: Schema.Int,
      retries: Schema.Int,
      queue: Schema.String,
      /** Milliseconds since the epoch. */
      deadline: Schema.Finite,
      parentId: Schema.optionalKey(Schema.String),
      rootId: Schema.optionalKey(Schema.String),
      after: Schema.Array(Schema.String),
      /** Set where the job's steps are only reverted. */
      reverting: Schema.optionalKey(Schema.Literal(true)),
      /** Whether other tasks get its result. */
      handsOn: Schema.optionalKey(Schema.Literal(true)),
    }),
    /** Trace context of the attempt; absent where attempts are not traced. */
    trace: Schema.optionalKey(
      Schema.Struct({ traceparent: Schema.String, tracestate: Schema.optionalKey(Schema.String) }),
    ),
    /** `{input, headers, meta}`. */
    payload: Payload,
  }),
  /** Fires the handler's signal. `over`: the outcome is ignored, and an Effect is interrupted. */
  Schema.Struct({
    kind: Schema.Literal("abort"),
    run: RunNumber,
    reason: Schema.Struct({ name: Schema.String, message: Schema.String }),
    over: Schema.Boolean,
  }),
  Schema.Struct({
    kind: Schema.Literal("answer"),
    question: Schema.Int,
    value: Schema.optionalKey(Payload),
    refused: Schema.optionalKey(
      Schema.Struct({
        name: Schema.String,
        message: Schema.String,
        /** Code of a `CallboardError`; absent for other errors. */
        code: Schema.optionalKey(Schema.String),
        field: Schema.optionalKey(Schema.String),
        id: Schema.optionalKey(Schema.String),
      }),
    ),
  }),
  /** Release the actor's resources, then end. */
  Schema.Struct({ kind: Schema.Literal("stop") }),
])
export type ProcessRequest = typeof ProcessRequestSchema.Type

/** Messages from the process to the worker. */
const ProcessMessageSchema = Schema.Union([
  /** The actor has started, so handlers can run. */
  Schema.Struct({ kind: Schema.Literal("ready") }),
  /** The actor could not be loaded or started. */
  Schema.Struct({ kind: Schema.Literal("unfit"), error: Failure }),
  /** The handler is about to be called. */
  Schema.Struct({ kind: Schema.Literal("begun"), run: RunNumber }),
  Schema.Struct({
    kind: Schema.Literal("progress"),
    run: RunNumber,
    fraction: Schema.Finite,
    detail: Schema.optionalKey(Detail),
  }),
  /** The handler changes the job's meta data. */
  Schema.Struct({ kind: Schema.Literal("meta"), run: RunNumber, patch: Payload }),
  /** A log line. `run` is 0 for lines of the actor outside of a run. */
  Schema.Struct({
    kind: Schema.Literal("log"),
    run: RunNumber,
    level: Level,
    message: Line,
    fields: Schema.optionalKey(Detail),
  }),
  /** An event of the application. */
  Schema.Struct({ kind: Schema.Literal("event"), run: RunNumber, type: Name, fields: Detail }),
  /** A call that the worker makes for the handler, because the worker has the transport. It answers names that it does not know, too. */
  Schema.Struct({
    kind: Schema.Literal("ask"),
    run: RunNumber,
    question: Schema.Int,
    /** `job`: the handler's own job; `handle`: that of any job; `steps`: the port of the handler's steps. */
    object: Name,
    method: Name,
    /** A list. */
    args: Payload,
  }),
  Schema.Struct({ kind: Schema.Literal("succeeded"), run: RunNumber, value: Schema.optionalKey(Payload) }),
  Schema.Struct({
    kind: Schema.Literal("failed"),
    run: RunNumber,
    /**
     * How the handler ended: `failed` may be retried, `final` (input or result is invalid) may not; the others are the
     * outcomes that a handler requests by throwing.
     */
    how: Schema.Literals(["failed", "final", "retry", "reject", "ignore"]),
    error: Failure,
    /** Delay of a retry. */
    after: Schema.optionalKey(Schema.Union([Schema.Finite, Name])),
  }),
  /** A resource broke. The current run may end, but the next one needs a fresh process. */
  Schema.Struct({ kind: Schema.Literal("worn"), error: Failure }),
  /** The process has released its resources and ends, as requested. */
  Schema.Struct({ kind: Schema.Literal("stopped") }),
  /** An uncaught error, which ends the process. */
  Schema.Struct({ kind: Schema.Literal("fatal"), error: Failure }),
])
export type ProcessMessage = typeof ProcessMessageSchema.Type

const decodeRequest = Schema.decodeUnknownResult(ProcessRequestSchema)
const decodeMessage = Schema.decodeUnknownResult(ProcessMessageSchema)

/** Parses a message from the worker; `undefined` for anything else. */
export const parseProcessRequest = (message: unknown): ProcessRequest | undefined =>
  Result.getOrUndefined(decodeRequest(message))

/**
 * Parses a message from the process; `undefined` for anything else, for instance what a library of the actor sends to
 * any parent process.
 */
export const parseProcessMessage = (message: unknown): ProcessMessage | undefined =>
  Result.getOrUndefined(decodeMessage(message))

/** Cuts a text to the longest line that a message may have. */
export const cutLine = (text: string): string => cut(text, MAX_LINE)

/**
 * Sends a message over a channel that may have closed. That is no error here, because both sides notice the end of the
 * channel by themselves.
 */
export const sendOver = (
  send: (message: object, sent: (error: Error | null) => void) => unknown,
  message: ProcessRequest | ProcessMessage,
  then: () => void = () => undefined,
): void => {
  try {
    send(message, then)
  } catch {
    then()
  }
}
