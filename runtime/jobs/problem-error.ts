import { CallboardError } from "../errors.ts"
import { compact } from "../protocol/compact.ts"
import type { ItemProblem } from "./responses.ts"

/** The error that a problem in a response stands for. */
export const errorOf = ({ code, detail, field, index, id, outcome, scope }: ItemProblem): CallboardError =>
  new CallboardError(code, detail, compact({ field, index, id, outcome, scope }))
