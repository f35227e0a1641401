/** Messages between the supervisor of a pool and its worker processes. Both sides check what they receive. */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"

/** From the supervisor: asks whether the worker is ready, and with `metrics` for its metrics. */
const QuestionSchema = Schema.Struct({
  question: Schema.Int,
  metrics: Schema.Boolean,
})
export type Question = typeof QuestionSchema.Type

/** From a worker process. Without `answers` it is the final report of a worker that has stopped. */
const ReportSchema = Schema.Struct({
  answers: Schema.optional(Schema.Int),
  /** Whether it takes tasks, and its transport can be reached. */
  isReady: Schema.Boolean,
  /** Whether handlers that do not stop hold all of its slots. */
  isStuck: Schema.optional(Schema.Boolean),
  /** Metrics as JSON text, which Bun and Deno transfer alike. Absent where not asked for, or where metrics are off. */
  metrics: Schema.optional(Schema.String),
})
export type Report = typeof ReportSchema.Type

const decodeQuestion = Schema.decodeUnknownResult(QuestionSchema)
const decodeReport = Schema.decodeUnknownResult(ReportSchema)

/** `undefined` for another message. */
export const parseQuestion = (message: unknown): Question | undefined => Result.getOrUndefined(decodeQuestion(message))

/** `undefined` for another message. */
export const parseReport = (message: unknown): Report | undefined => Result.getOrUndefined(decodeReport(message))
