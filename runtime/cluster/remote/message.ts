/** Messages of remote control, as JSON: a command on a topic of all workers, replies on a topic of the caller. */
import { Result, Schema } from "effect"

/**
 * Topics of commands, to which every worker listens: commands that only read have one of their own, so that a broker can
 * allow them to a user that may not control workers.
 */
export const COMMAND_TOPICS = { inspect: "inspect", control: "control" } as const

const CommandMessageSchema = Schema.Struct({
  command: Schema.String,
  arguments: Schema.Unknown,
  /** Names of the workers that must obey; absent: all. */
  workers: Schema.optionalKey(Schema.Array(Schema.String)),
  /** Topic of the replies. */
  reply: Schema.String.check(Schema.isPattern(/^[a-z0-9.-]{1,128}$/)),
})
export type CommandMessage = typeof CommandMessageSchema.Type

const ReplySchema = Schema.Struct({
  worker: Schema.String,
  /** Result of the command. */
  value: Schema.optionalKey(Schema.Unknown),
  /** Why the command was refused. */
  error: Schema.optionalKey(Schema.String),
})
/** The reply of a worker: a value, or the reason why there is none. */
export type Reply = typeof ReplySchema.Type

const encoder = new TextEncoder()
const decoder = new TextDecoder()
const decodeCommand = Schema.decodeUnknownResult(Schema.fromJsonString(CommandMessageSchema))
const decodeReply = Schema.decodeUnknownResult(Schema.fromJsonString(ReplySchema))

/** `undefined` where the bytes are no command, or one of a version that this one cannot read. */
export const commandOf = (payload: Uint8Array): CommandMessage | undefined =>
  Result.getOrUndefined(decodeCommand(decoder.decode(payload)))

/** `undefined` where the bytes are no reply. */
export const replyOf = (payload: Uint8Array): Reply | undefined =>
  Result.getOrUndefined(decodeReply(decoder.decode(payload)))

export const encode = (message: CommandMessage | Reply): Uint8Array => encoder.encode(JSON.stringify(message))
