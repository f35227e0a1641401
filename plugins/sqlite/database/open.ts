/**
 * Opens the file of a board, or takes over a connection that the application holds. Never waits for a lock inside
 * SQLite: it tries, lets the event loop run, and tries again until its time is up.
 */
import { closeSync, existsSync, mkdirSync, openSync, statSync, writeFileSync } from "node:fs"
import { basename, dirname, join, resolve } from "node:path"
import { DatabaseSync } from "node:sqlite"
import type { Capabilities } from "../../../runtime/transport/driver.ts"
import { TransportError } from "../../../runtime/transport/mod.ts"
import { Database } from "./database.ts"
import { faultOf, isBusy } from "./fault.ts"
import type { Location } from "./location.ts"
import { int, text } from "./row.ts"
import { APPLICATION_ID, ensureSchema } from "./schema.ts"

/** A folder of ours: made when missing, and ignored by git. Any other folder must be there. */
const OWN_FOLDER = ".callboard"

/** Tasks may hold secrets: what is made in that folder is for its owner alone. What is there already stays as it is. */
const OWN_FOLDER_MODE = 0o700
const OWN_FILE_MODE = 0o600

/** Measured: 8 KiB carries a quarter more jobs per second than 4 KiB, as a page holds about ten of them. */
const PAGE_BYTES = 8192

const CACHE_KIB = 16_384

/** Write-ahead log, in pages, after which a commit also writes the pages back into the file. */
const CHECKPOINT_PAGES = 1_000

/** What is left of a write-ahead log that had grown larger, because somebody read for a long time. */
const LARGEST_LOG_BYTES = 64 * 1024 * 1024

export interface Opened {
  readonly database: Database
  readonly durability: Capabilities["durability"]
  /** Number of the namespace in this file. */
  readonly ns: number
}

/** Fails with a `TransportError` that says what to do, within `timeout` milliseconds. */
export const openFile = async (location: Location, namespace: string, timeout: number): Promise<Opened> => {
  const path = resolve(location.path)
  prepareFolder(path)
  const handle = attempt(path, () => new DatabaseSync(path, { timeout: 0, allowExtension: false }))
  const database = new Database(handle, true, path, location.sync === "full")
  try {
    const ns = await patiently(database, timeout, () => {
      refuseForeign(database)
      configure(database, location.sync)
      return enter(database, namespace)
    })
    return { database, ns, durability: location.sync === "full" ? "fsync" : "process" }
  } catch (error) {
    database.close()
    throw error
  }
}

/** Takes over a connection as it is: its settings stay, and the durability is what they give. */
export const openHandle = async (handle: DatabaseSync, namespace: string, timeout: number): Promise<Opened> => {
  if (!handle.isOpen) throw new TransportError("invalid", "the DatabaseSync was closed: pass one that is open")
  const location = handle.location()
  const path = location === null || location === "" ? undefined : location
  const database = new Database(handle, false, path)
  const ns = await patiently(database, timeout, () => enter(database, namespace))
  return { database, ns, durability: durabilityOf(database) }
}

const attempt = <T>(what: string, run: () => T): T => {
  try {
    return run()
  } catch (error) {
    throw faultOf(error, what)
  }
}

const prepareFolder = (path: string): void => {
  const folder = dirname(path)
  try {
    if (basename(folder) === OWN_FOLDER) {
      // The folders above it belong to the project, and get the rights that the umask gives.
      mkdirSync(dirname(folder), { recursive: true })
      mkdirSync(folder, { recursive: true, mode: OWN_FOLDER_MODE })
      const ignore = join(folder, ".gitignore")
      if (!existsSync(ignore)) writeFileSync(ignore, "*\n", { mode: OWN_FILE_MODE })
      // SQLite would create the database with the umask's rights, and gives its log and shared memory those of the database.
      if (!existsSync(path)) closeSync(openSync(path, "a", OWN_FILE_MODE))
    }
  } catch (cause) {
    throw new TransportError("unauthorized", `${folder}: the folder cannot be made: ${String(cause)}`, { cause })
  }
  if (!existsSync(folder)) {
    throw new TransportError("invalid", `${folder}: there is no such folder: make it, or give another path`)
  }
  if (existsSync(path) && statSync(path).isDirectory()) {
    throw new TransportError("invalid", `${path} is a folder: give the path of a file`)
  }
}

/** Runs `run` until no other connection is in the way. */
const patiently = async <T>(database: Database, timeout: number, run: () => T): Promise<T> => {
  const deadline = performance.now() + timeout
  for (;;) {
    try {
      return run()
    } catch (error) {
      if (!isBusy(error) || performance.now() >= deadline) throw faultOf(error, database.label)
    }
    await new Promise((wake) => setTimeout(wake, 2 + Math.random() * 8))
  }
}

const pragma = (database: Database, name: string): number => {
  const row = database.prepare(`PRAGMA ${name}`).get() ?? {}
  return int(row, Object.keys(row)[0] ?? name)
}

/** Before anything is changed in the file. */
const refuseForeign = (database: Database): void => {
  const used = database.prepare("SELECT 1 FROM sqlite_schema LIMIT 1").get() !== undefined
  if (!used || pragma(database, "application_id") === APPLICATION_ID) return
  throw new TransportError(
    "unsupported",
    `${database.label} is the database of another program: give another file, or pass the connection that the program holds (a DatabaseSync) instead of a URL`,
  )
}

const configure = (database: Database, sync: Location["sync"]): void => {
  // Takes effect only while the file is empty.
  database.exec(`PRAGMA page_size = ${PAGE_BYTES}`)
  const mode = text(database.prepare("PRAGMA journal_mode = WAL").get() ?? {}, "journal_mode")
  if (mode !== "wal") {
    throw new TransportError(
      "unsupported",
      `${database.label}: SQLite cannot keep a write-ahead log here (journal_mode ${mode}): use a local disk`,
    )
  }
  database.exec(`PRAGMA synchronous = ${sync}`)
  // macOS: only this makes the disk itself write. Elsewhere without effect.
  if (sync === "full") database.exec("PRAGMA fullfsync = 1; PRAGMA checkpoint_fullfsync = 1")
  database.exec(`PRAGMA cache_size = -${CACHE_KIB}; PRAGMA wal_autocheckpoint = ${CHECKPOINT_PAGES}`)
  database.exec(`PRAGMA journal_size_limit = ${LARGEST_LOG_BYTES}`)
}

/** Sees to it that tables and namespace are there; returns the number of the namespace. */
const enter = (database: Database, namespace: string): number => {
  if (database.inTransaction) throw new TransportError("invalid", `${database.label}: end the open transaction first`)
  database.exec("BEGIN IMMEDIATE")
  try {
    ensureSchema(database)
    database.prepare("INSERT OR IGNORE INTO callboard_namespace (name) VALUES (?)").run(namespace)
    const row = database.prepare("SELECT id FROM callboard_namespace WHERE name = ?").get(namespace) ?? {}
    const ns = int(row, "id")
    database.exec("COMMIT")
    return ns
  } catch (error) {
    if (database.inTransaction) database.exec("ROLLBACK")
    throw error
  }
}

const durabilityOf = (database: Database): Capabilities["durability"] => {
  if (database.path === undefined) return "none"
  const journal = text(database.prepare("PRAGMA journal_mode").get() ?? {}, "journal_mode")
  const synced = pragma(database, "synchronous") >= 2
  return synced && journal !== "off" && journal !== "memory" ? "fsync" : "process"
}
