/**
 * The ceiling of this machine for a job over SQLite: the statements of the sqlite transport through the same library
 * (`node:sqlite`), without our runtime and without the transport. Per job: one insert with its payload, one taking over,
 * one ending with its record; a batch of each is one transaction, and what was accepted or ended is on the disk.
 *
 * `raw-sqlite.ts <file> <jobs> [batch] [ms between batches]`: with a batch of one it is the round trip of a job.
 */
import { randomUUID } from "node:crypto"
import { DatabaseSync } from "node:sqlite"
import { Database } from "../../../plugins/sqlite/database/database.ts"
import { ensureSchema } from "../../../plugins/sqlite/database/schema.ts"
import { begin, nap, quantiles, report, rssMiB } from "./program.js"

/** A UUIDv7: 48 bits of time, the rest random. */
const timeOrderedId = (): Uint8Array => {
  const time = Date.now().toString(16).padStart(12, "0")
  return Uint8Array.from(Buffer.from(`${time}7${randomUUID().replaceAll("-", "").slice(13)}`, "hex"))
}

const LEVEL_4 = 6 * 2 ** 48
const SUCCEEDED = 4

const [path = "", jobsText = "50000", batchText = "256", napText = "0"] = process.argv.slice(2)
const batch = Number(batchText)

const handle = new DatabaseSync(path)
handle.exec("PRAGMA page_size = 8192; PRAGMA journal_mode = WAL; PRAGMA cache_size = -16384")
handle.exec("PRAGMA temp_store = MEMORY")
handle.exec("PRAGMA synchronous = FULL")
ensureSchema(new Database(handle, true, path))
handle.exec("INSERT INTO callboard_namespace (name) VALUES ('raw')")
handle.exec("INSERT INTO callboard_queue (ns, name) VALUES (1, 'default')")

const start = handle.prepare("BEGIN IMMEDIATE")
const commit = handle.prepare("COMMIT")
const count = handle.prepare("UPDATE callboard_counter SET last = ? WHERE one = 1")
const insertJob = handle.prepare(
  `INSERT INTO callboard_job
     (seq, ns, id, key, queue, task, method, tenant, submitted, place, at, due, expires, posted, bytes)
   VALUES (?1, 1, ?2, '/1/0', 1, 'noop', NULL, NULL, ?4, ?3, 0, NULL, NULL, ?4, ?5) ON CONFLICT DO NOTHING`,
)
const insertLoad = handle.prepare("INSERT INTO callboard_load (seq, frame, record) VALUES (?, ?, NULL)")
const choose = handle.prepare(
  `SELECT max(place) AS place, sum(bytes) AS bytes, count(*) AS count FROM (
     SELECT place, bytes FROM callboard_job INDEXED BY callboard_job_ready
     WHERE queue = 1 AND at = 0 ORDER BY place LIMIT ?)`,
)
const take = handle.prepare(
  `UPDATE callboard_job INDEXED BY callboard_job_ready SET at = ?, fence = ?, deliveries = deliveries + 1
   WHERE queue = 1 AND at = 0 AND place <= ?
   RETURNING seq, place, deliveries, id,
     (SELECT frame FROM callboard_load WHERE callboard_load.seq = callboard_job.seq) AS frame`,
)
const endJob = handle.prepare(
  `UPDATE callboard_job SET at = NULL, state = ${SUCCEEDED}, rev = ?, until = ?, hidden = 0, dead = 0, error = NULL,
     tenant = NULL
   WHERE seq = ? AND fence = ? AND at IS NOT NULL AND of IS NULL AND rev IS NULL AND expires IS NULL
     AND ns = 1 AND id = ? AND queue = 1 AND task = 'noop'`,
)
const endLoad = handle.prepare("UPDATE callboard_load SET frame = NULL, record = ? WHERE seq = ?")

// About as long as a task with its headers, and a record with three transitions.
const frame = new Uint8Array(256 + 400)
const record = new TextEncoder().encode(JSON.stringify({ id: randomUUID(), timeline: "x".repeat(420) }))
let last = 0
/** A take need not be on the disk: after a power loss no worker has a task any more. */
const waitForDisk = (wait: boolean): void => {
  handle.exec(`PRAGMA synchronous = ${wait ? "FULL" : "NORMAL"}`)
}
const transaction = (work: () => void): void => {
  start.run()
  work()
  count.run(last)
  commit.run()
}

/** One batch from submission to its end. */
const cycle = (): void => {
  transaction(() => {
    for (let each = 0; each < batch; each++) {
      last++
      insertJob.run(last, timeOrderedId(), LEVEL_4 + last, Date.now(), frame.length)
      insertLoad.run(last, frame)
    }
  })
  let rows: ReturnType<typeof take.all> = []
  let fence = 0
  waitForDisk(false)
  transaction(() => {
    fence = ++last
    const end = choose.get(batch)?.["place"] ?? 0
    rows = take.all(Date.now() + 30_000, fence, end)
  })
  waitForDisk(true)
  transaction(() => {
    for (const row of rows) {
      const { seq = null, id = null } = row
      if (endJob.run(++last, Date.now() + 86_400_000, seq, fence, id).changes !== 1) throw new Error("a job was lost")
      endLoad.run(record, seq)
    }
  })
}

for (let at = 0; at < 20; at++) cycle()
await begin()
const times: Array<number> = []
const began = performance.now()
const batches = Math.ceil(Number(jobsText) / batch)
for (let at = 0; at < batches; at++) {
  if (Number(napText) > 0) await nap(Number(napText))
  const from = performance.now()
  cycle()
  times.push(performance.now() - from)
}
const jobs = batches * batch
report({ jobs, perSecond: jobs / ((performance.now() - began) / 1_000), ...quantiles(times), rssMiB: rssMiB() })
