/** Ids of selected jobs in parts that one request can name, and what is planned for all of them. */
import type { BulkPlan } from "../jobs/lists.ts"

/** Most jobs per call. */
export const MAX_IDS = 100

/** Most characters of the ids in one address, as they are written there: proxies take addresses of 8 kB. */
const MAX_TEXT = 6_000

/** Whether the service reads this id out of a list of ids as it is. */
export const isNamable = (id: string): boolean => !id.includes(",") && id.trim() === id

/** Ids in the order of their jobs, in parts that one address can name. An id that no list can name is a part of its own. */
export const partsOf = (ids: ReadonlyArray<string>, max = MAX_IDS): ReadonlyArray<ReadonlyArray<string>> => {
  const parts: Array<Array<string>> = []
  let left = 0
  for (const id of ids) {
    const size = encodeURIComponent(id).length + "%2C".length
    const part = parts.at(-1)
    if (part === undefined || part.length >= max || size > left || !isNamable(id)) {
      parts.push([id])
      left = isNamable(id) ? MAX_TEXT - size : 0
    } else {
      part.push(id)
      left -= size
    }
  }
  return parts
}

type Counts = Readonly<Record<string, number>>

const added = (one: Counts, other: Counts): Counts => {
  const sums: Record<string, number> = { ...one }
  for (const [name, count] of Object.entries(other)) sums[name] = (sums[name] ?? 0) + count
  return sums
}

const NOTHING: BulkPlan = {
  matches: { value: 0, relation: "eq" },
  will: 0,
  refused: {},
  changed: 0,
  by: { task: {}, queue: {} },
  warnings: [],
  sample: [],
  until: "",
}

/** The plans for parts of a selection as one. */
export const mergedPlans = (plans: ReadonlyArray<BulkPlan>): BulkPlan =>
  plans.reduce(
    (one, other) => ({
      matches: { value: one.matches.value + other.matches.value, relation: "eq" },
      will: one.will + other.will,
      refused: added(one.refused, other.refused),
      changed: one.changed + other.changed,
      by: { task: added(one.by.task, other.by.task), queue: added(one.by.queue, other.by.queue) },
      warnings: [
        ...one.warnings,
        ...other.warnings.filter(({ text }) => one.warnings.every((warning) => warning.text !== text)),
      ],
      sample: [...one.sample, ...other.sample].slice(0, 5),
      until: other.until,
    }),
    NOTHING,
  )
