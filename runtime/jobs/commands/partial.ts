/** Commands about many jobs that may be ended before they are done: how long they go on, and how far they came. */
import * as Schema from "effect/Schema"
import { AnySignal } from "../../options/check.ts"
import { type DurationInput, milliseconds } from "../../options/duration.ts"
import { duration } from "../../options/duration-field.ts"

/** When a command about many jobs ends that is not done. Without both it goes on until it is done. */
export interface Bounds {
  /** How long it goes on: seconds, or text such as `"10s"`. Each call gets somewhere, however short this is. */
  readonly budget?: DurationInput | undefined
  /** The command ends soon after this fires. */
  readonly signal?: AbortSignal | undefined
}

export const BOUNDS = {
  budget: Schema.optionalKey(duration()),
  signal: Schema.optionalKey(AnySignal),
} satisfies Record<keyof Bounds, Schema.Top>

/** Whether a command is to end, from now on: after its signal has fired, or once some is done and its budget is over. */
export const boundOf = ({ budget, signal }: Bounds): ((done: number) => boolean) => {
  const end = performance.now() + (budget === undefined ? Number.POSITIVE_INFINITY : milliseconds("budget", budget))
  return (done) => signal?.aborted === true || (done > 0 && performance.now() >= end)
}
