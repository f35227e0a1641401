/** The filters of a list as they stand in its address: named as the HTTP interface names them, and passed on as they are. */

/** What the page offers; the address may hold others, and the service says what it thinks of them. */
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

/** How a filter is called on its chip. */
export const filterName = (name: string): string => NAMES[name] ?? name

/** What the address says besides filters. */
const PLACE = ["cursor"]

/** The filters of an address: each once, the last one where it stands there twice; what is empty is none. */
export const filtersOf = (query: URLSearchParams): Readonly<Record<string, string>> =>
  Object.fromEntries([...query].filter(([name, value]) => !PLACE.includes(name) && value !== ""))

/** The states that a list is of; empty: all. */
export const statesOf = (filters: Readonly<Record<string, string>>): ReadonlyArray<string> =>
  (filters["state"] ?? "").split(",").filter((state) => state !== "")

/** Names a list: two addresses with the same filters in another order show the same. */
export const listKey = (query: URLSearchParams): string =>
  JSON.stringify(
    [...Object.entries(filtersOf(query)), ["cursor", query.get("cursor") ?? ""]].sort(([a = ""], [b = ""]) =>
      a < b ? -1 : 1,
    ),
  )
