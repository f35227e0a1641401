/** What travels between a caller and the workers: a question on one topic, answers on a topic of their own. JSON. */
import { Result, Schema } from "effect"

/** Topic on which workers hear of commands. */
export const CONTROL_TOPIC = "control"

const QuestionSchema = Schema.Struct({
  command: Schema.String,
  arguments: Schema.Unknown,
  /** Names of the workers that are meant; absent: all. */
  workers: Schema.optionalKey(Schema.Array(Schema.String)),
  /** Topic of the answers. */
  reply: Schema.String.check(Schema.isPattern(/^[a-z0-9.-]{1,128}$/)),
})
export type Question = typeof QuestionSchema.Type

const AnswerSchema = Schema.Struct({
  worker: Schema.String,
  /** What the command came to. */
  value: Schema.optionalKey(Schema.Unknown),
  /** Why it was refused. */
  error: Schema.optionalKey(Schema.String),
})
/** A worker's answer: a value, or why there is none. */
export type Answer = typeof AnswerSchema.Type

const encoder = new TextEncoder()
const decoder = new TextDecoder()
const decodeQuestion = Schema.decodeUnknownResult(Schema.fromJsonString(QuestionSchema))
const decodeAnswer = Schema.decodeUnknownResult(Schema.fromJsonString(AnswerSchema))

/** `undefined` for what is no question, or one of a version that this one does not understand. */
export const questionOf = (payload: Uint8Array): Question | undefined =>
  Result.getOrUndefined(decodeQuestion(decoder.decode(payload)))

export const answerOf = (payload: Uint8Array): Answer | undefined =>
  Result.getOrUndefined(decodeAnswer(decoder.decode(payload)))

export const encode = (message: Question | Answer): Uint8Array => encoder.encode(JSON.stringify(message))
