/** Which events somebody wants: by type, or by the beginning of one. */
import { Schema } from "effect"

/** `task-failed`, `worker-*`, `*`. */
export const TypePattern = Schema.String.check(Schema.isPattern(/^(?=.)[A-Za-z0-9_-]{0,100}\*?$/))

export const TypePatterns = Schema.Array(TypePattern).check(Schema.isMinLength(1), Schema.isMaxLength(50))

/** Whether a type is one of those that were asked for; without patterns every type is. */
export const typeFilter = (patterns: ReadonlyArray<string> | undefined): ((type: string) => boolean) => {
  if (patterns === undefined) return () => true
  const exact = new Set(patterns.filter((pattern) => !pattern.endsWith("*")))
  const beginnings = patterns.filter((pattern) => pattern.endsWith("*")).map((pattern) => pattern.slice(0, -1))
  return (type) => exact.has(type) || beginnings.some((beginning) => type.startsWith(beginning))
}
