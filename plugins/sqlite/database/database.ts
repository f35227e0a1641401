/** One open database: prepared statements that read the same way whoever opened it, and where it lies. */

import { type Stats, statSync } from "node:fs"
import type { DatabaseSync, StatementSync } from "node:sqlite"
import { int } from "./row.ts"

export class Database {
  readonly #handle: DatabaseSync
  readonly #busyTimeout: { readonly noWait: StatementSync; readonly restore: StatementSync } | undefined
  readonly #durable: boolean
  readonly #begin: StatementSync
  readonly #end: StatementSync
  #waits = true
  /** Whether this transport opened it and may close it. */
  readonly owned: boolean
  /** Path of the file; `undefined` for a database in memory. */
  readonly path: string | undefined
  /** Names the database in messages. */
  readonly label: string

  /** `durable`: commits wait for the disk, unless told otherwise. */
  constructor(handle: DatabaseSync, owned: boolean, path: string | undefined, durable = false) {
    this.#handle = handle
    this.#durable = durable
    this.owned = owned
    this.path = path
    this.label = path ?? "the database in memory"
    this.#begin = this.prepare("BEGIN")
    this.#end = this.prepare("ROLLBACK")
    const timeout = int(this.prepare("PRAGMA busy_timeout").get() ?? {}, "timeout")
    // An application may let its own statements wait for a lock; ours must not stop the event loop.
    if (timeout > 0) {
      this.#busyTimeout = {
        noWait: this.prepare("PRAGMA busy_timeout = 0"),
        restore: this.prepare(`PRAGMA busy_timeout = ${timeout}`),
      }
    }
  }

  /** Whether the next commits wait until they are on the disk. Not inside a transaction; an application's setting stays. */
  waitForDisk(wait: boolean): void {
    if (!this.#durable || wait === this.#waits) return
    this.#handle.exec(wait ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL")
    this.#waits = wait
  }

  /** Runs a statement that must fail at once when another connection holds the lock. */
  withoutWaiting(statement: StatementSync): void {
    this.#busyTimeout?.noWait.get()
    try {
      statement.run()
    } finally {
      this.#busyTimeout?.restore.get()
    }
  }

  /**
   * Runs `run`, which only reads, at one moment of the file: what another process commits meanwhile is not seen. Between
   * two statements outside of it a job may move from its queue into its record.
   */
  snapshot<T>(run: () => T): T {
    // The transaction that is open, ours or the application's, is one moment as well.
    if (this.inTransaction) return run()
    this.#begin.run()
    try {
      return run()
    } finally {
      if (this.inTransaction) this.#end.run()
    }
  }

  /** Whether the application that shares its connection is inside a transaction of its own. */
  get inTransaction(): boolean {
    return this.#handle.isTransaction
  }

  prepare(sql: string): StatementSync {
    const statement = this.#handle.prepare(sql)
    // An application's connection may have other defaults.
    statement.setReadBigInts(false)
    statement.setReturnArrays(false)
    return statement
  }

  exec(sql: string): void {
    this.#handle.exec(sql)
  }

  /** Closes what this transport opened; leaves the application's connection open. */
  close(): void {
    if (this.owned && this.#handle.isOpen) this.#handle.close()
  }
}

// ── whether the file is still there ──────────────────────────────────────────────────────────────────────────────────

/**
 * Whether the file under its path is still the one that is open. One that was removed or replaced goes on existing for
 * this process alone: what it accepts would be lost. Looked at five times a second and, while there is work, ten times:
 * a look costs a system call, so that not every operation has its own.
 */
const IDLE_CHECK_MS = 200
const BUSY_CHECK_MS = 100

export class FileWatch {
  readonly #path: string | undefined
  readonly #onGone: () => void
  readonly #opened: Stats | undefined
  readonly #timer: ReturnType<typeof setInterval>
  #checkedAt = performance.now()

  /** `onGone` is called once. */
  constructor(database: Database, onGone: () => void) {
    this.#path = database.path
    this.#onGone = onGone
    this.#opened = this.#stat()
    this.#timer = setInterval(() => this.#check(), IDLE_CHECK_MS)
    this.#timer.unref()
  }

  /** Called before each operation. */
  touch(): void {
    if (performance.now() - this.#checkedAt >= BUSY_CHECK_MS) this.#check()
  }

  close(): void {
    clearInterval(this.#timer)
  }

  #check(): void {
    this.#checkedAt = performance.now()
    if (this.#opened === undefined) return
    const now = this.#stat()
    if (now?.ino === this.#opened.ino && now.dev === this.#opened.dev) return
    this.close()
    this.#onGone()
  }

  /** `undefined` when there is no such file. What cannot be looked at now counts as it was. */
  #stat(): Stats | undefined {
    if (this.#path === undefined) return undefined
    try {
      return statSync(this.#path, { throwIfNoEntry: false })
    } catch {
      return this.#opened
    }
  }
}
