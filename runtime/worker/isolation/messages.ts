/**
 * What a worker and the processes of its isolated handlers say to each other. Values of unknown shape (input, result,
 * progress detail …) travel as JSON text inside a message, so that their size is known before they are parsed; both sides
 * check every message.
 */
import { Result, Schema } from "effect"
import { LOG_LEVELS } from "../../log/log.ts"

/** Longest input or result, in characters. Far beyond what a transport takes: it only bounds what is parsed. */
export const MAX_PAYLOAD = 64 * 1024 * 1024
/** Longest progress detail or fields of a log line, in characters. */
export const MAX_DETAIL = 64 * 1024
const MAX_LINE = 16 * 1024

const Payload = Schema.String.check(Schema.isMaxLength(MAX_PAYLOAD))
const Detail = Schema.String.check(Schema.isMaxLength(MAX_DETAIL))
const Line = Schema.String.check(Schema.isMaxLength(MAX_LINE))
const Name = Schema.String.check(Schema.isMaxLength(1024))

/** Counts the runs of a process: news of an earlier one are told apart by it. */
const Run = Schema.Int

const Failure = Schema.Struct({
  name: Name,
  message: Line,
  reason: Name,
  traceback: Schema.optionalKey(Schema.String.check(Schema.isMaxLength(MAX_DETAIL))),
  field: Schema.optionalKey(Line),
  cause: Schema.optionalKey(Schema.Struct({ name: Name, message: Line })),
})

const Level = Schema.Literals(["debug", "info", "warn", "error"])

/** What a handler can have done by the worker, which has the transport. */
export const WORKER_CALLS = ["submit", "parent", "find", "outcome", "cancel", "retry", "delete"] as const

/** From the worker to the process. */
const ProcessRequestSchema = Schema.Union([
  /** The first: which actor to load. */
  Schema.Struct({
    kind: Schema.Literal("start"),
    module: Schema.String,
    actor: Schema.String,
    level: Schema.Literals(LOG_LEVELS),
  }),
  Schema.Struct({
    kind: Schema.Literal("run"),
    run: Run,
    method: Schema.String,
    job: Schema.Struct({
      id: Schema.String,
      attempt: Schema.Int,
      run: Schema.Int,
      retries: Schema.Int,
      queue: Schema.String,
      /** Milliseconds since the epoch. */
      deadline: Schema.Finite,
      parentId: Schema.optionalKey(Schema.String),
      rootId: Schema.optionalKey(Schema.String),
      after: Schema.optionalKey(Schema.Array(Schema.String)),
    }),
    /** The span of the attempt, where it is traced. */
    trace: Schema.optionalKey(
      Schema.Struct({ traceparent: Schema.String, tracestate: Schema.optionalKey(Schema.String) }),
    ),
    /** `{input, headers, meta}`. */
    payload: Payload,
  }),
  /** The handler's signal fires; `over`: whatever comes of it counts for nothing, an Effect is interrupted. */
  Schema.Struct({
    kind: Schema.Literal("abort"),
    run: Run,
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
        /** Of a `CallboardError`. */
        code: Schema.optionalKey(Schema.String),
        field: Schema.optionalKey(Schema.String),
        id: Schema.optionalKey(Schema.String),
      }),
    ),
  }),
  /** End in good order: release the actor's resources first. */
  Schema.Struct({ kind: Schema.Literal("stop") }),
])
export type ProcessRequest = typeof ProcessRequestSchema.Type

/** From the process to the worker. */
const ProcessMessageSchema = Schema.Union([
  /** The actor has started: handlers can run. */
  Schema.Struct({ kind: Schema.Literal("ready") }),
  /** The actor could not be loaded or started. */
  Schema.Struct({ kind: Schema.Literal("unfit"), error: Failure }),
  /** The handler is about to be called. */
  Schema.Struct({ kind: Schema.Literal("begun"), run: Run }),
  Schema.Struct({
    kind: Schema.Literal("progress"),
    run: Run,
    fraction: Schema.Finite,
    detail: Schema.optionalKey(Detail),
  }),
  /** `run` is 0 for what the actor says outside of a run. */
  Schema.Struct({
    kind: Schema.Literal("log"),
    run: Run,
    level: Level,
    message: Line,
    fields: Schema.optionalKey(Detail),
  }),
  /** An event of the application. */
  Schema.Struct({ kind: Schema.Literal("event"), run: Run, type: Name, fields: Detail }),
  Schema.Struct({
    kind: Schema.Literal("ask"),
    run: Run,
    question: Schema.Int,
    what: Schema.Literals(WORKER_CALLS),
    /** Id of a job; for `submit` the task's name. */
    about: Name,
    /** Fields of the submission, or options of the call. */
    fields: Schema.optionalKey(Payload),
  }),
  Schema.Struct({ kind: Schema.Literal("succeeded"), run: Run, value: Schema.optionalKey(Payload) }),
  Schema.Struct({
    kind: Schema.Literal("failed"),
    run: Run,
    /** What the handler asked for by its error; `final`: input or result is wrong. */
    how: Schema.Literals(["failed", "final", "retry", "reject", "ignore"]),
    error: Failure,
    /** Delay of a retry. */
    after: Schema.optionalKey(Schema.Union([Schema.Finite, Name])),
  }),
  /** A resource broke: this run may end, the next one needs a fresh process. */
  Schema.Struct({ kind: Schema.Literal("worn"), error: Failure }),
  /** It ends in good order, as it was told to. */
  Schema.Struct({ kind: Schema.Literal("stopped") }),
  /** An error that nothing caught: the process ends for it. */
  Schema.Struct({ kind: Schema.Literal("fatal"), error: Failure }),
])
export type ProcessMessage = typeof ProcessMessageSchema.Type

const decodeRequest = Schema.decodeUnknownResult(ProcessRequestSchema)
const decodeMessage = Schema.decodeUnknownResult(ProcessMessageSchema)

/** An order in a message; `undefined` for anything else. */
export const parseProcessRequest = (message: unknown): ProcessRequest | undefined =>
  Result.getOrUndefined(decodeRequest(message))

/** News in a message; `undefined` for anything else, for instance what a library of the actor sends to any parent. */
export const parseProcessMessage = (message: unknown): ProcessMessage | undefined =>
  Result.getOrUndefined(decodeMessage(message))

/** Text that fits a line of news. */
export const cutLine = (text: string): string => (text.length <= MAX_LINE ? text : `${text.slice(0, MAX_LINE - 1)}…`)

/** Sends a message over a channel that may have closed meanwhile; whoever cares hears of that by the channel's end. */
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
