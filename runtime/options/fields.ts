/** Values that several fields of a submission take. */
import { Schema } from "effect"

/** Our own ids. Ids from a foreign wire may be any text up to 255 bytes. */
export const JobId = Schema.String.check(
  Schema.isPattern(/^[A-Za-z0-9_-]{1,128}$/u, { description: "1 to 128 letters, digits, `_` or `-`" }),
)

export const Name = Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(255))
export const Text = (max: number) => Schema.String.check(Schema.isMaxLength(max))
export const Json = Schema.Record(Schema.String, Schema.Unknown)
