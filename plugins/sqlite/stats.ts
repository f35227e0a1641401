/** Counts and lists the tasks in the queues. Reads indexes only, in slices between which the event loop runs. */

import { compact } from "../../runtime/protocol/compact.ts"
import { FRONT_LEVEL } from "../../runtime/protocol/message.ts"
import type { QueueDepth } from "../../runtime/transport/optional.ts"
import { nextTurn } from "../../runtime/transport/timers.ts"
import { type Database, int, intOrNull } from "./database/database.ts"
import { queueOrderOf } from "./jobs/id.ts"
import type { JobTable } from "./jobs/job-table.ts"
import type { QueueNames } from "./jobs/queue-names.ts"

/** Index entries that one slice reads: about two milliseconds. */
const SLICE = 20_000

interface Count {
  ready: number
  scheduled: number
  held: number
}

export class QueueStats {
  readonly #jobs: JobTable
  readonly #names: QueueNames
  readonly #ns: number
  readonly #statements

  constructor(database: Database, ns: number, jobs: JobTable, names: QueueNames) {
    this.#jobs = jobs
    this.#names = names
    this.#ns = ns
    const prepare = (sql: string) => database.prepare(sql)
    this.#statements = {
      countReady: prepare(
        `SELECT count(*) AS count, max(place) AS place FROM (
           SELECT place FROM callboard_job INDEXED BY callboard_job_ready
           WHERE queue = ? AND at = 0 AND place > ? ORDER BY place LIMIT ${SLICE})`,
      ),
      countLater: prepare(
        `SELECT queue, fence IS NOT NULL AND at > ?1 AS held, at > ?1 AS ahead, count(*) AS count
         FROM callboard_job INDEXED BY callboard_job_later WHERE at > 0 AND at >= ?2 AND at < ?3 GROUP BY 1, 2, 3`,
      ),
      endOfSlice: prepare(
        `SELECT at FROM callboard_job INDEXED BY callboard_job_later WHERE at > 0 AND at >= ?
         ORDER BY at LIMIT 1 OFFSET ${SLICE}`,
      ),
      first: prepare(
        `SELECT submitted FROM callboard_job INDEXED BY callboard_job_ready
         WHERE queue = ? AND at = 0 AND place >= ? AND place < ? ORDER BY place LIMIT 1`,
      ),
      overdue: prepare(
        `SELECT seq, of FROM callboard_job INDEXED BY callboard_job_expires
         WHERE expires IS NOT NULL AND expires <= ?1 AND ns = ?2 AND at IS NOT NULL AND (fence IS NULL OR at <= ?3)
         ORDER BY expires LIMIT ?4`,
      ),
      readyIn: prepare(
        `SELECT seq, of FROM callboard_job INDEXED BY callboard_job_ready
         WHERE queue = ? AND at = 0 ORDER BY place LIMIT ?`,
      ),
      laterIn: prepare(
        `SELECT seq, of FROM callboard_job INDEXED BY callboard_job_later
         WHERE at > 0 AND queue = ?1 AND (fence IS NULL OR at <= ?2) ORDER BY at LIMIT ?3`,
      ),
    }
  }

  async queues(): Promise<ReadonlyArray<QueueDepth>> {
    const now = Date.now()
    const counts = new Map<number, Count>()
    for (const { id } of this.#names.all()) {
      counts.set(id, { ready: await this.#countReady(id), scheduled: 0, held: 0 })
    }
    await this.#addLater(counts, now)
    return this.#names.all().map(({ id, name }) => {
      const oldest = this.#oldest(id)
      const count = counts.get(id) ?? { ready: 0, scheduled: 0, held: 0 }
      return { queue: name, ...count, ...compact({ oldest }) }
    })
  }

  /**
   * Ids of jobs with a task that no delivery has: of one queue, in the order in which they would be taken, delayed ones
   * last; or of tasks that expired at `expiredBy` or earlier, longest ago first.
   */
  waiting(what: { readonly queue: string } | { readonly expiredBy: number }, max: number): ReadonlyArray<string> {
    const { overdue, readyIn, laterIn } = this.#statements
    if ("expiredBy" in what) return this.#ids(overdue.all(what.expiredBy, this.#ns, Date.now(), max))
    const queue = this.#names.find(what.queue)
    if (queue === undefined) return []
    const ready = readyIn.all(queue, max)
    const later = ready.length < max ? laterIn.all(queue, Date.now(), max - ready.length) : []
    return this.#ids([...ready, ...later])
  }

  #ids(rows: ReadonlyArray<Parameters<typeof int>[0]>): ReadonlyArray<string> {
    return [...new Set(rows.map((row) => this.#jobs.idOf({ seq: int(row, "seq"), of: intOrNull(row, "of") })))]
  }

  async #countReady(queue: number): Promise<number> {
    let total = 0
    for (let place = -1; ; ) {
      const row = this.#statements.countReady.get(queue, place) ?? {}
      const count = int(row, "count")
      total += count
      if (count < SLICE) return total
      place = int(row, "place")
      await nextTurn()
    }
  }

  /**
   * Adds delayed tasks and those that a delivery has. A task that is due, or whose lease has ended, counts as ready.
   */
  async #addLater(counts: ReadonlyMap<number, Count>, now: number): Promise<void> {
    for (let from = 1; ; ) {
      const row = this.#statements.endOfSlice.get(from)
      // Tasks that are due at the same millisecond are in one slice, which may be longer.
      const end = row === undefined ? Number.MAX_SAFE_INTEGER : Math.max(int(row, "at"), from + 1)
      for (const group of this.#statements.countLater.all(now, from, end)) {
        const count = counts.get(int(group, "queue"))
        if (count === undefined) continue
        const kind = int(group, "held") === 1 ? "held" : int(group, "ahead") === 1 ? "scheduled" : "ready"
        count[kind] += int(group, "count")
      }
      if (row === undefined) return
      from = end
      await nextTurn()
    }
  }

  /**
   * When the oldest ready task was submitted. Within a level tasks are in order of publishing, so that the first task
   * of each level is enough.
   */
  #oldest(queue: number): number | undefined {
    let oldest: number | undefined
    for (let level = 0; level <= FRONT_LEVEL; level++) {
      const row = this.#statements.first.get(queue, queueOrderOf(level, 0), queueOrderOf(level - 1, 0))
      if (row === undefined) continue
      const submitted = int(row, "submitted")
      if (oldest === undefined || submitted < oldest) oldest = submitted
    }
    return oldest
  }
}
