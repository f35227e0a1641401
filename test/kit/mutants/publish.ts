/** Mutants of how tasks are stored. */
import type { JobPosting } from "../../../runtime/protocol/message.ts"
import type { Receipt } from "../../../runtime/transport/mod.ts"
import { encodedSize } from "../task.ts"
import { jobsBroken, type Mutant } from "./mutant.ts"

let hops = 1_000
/** The same task under another publish key. */
const renamed = (posting: JobPosting): JobPosting => ({ ...posting, hops: ++hops })

/** Stores the tasks for which `isNew` holds, and answers `duplicate` for the others. */
const deduplicating = (
  isNew: (posting: JobPosting, seen: Set<string>) => boolean | Promise<boolean>,
): Mutant["breaker"] =>
  jobsBroken(() => {
    const seen = new Set<string>()
    return (jobs) => ({
      publish: (each) =>
        Promise.all(
          each.map(async (posting): Promise<Receipt> => {
            if (!(await isNew(posting, seen))) return { status: "duplicate" }
            return (await jobs.publish([renamed(posting)]))[0] ?? { status: "stored" }
          }),
        ),
    })
  })

export const publishMutants: ReadonlyArray<Mutant> = [
  {
    breaks: "publish: one byte more is too-large, and its neighbours are stored all the same",
    breaker: jobsBroken(() => (jobs, { capabilities }) => ({
      publish: async (each) => {
        // Fails all tasks of a batch where only one should fail.
        const receipts = await jobs.publish(each.filter((posting) => encodedSize(posting) <= capabilities.maxTask))
        return each.map((_, at) => receipts[at] ?? { status: "stored" })
      },
    })),
  },
  {
    breaks: "publish: no tasks: no receipts",
    breaker: jobsBroken(() => (jobs) => ({
      publish: (each) => (each.length === 0 ? Promise.resolve([{ status: "stored" }]) : jobs.publish(each)),
    })),
  },
  {
    breaks: "publish: the same id with more retries, a later run or more hops is not a duplicate",
    breaker: deduplicating(({ id }, seen) => !seen.has(id) && seen.add(id).has(id)),
  },
]
