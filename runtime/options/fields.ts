/** Schemas that several fields of a submission share. */
import * as Schema from "effect/Schema"

/** Id of a job that is submitted here. A task of another sender may have any text of up to 255 bytes as its id. */
export const JobId = Schema.String.check(
  Schema.isPattern(/^[A-Za-z0-9_-]{1,128}$/u, {
    description: "1 to 128 letters, digits, `_` or `-`",
    message: "must be 1 to 128 letters, digits, `_` or `-`",
  }),
)

export const Name = Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(255))
/** Whether {@link Name} accepts a value. */
export const isName = (value: unknown): value is string =>
  typeof value === "string" && value.length >= 1 && value.length <= 255

export const Text = (max: number) => Schema.String.check(Schema.isMaxLength(max))
export const Json = Schema.Record(Schema.String, Schema.Unknown)
