/** What a pool of workers and its processes say to each other, beside that one of them is ready. Both sides check it. */
import { Result, Schema } from "effect"

/** To a process: how it is. `metrics`: and what it has counted. */
const QuestionSchema = Schema.Struct({
  question: Schema.Int,
  metrics: Schema.Boolean,
})
export type Question = typeof QuestionSchema.Type

/** From a process. Without a question: the last that it says, when it has stopped. */
const ReportSchema = Schema.Struct({
  answers: Schema.optional(Schema.Int),
  /** Whether it consumes, and its transport is within reach. */
  isReady: Schema.Boolean,
  /** What it has counted: JSON, so that no runtime's idea of a message comes between. Absent where that was not asked, or metrics are off. */
  metrics: Schema.optional(Schema.String),
})
export type Report = typeof ReportSchema.Type

const decodeQuestion = Schema.decodeUnknownResult(QuestionSchema)
const decodeReport = Schema.decodeUnknownResult(ReportSchema)

/** `undefined` for what is none. */
export const questionOf = (message: unknown): Question | undefined => Result.getOrUndefined(decodeQuestion(message))

/** `undefined` for what is none. */
export const reportOf = (message: unknown): Report | undefined => Result.getOrUndefined(decodeReport(message))
