import { ofJsonForm } from "../../protocol/codec/json.ts"
import type { Outcome } from "./outcome.ts"

/** The outcome with the result as the handler returned it, for code. */
export const outcomeInCode = (outcome: Outcome): Outcome =>
  outcome.state === "succeeded" ? { state: "succeeded", result: ofJsonForm(outcome.result) } : outcome
