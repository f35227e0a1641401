/**
 * Maintenance of one transport, every few seconds: it renews its entry as a listener, removes expired records, values and
 * news, and shortens leases after the clock was set back. Long work goes in slices, so that calls get the lock in between.
 */
import type { MachineClock } from "./clock.ts"
import { type Database, int } from "./database/database.ts"
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
  readonly #mender: Repairs
  readonly #recheck: () => void
  readonly #timer: ReturnType<typeof setInterval>
  #busy = false
  #closed = false
  #heartbeatAt = Number.NEGATIVE_INFINITY

  /**
   * `recheck` looks again for tasks and values whose time has come: timers know nothing of a clock that was set, and
   * stand still while the machine sleeps.
   */
  constructor(parts: {
    readonly writer: Writer
    readonly registry: ListenerRegistry
    readonly news: NewsTable
    readonly store: StoreTable
    readonly sweeper: Sweeper
    readonly repairs: Repairs
    readonly recheck: () => void
  }) {
    this.#writer = parts.writer
    this.#registry = parts.registry
    this.#news = parts.news
    this.#store = parts.store
    this.#sweeper = parts.sweeper
    this.#mender = parts.repairs
    this.#recheck = parts.recheck
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
      await this.#mender.mend(this.#writer)
      this.#recheck()
      const now = Date.now()
      if (this.#sweeper.isDue(now)) await this.#inSlices((transaction) => this.#sweeper.sweep(transaction))
      if (this.#store.nextExpiry() <= 0) await this.#inSlices((transaction) => this.#store.expire(transaction))
      if (this.#news.hasOld(now)) await this.#inSlices((transaction) => this.#news.prune(transaction))
    } catch {
      // The file is locked, full or closed. Callers get that error from their own calls; the next round tries again.
    } finally {
      this.#busy = false
    }
  }

  async #heartbeat(): Promise<void> {
    const now = performance.now()
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

// ── a clock that was set back ────────────────────────────────────────────────────────────────────────────────────────

/**
 * Shortens what is in the file after the clock was set back: leases and values, and the waits of tasks that were stored a
 * moment before, such as the back-off of a retry. What falls due later falls due at that time of day. Each process on the
 * file notices that; a row that one of them has shortened ends before the time that the clock showed at last, so that the
 * others leave it.
 */
export class Repairs {
  readonly #clock: MachineClock
  readonly #reach: number
  readonly #statements
  readonly #waits

  /** `lease` is in milliseconds. */
  constructor(database: Database, lease: number, clock: MachineClock) {
    this.#clock = clock
    // Entries that live longer than two leases are no signs of life of workers, and tasks that wait longer were seldom told
    // to wait that long from now, so their end is not shortened.
    this.#reach = 2 * lease
    const ends = (column: string) => `SET ${column} = ${column} - ?1 WHERE ${column} > ?2 AND ${column} <= ?3`
    this.#statements = [
      `UPDATE callboard_job ${ends("at")} AND at > 0 AND fence IS NOT NULL`,
      `UPDATE callboard_store ${ends("until")} AND until IS NOT NULL`,
      `UPDATE callboard_listener ${ends("until")}`,
    ].map((sql) => database.prepare(sql))
    // A task that was given back waits until another time than its due one.
    this.#waits = database.prepare(
      `UPDATE callboard_job ${ends("at")} AND at > 0 AND fence IS NULL AND (due IS NULL OR due <> at OR posted > ?4)`,
    )
  }

  async mend(writer: Writer): Promise<void> {
    const back = this.#clock.setBack
    if (back === undefined) return
    // Rows that were written since the clock was set back end before `back.from`, and stay as they are. After a move of two
    // leases or less the rows of both kinds cannot be told apart, so that those leases are waited for instead.
    if (back.by > this.#reach)
      await writer.doWithoutSync(({ now }) => {
        const last = now + back.by + this.#reach
        for (const each of this.#statements) each.run(back.by, back.from, last)
        // Published before the clock was set back, and not long before.
        this.#waits.run(back.by, back.from, last, Math.max(now, back.from - this.#reach))
      })
    this.#clock.mended(back)
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
