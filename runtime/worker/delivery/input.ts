import type { Result } from "effect"
import type { Embed } from "../../protocol/body.ts"
import type { JobError } from "../../protocol/record.ts"

/** Input and follow-ups of a task, or why it has none. */
export type InputRead = Result.Result<{ readonly embed: Embed; readonly input: unknown }, BadInput>

/** A task that is given up for what is in its body. */
export interface BadInput {
  readonly error: JobError
  /** What follows its failure. */
  readonly embed: Embed
  /** Why it is a dead letter, where it is one. */
  readonly dead?: string
}
