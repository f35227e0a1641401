/** Counts how many rows a driver reads for the lists of the page, on a board with few jobs and on one with many. */
import { generateId } from "../../../runtime/id.ts"
import type { Driver, Posting } from "../../../runtime/transport/driver.ts"
import type { Index } from "../../../runtime/transport/known.ts"
import type { Query } from "../../../runtime/transport/optional.ts"

const FEW = 1_000
const MANY = 20_000
/** Number of waiting tasks for every hundred jobs, in addition to `LIMIT` rare ones, which are the oldest. */
const WAITING = 20
const BATCH = 500
const LIMIT = 50
const START = 1_700_000_000_000

/** The index of a job by its age. Most of the older half have succeeded. The 100 oldest jobs of each board are the rare ones. */
const indexAt = (at: number, count: number): Index => {
  const isRare = at < 100
  const isOlder = at < count / 2
  return {
    state: isRare && at % 2 === 0 ? "failed" : isOlder && at % 10 > 0 ? "succeeded" : "cancelled",
    queue: isRare ? "rare" : "most",
    task: isRare ? "rare" : "text",
    method: "count",
    at: START + at,
    ...(isRare ? { error: "f3a91c07", root: "root", parent: "parent", group: "group" } : {}),
  }
}

const bytes = new TextEncoder().encode("{}")

const waitingAt = (at: number): Posting => {
  const isRare = at < LIMIT
  const [id, queue, task] = [generateId(), isRare ? "aside" : "busy", isRare ? "aside" : "busy"]
  const links = isRare ? { root: "waiting", parent: "waiting", group: "waiting" } : {}
  return {
    ...{ id, key: `${id}/1/0`, queue, level: 4, frame: bytes },
    index: { state: "queued", queue, task, method: "run", at: START + at, ...links },
    message: { headers: { task, id }, properties: { content_type: "", content_encoding: "" }, body: bytes },
  }
}

const fill = async (driver: Driver, count: number): Promise<void> => {
  for (let from = 0; from < count; from += BATCH) {
    const some = Array.from({ length: BATCH }, (_, at) => from + at)
    const commits = some.map((at) => ({ id: generateId(), record: { expect: "", bytes, index: indexAt(at, count) } }))
    const answers = await driver.commit(commits)
    const wrong = answers.find(({ status }) => status !== "committed")
    if (wrong !== undefined) throw new Error(JSON.stringify(wrong))
  }
  const waiting = LIMIT + (count / 100) * WAITING
  for (let from = 0; from < waiting; from += BATCH) {
    const some = Array.from({ length: Math.min(BATCH, waiting - from) }, (_, at) => waitingAt(from + at))
    const wrong = (await driver.publish(some)).find(({ status }) => status !== "stored")
    if (wrong !== undefined) throw new Error(JSON.stringify(wrong))
  }
}

/** The queries of the page. */
export const QUERIES: Readonly<Record<string, Omit<Query, "limit">>> = {
  newest: {},
  succeeded: { states: ["succeeded"] },
  failed: { states: ["failed"] },
  "failed of a task": { states: ["failed"], task: "rare.count" },
  "failed of a queue": { states: ["failed"], queue: "rare" },
  "failed by its cause": { states: ["failed"], error: "f3a91c07" },
  "a queue": { queue: "rare" },
  "a task": { task: "rare" },
  "a method": { task: "rare.count" },
  "the newest since": { since: START },
  "a parent": { parent: "parent" },
  "a group": { group: "group" },
  "a root": { root: "root" },
  "waiting in a queue": { states: ["queued"], queue: "aside" },
  "waiting of a task": { states: ["queued"], task: "aside.run" },
  "waiting of a parent": { states: ["queued"], parent: "waiting" },
  "waiting of a group": { states: ["queued"], group: "waiting" },
  "waiting of a root": { states: ["queued"], root: "waiting" },
}

/** How many jobs each query finds and how much it reads, with few jobs and with many. */
export const readsOf = async (
  open: (namespace: string) => Promise<Driver>,
  queries: Readonly<Record<string, Omit<Query, "limit">>> = QUERIES,
): Promise<
  Readonly<Record<string, { readonly found: ReadonlyArray<number>; readonly scanned: ReadonlyArray<number> }>>
> => {
  const reads: Record<string, { found: Array<number>; scanned: Array<number> }> = {}
  for (const count of [FEW, MANY]) {
    const driver = await open(`lists-${count}`)
    try {
      await fill(driver, count)
      for (const [name, query] of Object.entries(queries)) {
        const page = await driver.query?.({ ...query, limit: LIMIT })
        const read = reads[name] ?? { found: [], scanned: [] }
        reads[name] = read
        read.found.push(page?.jobs.length ?? -1)
        read.scanned.push(page?.scanned ?? Number.NaN)
      }
    } finally {
      await driver.close()
    }
  }
  return reads
}

/** Names of the queries that read more on the larger board, or too much for one page. Every query must find a whole page. */
export const growing = (reads: Awaited<ReturnType<typeof readsOf>>, max = 8 * LIMIT): ReadonlyArray<string> =>
  Object.entries(reads).flatMap(([name, { found, scanned }]) => {
    const [few = Number.NaN, many = Number.NaN] = scanned
    const isBounded = many <= max && many <= few * 2 + LIMIT
    return isBounded && found.every((each) => each === LIMIT) ? [] : [`${name}: ${found} found, ${scanned} read`]
  })
