/** Records of many jobs, a few round trips at a time. */
import type { Found, Records } from "../transport.ts"

const AT_A_TIME = 64

/** By id; what is not there is missing. */
export const findAll = async (records: Records, ids: Iterable<string>): Promise<Map<string, Found>> => {
  const found = new Map<string, Found>()
  const all = [...new Set(ids)]
  for (let from = 0; from < all.length; from += AT_A_TIME) {
    const some = all.slice(from, from + AT_A_TIME)
    const there = await Promise.all(some.map((id) => records.find(id)))
    for (const [at, each] of there.entries()) if (each !== undefined) found.set(some[at] ?? each.record.id, each)
  }
  return found
}
