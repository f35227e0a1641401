/** One open database, the check that its file is still the one under its path, and reading columns of its rows. */
import { type Stats, statSync } from "node:fs"
import type { DatabaseSync, SQLOutputValue, StatementSync } from "node:sqlite"
import { TransportError } from "../../../runtime/transport/mod.ts"

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
    // The application may have set a busy timeout on its connection. The statements of this transport must not wait
    // with it, because SQLite would block the event loop.
    if (timeout > 0) {
      this.#busyTimeout = {
        noWait: this.prepare("PRAGMA busy_timeout = 0"),
        restore: this.prepare(`PRAGMA busy_timeout = ${timeout}`),
      }
    }
  }

  /**
   * Sets whether the next commits wait for the disk. Must not be called inside a transaction. On a connection of the
   * application it does nothing: the application's setting stays.
   */
  waitForDisk(wait: boolean): void {
    if (!this.#durable || wait === this.#waits) return
    this.#handle.exec(wait ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL")
    this.#waits = wait
  }

  /** Runs a statement that fails at once, instead of waiting, when another connection holds the lock. */
  withoutWaiting(statement: StatementSync): void {
    this.#busyTimeout?.noWait.get()
    try {
      statement.run()
    } finally {
      this.#busyTimeout?.restore.get()
    }
  }

  /**
   * Runs `run`, which must only read, over one snapshot of the file. Without a snapshot another process may commit
   * between two statements, and a job that moves from its queue into its record would be seen in neither.
   */
  snapshot<T>(run: () => T): T {
    // Inside an open transaction, this transport's or the application's, all reads see one snapshot already.
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
    // Where the values of a call could lead to another plan, SQLite (3.53, 3.54) prepares the statement anew for each call:
    // that takes ten times as long as most of them do. A sign before a parameter hides its value from the planner.
    const statement = this.#handle.prepare(sql.replaceAll(/\?\d*/g, "+$&"))
    // A connection of the application may have other defaults.
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

/** How often an idle transport looks at its file. */
export const LOOK_MS = 500
const BUSY_CHECK_MS = 100

/**
 * Watches whether the file under the path is still the open one. A file that was removed or replaced goes on existing
 * for this process alone, so that every task it accepts would be lost. A check is one system call; it runs twice a
 * second, ten times while there are calls, and not for every call.
 */
export class FileWatch {
  readonly #path: string | undefined
  readonly #onGone: () => void
  readonly #opened: Stats | undefined
  readonly #timer: ReturnType<typeof setInterval>
  #checkedAt = performance.now()

  /**
   * `onGone` is called once, when the file under the path is another one, or missing; `onLook` twice a second, while it is
   * still the same one.
   */
  constructor(database: Database, onGone: () => void, onLook: () => void) {
    this.#path = database.path
    this.#onGone = onGone
    this.#opened = this.#stat()
    this.#timer = setInterval(() => {
      if (this.#check()) onLook()
    }, LOOK_MS)
    this.#timer.unref()
  }

  /** To be called before each call of the driver: checks the file if the last check is too long ago. */
  touch(): void {
    if (performance.now() - this.#checkedAt >= BUSY_CHECK_MS) this.#check()
  }

  close(): void {
    clearInterval(this.#timer)
  }

  /** Whether it is still the same file. */
  #check(): boolean {
    this.#checkedAt = performance.now()
    if (this.#opened === undefined) return true
    const now = this.#stat()
    if (now?.ino === this.#opened.ino && now.dev === this.#opened.dev) return true
    this.close()
    this.#onGone()
    return false
  }

  /** `undefined` when there is no file under the path. A file that cannot be checked now counts as unchanged. */
  #stat(): Stats | undefined {
    if (this.#path === undefined) return undefined
    try {
      return statSync(this.#path, { throwIfNoEntry: false })
    } catch {
      return this.#opened
    }
  }
}

/** Types are checked as columns are read: another program may have written into the file. */
export type Row = Readonly<Record<string, SQLOutputValue>>

const unexpected = (column: string, value: SQLOutputValue | undefined): TransportError =>
  new TransportError("internal", `the database contains a ${value === null ? "null" : typeof value} in ${column}`)

export const int = (row: Row, column: string): number => {
  const value = row[column]
  if (typeof value === "number") return value
  throw unexpected(column, value)
}

export const intOrNull = (row: Row, column: string): number | null => {
  const value = row[column]
  if (value === null || typeof value === "number") return value
  throw unexpected(column, value)
}

export const text = (row: Row, column: string): string => {
  const value = row[column]
  if (typeof value === "string") return value
  throw unexpected(column, value)
}

export const textOrNull = (row: Row, column: string): string | null => {
  const value = row[column]
  if (value === null || typeof value === "string") return value
  throw unexpected(column, value)
}

export const bytes = (row: Row, column: string): Uint8Array => {
  const value = row[column]
  if (value instanceof Uint8Array) return value
  throw unexpected(column, value)
}

export const bytesOrNull = (row: Row, column: string): Uint8Array | null => {
  const value = row[column]
  if (value === null || value instanceof Uint8Array) return value
  throw unexpected(column, value)
}
