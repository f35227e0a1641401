/** Records of many jobs, a few round trips at a time. */
import type { Found, Jobs } from "../../transport/lift/transport.ts"

const AT_A_TIME = 64

/**
 * What `take` returns for each record, by id; without jobs that do not exist. Only that is kept, as records may be
 * large.
 */
export const findAll = async <A>(
  jobs: Pick<Jobs, "find">,
  ids: Iterable<string>,
  take: (found: Found) => A,
): Promise<ReadonlyMap<string, A>> => {
  const taken = new Map<string, A>()
  const all = [...new Set(ids)]
  for (let from = 0; from < all.length; from += AT_A_TIME) {
    const found = await Promise.all(
      all.slice(from, from + AT_A_TIME).map(async (id) => ({ id, there: await jobs.find(id) })),
    )
    for (const { id, there } of found) if (there !== undefined) taken.set(id, take(there))
  }
  return taken
}
