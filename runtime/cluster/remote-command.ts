/**
 * Remote control: the commands that workers obey, as data, the messages that carry them, and the answers. The list of
 * commands checks what callers send, and makes the command line and the HTTP routes.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Struct from "effect/Struct"
import { CallboardError } from "../errors.ts"
import { MAX_HANDLERS } from "../options/autoscale.ts"
import { decoderOf } from "../options/check.ts"
import { timeLimitOf } from "../options/duration.ts"
import { Duration } from "../options/duration-field.ts"
import { named, whole } from "../options/fields.ts"
import { parseRate } from "../options/limit.ts"
import { resultOf } from "../options/refusal.ts"
import { refuseInput, unknownOption } from "../options/refuse.ts"
import { isMap } from "../protocol/guards.ts"
import { checkQueueName } from "../protocol/name.ts"
import { didYouMean } from "../protocol/suggest.ts"
import { decoder, encoder } from "../protocol/text.ts"
import type { WorkerDescription } from "./directory.ts"
import type { Postponement } from "./postponements.ts"

const Count = whole({ min: 1, max: MAX_HANDLERS })
const JobId = named("must be a job id")
const Queue = named("must be a queue name").annotate({ description: "Name of the queue" })
const Task = named("must be a method name, such as math.add").annotate({
  description: "Name of the method, such as `math.add`",
})
const RATE_RULE = 'must be a rate, such as "10/m", "100/s" or 5 per second, or "none"'
const Rate = Schema.Union([Schema.Finite, named(RATE_RULE)]).annotate({
  message: RATE_RULE,
  description: "Starts per second as a number, or text such as `10/m`; `none` or 0 removes the limit",
})
const handlers = (description: string) => Count.annotate({ description })
const limit = (which: string) => Duration.annotate({ description: `${which}: seconds, or text such as \`5 minutes\`` })

const commandSchema = <const Command extends string, const Fields extends Schema.Struct.Fields>(
  command: Command,
  fields: Fields,
) => Schema.Struct({ command: Schema.Literal(command), arguments: Schema.Struct(fields) })

const CommandSchema = Schema.Union([
  commandSchema("ping", {}),
  commandSchema("active", {}),
  commandSchema("reserved", {}),
  commandSchema("put-off", { id: Schema.optionalKey(JobId) }),
  commandSchema("stats", {}),
  commandSchema("registered", {}),
  commandSchema("queues", {}),
  commandSchema("pool-grow", { count: handlers("Number of handlers to add") }),
  commandSchema("pool-shrink", { count: handlers("Number of handlers to remove") }),
  commandSchema("autoscale", {
    min: handlers("Minimum number of handlers"),
    max: handlers("Maximum number of handlers"),
  }),
  commandSchema("add-consumer", { queue: Queue }),
  commandSchema("cancel-consumer", { queue: Queue }),
  commandSchema("time-limit", {
    task: Task,
    hard: limit("Hard limit"),
    soft: Schema.optionalKey(limit("Soft limit")),
  }),
  commandSchema("rate-limit", { task: Task, rate: Rate }),
  commandSchema("enable-events", {}),
  commandSchema("disable-events", {}),
  commandSchema("shutdown", {}),
])

/** A command with its arguments. */
export type Command = typeof CommandSchema.Type
export type CommandName = Command["command"]

interface CommandInfo {
  /** `inspect` only reads, `control` changes the worker. */
  readonly kind: "inspect" | "control"
  readonly summary: string
}

export const COMMANDS: Readonly<Record<CommandName, CommandInfo>> = {
  ping: { kind: "inspect", summary: "Check which workers respond" },
  active: { kind: "inspect", summary: "Running jobs" },
  reserved: { kind: "inspect", summary: "Tasks that wait in workers for a free handler" },
  "put-off": { kind: "inspect", summary: "Tasks that could not run yet, with the reason" },
  stats: { kind: "inspect", summary: "Counts and memory use of workers" },
  registered: { kind: "inspect", summary: "Actors and methods that workers serve" },
  queues: { kind: "inspect", summary: "Queues that workers consume" },
  "pool-grow": { kind: "control", summary: "Add handlers" },
  "pool-shrink": { kind: "control", summary: "Remove handlers; running jobs continue" },
  autoscale: { kind: "control", summary: "Adjust the number of handlers to the load" },
  "add-consumer": { kind: "control", summary: "Consume another queue" },
  "cancel-consumer": { kind: "control", summary: "Stop consuming a queue" },
  "time-limit": {
    kind: "control",
    summary: "Set the time limits of a method's next runs",
  },
  "rate-limit": {
    kind: "control",
    summary: "Limit starts of a method per worker: `10/m`",
  },
  "enable-events": { kind: "control", summary: "Send events about tasks" },
  "disable-events": { kind: "control", summary: "Stop sending events about tasks" },
  shutdown: { kind: "control", summary: "Shut down gracefully" },
}

/** The arguments of a command. */
export const argumentsOf = (name: CommandName): Schema.Struct<Readonly<Record<string, Schema.Codec<unknown>>>> => {
  const found = CommandSchema.members.find(({ fields }) => fields.command.literal === name)
  return found?.fields.arguments ?? Schema.Struct({})
}

/** Names of the arguments of a command, in the order of the command line. */
export const takesOf = (name: CommandName): ReadonlyArray<string> => Object.keys(argumentsOf(name).fields)

export const COMMAND_NAMES: ReadonlyArray<CommandName> = Struct.keys(COMMANDS)

export const isCommand = (name: string): name is CommandName => Object.hasOwn(COMMANDS, name)

const commandOfParts = Schema.decodeUnknownSync(CommandSchema)

const invalid = (field: string, why: string): Result.Result<never, CallboardError> =>
  Result.fail(new CallboardError("invalid-input", `${field}: ${why}`, { field }))

/** Whether the argument removes the rate. Celery writes 0 for no limit. */
export const isNoRate = (rate: number | string): boolean => rate === "none" || rate === 0 || rate === "0"

/** Throws where arguments have the right types, but wrong values: min above max, no name of a queue, no rate. */
const checkArguments = (command: Command): Command => {
  switch (command.command) {
    case "autoscale": {
      const { min, max } = command.arguments
      if (min > max) refuseInput("min", `must not be greater than max; did you mean min ${max} and max ${min}?`)
      break
    }
    case "add-consumer": {
      const queue = checkQueueName(command.arguments.queue)
      if (Result.isFailure(queue)) refuseInput("queue", queue.failure.message)
      break
    }
    case "rate-limit": {
      const { rate } = command.arguments
      const parsed = isNoRate(rate) ? undefined : parseRate(rate)
      if (parsed !== undefined && Result.isFailure(parsed)) refuseInput("rate", parsed.failure)
      break
    }
    case "time-limit":
      timeLimitOf(command.arguments, "")
      break
  }
  return command
}

/**
 * Checks a command and its arguments. Fails with `invalid-input` or `unknown-field`, which names `command` or the argument
 * and says what it must be.
 */
export const parseCommand = (name: string, given: unknown): Result.Result<Command, CallboardError> => {
  if (!isCommand(name)) {
    const message = `${JSON.stringify(name)} is not a command${didYouMean(String(name), Object.keys(COMMANDS))}`
    return Result.fail(new CallboardError("invalid-input", message, { field: "command" }))
  }
  const takes = takesOf(name)
  const wanted = takes.length === 0 ? "no arguments" : `an object with ${takes.join(", ")}`
  if (!isMap(given)) return invalid("arguments", `${name} takes ${wanted}`)
  // Effect's empty struct accepts any object, so unknown arguments are looked for here.
  const unknown = Object.keys(given).find((key) => !takes.includes(key) && given[key] !== undefined)
  if (unknown !== undefined) return Result.fail(unknownOption(unknown, takes, name))
  return Result.flatMap(decoderOf(argumentsOf(name), name, "arguments")(given), (args) =>
    resultOf(() => checkArguments(commandOfParts({ command: name, arguments: args }))),
  )
}

/**
 * Topics of commands, to which every worker listens: commands that only read have one of their own, so that a broker can
 * allow them to a user that may not control workers.
 */
export const COMMAND_TOPICS = { inspect: "inspect", control: "control" } as const

/** As JSON, on the topic of all workers. */
const CommandMessageSchema = Schema.Struct({
  command: Schema.String,
  arguments: Schema.Unknown,
  /** Names of the workers that must obey; absent: all. */
  workers: Schema.optionalKey(Schema.Array(Schema.String)),
  /** Topic of the replies. None but such a topic: the caller may not be allowed to send to the others, and the worker is. */
  reply: Schema.String.check(Schema.isPattern(/^reply\.[a-z0-9.-]{1,122}$/)),
})
type CommandMessage = typeof CommandMessageSchema.Type

/** As JSON, on a topic of the caller. */
const ReplySchema = Schema.Struct({
  worker: Schema.String,
  /** Result of the command. */
  value: Schema.optionalKey(Schema.Unknown),
  /** Why the command was refused. */
  error: Schema.optionalKey(Schema.String),
})
/** The reply of a worker: a value, or the reason why there is none. */
export type Reply = typeof ReplySchema.Type

const decodeCommand = Schema.decodeUnknownResult(Schema.fromJsonString(CommandMessageSchema))
const decodeReply = Schema.decodeUnknownResult(Schema.fromJsonString(ReplySchema))

/** `undefined` where the bytes are no command, or one of a version that this one cannot read. */
export const commandOf = (payload: Uint8Array): CommandMessage | undefined =>
  Result.getOrUndefined(decodeCommand(decoder.decode(payload)))

/** `undefined` where the bytes are no reply. */
export const replyOf = (payload: Uint8Array): Reply | undefined =>
  Result.getOrUndefined(decodeReply(decoder.decode(payload)))

export const encode = (message: CommandMessage | Reply): Uint8Array => encoder.encode(JSON.stringify(message))

/** A job whose handler runs now. */
interface ActiveTask {
  readonly id: string
  /** Task and method, or the name for people that the submitter has set instead. */
  readonly name: string
  readonly queue: string
  readonly attempt: number
  /** ISO 8601. */
  readonly startedAt: string
}

/** The value of a reply, by command: one type for the worker that builds it and the caller that reads it. */
export interface Answers {
  readonly ping: "pong"
  readonly active: ReadonlyArray<ActiveTask>
  readonly reserved: ReadonlyArray<Pick<ActiveTask, "id" | "name" | "queue">>
  readonly "put-off": ReadonlyArray<Omit<Postponement, "waits">>
  readonly stats: WorkerDescription & {
    readonly uptimeSeconds: number
    /** In bytes. */
    readonly memory: { readonly rss: number; readonly heapTotal: number; readonly heapUsed: number }
  }
  readonly registered: ReadonlyArray<{ readonly name: string; readonly methods: ReadonlyArray<string> }>
  /** Queues that the worker pulls from, in order of preference. */
  readonly queues: ReadonlyArray<string>
  readonly "pool-grow": { readonly concurrency: number }
  readonly "pool-shrink": { readonly concurrency: number }
  readonly autoscale: { readonly min: number; readonly max: number }
  /** Queues that the worker pulls from after the command. */
  readonly "add-consumer": ReadonlyArray<string>
  readonly "cancel-consumer": ReadonlyArray<string>
  readonly "time-limit": {
    readonly task: string
    readonly hard: number | string
    readonly soft: number | string | null
  }
  readonly "rate-limit": { readonly task: string; readonly rate: number | string }
  readonly "enable-events": string
  readonly "disable-events": string
  readonly shutdown: "stopping"
}

/** The arguments of a command. */
export type ArgumentsOf<C extends CommandName> = Extract<Command, { readonly command: C }>["arguments"]

/** The reply of one worker to a command: a value, or in `error` the reason why there is none. */
export interface AnswerTo<C extends CommandName> {
  readonly worker: string
  readonly value?: Answers[C]
  readonly error?: string
}
