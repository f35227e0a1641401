/**
 * Maintenance of one transport, every few seconds: it renews its entry as a listener, and removes expired records,
 * values and news. Long work goes in slices, so that calls get the lock in between.
 */

import type { Database } from "./database/database.ts"
import { int } from "./database/row.ts"
import type { JobTable } from "./jobs/job-table.ts"
import type { StoreTable } from "./store.ts"
import { HEARTBEAT_MS, type ListenerRegistry } from "./watch/listeners.ts"
import type { NewsTable } from "./watch/news.ts"
import type { Transaction } from "./writing/transaction.ts"
import type { Writer } from "./writing/writer.ts"

const INTERVAL_MS = 5_000

/** After a slice, maintenance pauses for this many times the slice's length, so that calls go first. */
const PAUSE_FACTOR = 3

export class Maintenance {
  readonly #writer: Writer
  readonly #registry: ListenerRegistry
  readonly #news: NewsTable
  readonly #store: StoreTable
  readonly #sweeper: Sweeper
  readonly #timer: ReturnType<typeof setInterval>
  #busy = false
  #closed = false
  #heartbeatAt = 0

  constructor(parts: {
    readonly writer: Writer
    readonly registry: ListenerRegistry
    readonly news: NewsTable
    readonly store: StoreTable
    readonly sweeper: Sweeper
  }) {
    this.#writer = parts.writer
    this.#registry = parts.registry
    this.#news = parts.news
    this.#store = parts.store
    this.#sweeper = parts.sweeper
    this.#timer = setInterval(() => void this.#run(), INTERVAL_MS)
    this.#timer.unref()
  }

  close(): void {
    this.#closed = true
    clearInterval(this.#timer)
  }

  async #run(): Promise<void> {
    if (this.#busy) return
    this.#busy = true
    try {
      await this.#heartbeat()
      const now = Date.now()
      if (this.#sweeper.isDue(now)) await this.#inSlices((transaction) => this.#sweeper.sweep(transaction))
      if (this.#store.nextExpiry() <= now) await this.#inSlices((transaction) => this.#store.expire(transaction))
      if (this.#news.hasOld(now)) await this.#inSlices((transaction) => this.#news.prune(transaction))
    } catch {
      // The file is locked, full or closed. Callers get that error from their own calls; the next round tries again.
    } finally {
      this.#busy = false
    }
  }

  async #heartbeat(): Promise<void> {
    const now = Date.now()
    if (!this.#registry.listens || now - this.#heartbeatAt < HEARTBEAT_MS) return
    this.#heartbeatAt = now
    await this.#writer.doWithoutSync((transaction) => this.#registry.register(transaction))
  }

  async #inSlices(slice: (transaction: Transaction) => boolean): Promise<void> {
    for (;;) {
      const start = performance.now()
      const more = await this.#writer.doWithoutSync(slice)
      if (!more || this.#closed) return
      const pause = PAUSE_FACTOR * (performance.now() - start)
      await new Promise<void>((resolve) => setTimeout(resolve, pause).unref())
    }
  }
}

// ── expired records ──────────────────────────────────────────────────────────────────────────────────────────────────

/** Jobs in one slice: about two milliseconds. */
const SLICE = 200

/** An expired record whose job still has a task in a queue is looked at again after this time. */
const POSTPONE_MS = 3_600_000

/** Removes records whose time is over, in slices. A job that still has a task in a queue stays. */
export class Sweeper {
  readonly #jobs: JobTable
  readonly #statements

  constructor(database: Database, jobs: JobTable) {
    this.#jobs = jobs
    const prepare = (sql: string) => database.prepare(sql)
    this.#statements = {
      due: prepare(
        "SELECT 1 FROM callboard_job INDEXED BY callboard_job_until WHERE until IS NOT NULL AND until <= ? LIMIT 1",
      ),
      expired: prepare(
        `SELECT seq FROM callboard_job INDEXED BY callboard_job_until
         WHERE until IS NOT NULL AND until <= ? ORDER BY until LIMIT ${SLICE}`,
      ),
      postpone: prepare("UPDATE callboard_job SET until = ? WHERE seq = ?"),
    }
  }

  /** Whether any record has expired. Reads only. */
  isDue(now: number): boolean {
    return this.#statements.due.get(now) !== undefined
  }

  /** Removes one slice of expired records; `true` if there may be more. */
  sweep({ now }: Transaction): boolean {
    const rows = this.#statements.expired.all(now)
    for (const each of rows) {
      const row = this.#jobs.bySeq(int(each, "seq"))
      if (row === undefined) continue
      if (this.#jobs.isExpired(row, now)) this.#jobs.remove(row.seq)
      else this.#statements.postpone.run(now + POSTPONE_MS, row.seq)
    }
    return rows.length === SLICE
  }
}
