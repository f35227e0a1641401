/** What a settlement came to, in a word. */
import type { AttemptEnd } from "../../transport/lift/transport.ts"
import type { Held } from "./delivery.ts"

/** `retried`, `repeated` and `forwarded`: the job goes on in a task of its own; the others are ends. */
export const OUTCOMES = ["succeeded", "failed", "retried", "repeated", "cancelled", "expired", "forwarded"] as const

export type SettledAs = (typeof OUTCOMES)[number]

const GOES_ON: Readonly<Record<string, SettledAs>> = { retry: "retried", repeat: "repeated", forwarded: "forwarded" }

/** `undefined` where somebody else had decided already: the task was only taken off the queue. */
export const settledAs = ({ run }: Held, { record }: AttemptEnd): SettledAs | undefined => {
  // Who cancelled it has stored that; its run ended for it here.
  if (record === undefined) return run?.stop === "cancelled" ? "cancelled" : undefined
  switch (record.state) {
    case "succeeded":
    case "failed":
    case "cancelled":
    case "expired":
      return record.state
    default:
      return GOES_ON[record.timeline.at(-1)?.reason ?? ""]
  }
}
