/** What travels between a caller and the workers: a question on one topic, answers on a topic of their own. JSON. */
import { Result, Schema } from "effect"

/** Topic on which workers hear of commands. */
export const CONTROL_TOPIC = "control"

const CommandMessageSchema = Schema.Struct({
  command: Schema.String,
  arguments: Schema.Unknown,
  /** Names of the workers that are meant; absent: all. */
  workers: Schema.optionalKey(Schema.Array(Schema.String)),
  /** Topic of the answers. */
  reply: Schema.String.check(Schema.isPattern(/^[a-z0-9.-]{1,128}$/)),
})
export type CommandMessage = typeof CommandMessageSchema.Type

const ReplySchema = Schema.Struct({
  worker: Schema.String,
  /** What the command came to. */
  value: Schema.optionalKey(Schema.Unknown),
  /** Why it was refused. */
  error: Schema.optionalKey(Schema.String),
})
/** A worker's answer: a value, or why there is none. */
export type Reply = typeof ReplySchema.Type

const encoder = new TextEncoder()
const decoder = new TextDecoder()
const decodeCommand = Schema.decodeUnknownResult(Schema.fromJsonString(CommandMessageSchema))
const decodeReply = Schema.decodeUnknownResult(Schema.fromJsonString(ReplySchema))

/** `undefined` for what is no question, or one of a version that this one does not understand. */
export const commandOf = (payload: Uint8Array): CommandMessage | undefined =>
  Result.getOrUndefined(decodeCommand(decoder.decode(payload)))

export const replyOf = (payload: Uint8Array): Reply | undefined =>
  Result.getOrUndefined(decodeReply(decoder.decode(payload)))

export const encode = (message: CommandMessage | Reply): Uint8Array => encoder.encode(JSON.stringify(message))
