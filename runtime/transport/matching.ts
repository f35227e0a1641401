/** Whether a job is what a query asks for: for drivers that look at each by themselves. */
import type { Index } from "./known.ts"
import type { Query } from "./optional.ts"

const FIELDS = ["queue", "root", "parent", "group"] as const

/** What was scheduled may be due by now: that is for the reader to say. */
const waits = (state: Index["state"]): boolean => state === "queued" || state === "scheduled"

export const matches = (index: Index, query: Omit<Query, "limit">): boolean => {
  const { states, dead, task, since = 0, until = Number.POSITIVE_INFINITY } = query
  const isIn = states === undefined || states.includes(index.state) || (waits(index.state) && states.some(waits))
  const isOfTask = task === undefined || index.task === task || `${index.task}.${index.method ?? ""}` === task
  const isThen = index.at >= since && index.at < until
  if (index.hidden || (dead && !index.dead) || !isIn || !isOfTask || !isThen) return false
  return FIELDS.every((field) => query[field] === undefined || query[field] === index[field])
}
