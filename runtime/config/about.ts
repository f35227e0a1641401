/** How a setting is described: what there is to be known about it, and the kinds of values. */
import { Result, Schema } from "effect"
import { checkQueueName } from "../protocol/name.ts"

/** What is to be known about a setting besides its type. */
export interface About {
  /** One sentence, without the default. */
  readonly description: string
  readonly unit?: string
  /** The default in words. */
  readonly default: string
  /** What the default comes to on this machine, where the words do not say it. */
  readonly here?: () => string
  /** How text, from a flag or a variable, becomes a value. `none`: it can be given in the file alone. */
  readonly read: "text" | "number" | "switch" | "duration" | "list" | "pairs" | "tokens" | "none"
  /** Flag of the commands that start something, as commander writes it. */
  readonly flag?: string
  /** What giving the flag does, where it is of the form `--no-…` and so the opposite of the setting. */
  readonly negation?: string
  /** Never printed. */
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

/** Of a worker: it travels in commands and stands in lists. */
export const WorkerName = Schema.String.check(
  Schema.makeFilter((name: string) => (name.length >= 1 && name.length <= 255) || "must have 1 to 255 characters"),
)

export const QueueName = Schema.String.check(
  Schema.makeFilter((name: string) => {
    const checked = checkQueueName(name)
    return Result.isSuccess(checked) || checked.failure.message
  }),
)

/** A default in words. */
export const yesNo = (value: boolean): string => (value ? "yes" : "no")
