/** Descriptions of settings, and schemas that several settings share. */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { checkQueueName } from "../protocol/name.ts"

/** Description of a setting: the command line, the help and the documentation are made of it. */
export interface About {
  /** One sentence, without the default. */
  readonly description: string
  readonly unit?: string
  /** The default in words. */
  readonly default: string
  /** The actual default on this machine, where the words leave it open. */
  readonly here?: () => string
  /** How the text of a flag or a variable becomes a value. `none`: the setting can be given in the file only. */
  readonly read: "text" | "number" | "switch" | "duration" | "list" | "pairs" | "tokens" | "none"
  /** Flag of `worker`, `serve`, `dev` and other commands that use the setting, in the form of commander. */
  readonly flag?: string
  /** What the flag does, where it has the form `--no-…` and thus turns the setting off. */
  readonly negation?: string
  /** The value is never printed. */
  readonly secret?: true
}

declare module "effect/Schema" {
  namespace Annotations {
    interface Annotations {
      readonly "callboard/setting"?: About | undefined
    }
  }
}

export const about = (description: string, rest: Omit<About, "description">) => ({
  description,
  "callboard/setting": { description, ...rest },
})

export const Text = Schema.String.check(Schema.isMinLength(1))

/** Name of a worker. */
export const WorkerName = Schema.String.check(
  Schema.makeFilter((name: string) => (name.length >= 1 && name.length <= 255) || "must have 1 to 255 characters"),
)

/** The application's own version. */
export const Version = Schema.String.check(
  Schema.makeFilter((text: string) => (text.length >= 1 && text.length <= 100) || "must have 1 to 100 characters"),
)

export const QueueName = Schema.String.check(
  Schema.makeFilter((name: string) => {
    const checked = checkQueueName(name)
    return Result.isSuccess(checked) || checked.failure.message
  }),
)

/** A boolean default in words. */
export const yesNo = (value: boolean): string => (value ? "yes" : "no")
