/**
 * The filters in the address of a list. They have the names and values of the HTTP interface, and are passed on
 * unchanged.
 */

/** The filters that the page offers. The address may hold others, which the service accepts or refuses. */
export const FIELDS = [
  ["task", "Task", "mailer.send"],
  ["queue", "Queue", "default"],
  ["error", "Error (fingerprint)", "f3a91c07"],
  ["since", "Submitted since", "2026-01-31T08:00:00Z"],
  ["until", "Submitted before", "2026-01-31T09:00:00Z"],
  ["root", "First job of its workflow", ""],
  ["parent", "Submitted by the job", ""],
  ["group", "Group", ""],
] as const

const NAMES: Readonly<Record<string, string>> = { idEnds: "id ends in" }

/** The label of a filter. */
export const filterName = (name: string): string => NAMES[name] ?? name

/** Names in the query that are not filters: where the list goes on, and what the page itself sets in its requests. */
const PLACE = ["cursor", "limit", "budget", "count"]

/** The filters of a query. Of two with one name the last counts, and an empty one is left out. */
export const filtersOf = (query: URLSearchParams): Readonly<Record<string, string>> =>
  Object.fromEntries([...query].filter(([name, value]) => !PLACE.includes(name) && value !== ""))

/** The states of the listed jobs; none stands for all. */
export const statesOf = (filters: Readonly<Record<string, string>>): ReadonlyArray<string> =>
  (filters["state"] ?? "").split(",").filter((state) => state !== "")

/** A key for a list: the same for two queries with the same filters in another order. */
export const listKey = (query: URLSearchParams): string =>
  JSON.stringify(
    [...Object.entries(filtersOf(query)), ["cursor", query.get("cursor") ?? ""]].sort(([a = ""], [b = ""]) =>
      a < b ? -1 : 1,
    ),
  )
