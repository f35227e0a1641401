/**
 * Opens a database file, or uses a connection that the application holds. A locked file is tried again from the event
 * loop until the timeout is over, never waited for inside SQLite.
 */
import { closeSync, existsSync, mkdirSync, openSync, statSync, writeFileSync } from "node:fs"
import { basename, dirname, join, resolve } from "node:path"
import type { DatabaseSync } from "node:sqlite"
import { checkUrlOptions } from "../../../runtime/transport/checks.ts"
import type { Capabilities } from "../../../runtime/transport/driver.ts"
import { type ConnectOptions, TransportError } from "../../../runtime/transport/mod.ts"
import { sleep } from "../../../runtime/transport/timers.ts"
import { Database, int, text } from "./database.ts"
import { faultOf, heldBy, isBusy, lockHolder } from "./fault.ts"
import { loadSqlite } from "./library.ts"
import { APPLICATION_ID, ensureSchema } from "./schema.ts"

/** The folder that Callboard creates when it is missing, with a `.gitignore`. Every other folder must exist. */
const OWN_FOLDER = ".callboard"

/**
 * Tasks may hold secrets, so that this folder, and every file that is created, is readable by its owner only. The rights of
 * an existing folder or file are left as they are.
 */
const OWN_FOLDER_MODE = 0o700
const OWN_FILE_MODE = 0o600

/** Measured: 8 KiB carries a quarter more jobs per second than 4 KiB, as a page holds about ten of them. */
const PAGE_BYTES = 8192

const CACHE_KIB = 16_384

/** SQLite copies the write-ahead log back into the file once it has this many pages. */
const CHECKPOINT_PAGES = 1_000

/** A write-ahead log that grew larger, because a long read kept SQLite from copying it back, is cut to this size. */
const MAX_LOG_BYTES = 64 * 1024 * 1024

export interface Opened {
  readonly database: Database
  readonly durability: Capabilities["durability"]
  /** Number of the namespace in this file; part of the key of most tables. */
  readonly ns: number
}

/**
 * Opens or creates the file of a URL. Fails with a `TransportError` that says what to do, within `timeout`
 * milliseconds.
 */
export const openFile = async (location: Location, namespace: string, timeout: number): Promise<Opened> => {
  const library = loadSqlite()
  const path = resolve(location.path)
  prepareFolder(path)
  prepareFile(path)
  const handle = withFault(path, () => new library.DatabaseSync(path, { timeout: 0, allowExtension: false }))
  const database = new Database(handle, true, path, location.sync === "full")
  try {
    const ns = await retryWhileBusy(database, timeout, () => {
      refuseExternal(database)
      configure(database, location.sync)
      return ensureNamespace(database, namespace)
    })
    return { database, ns, durability: location.sync === "full" ? "fsync" : "process" }
  } catch (error) {
    database.close()
    throw error
  }
}

/** Uses a connection of the application. Its settings stay as they are; the durability follows from them. */
export const openHandle = async (handle: DatabaseSync, namespace: string, timeout: number): Promise<Opened> => {
  if (!handle.isOpen) throw new TransportError("invalid", "the DatabaseSync is closed: pass an open one")
  const location = handle.location()
  const path = location === null || location === "" ? undefined : location
  const database = new Database(handle, false, path)
  const ns = await retryWhileBusy(database, timeout, () => ensureNamespace(database, namespace))
  return { database, ns, durability: durabilityOf(database) }
}

const withFault = <T>(what: string, run: () => T): T => {
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
      // The folders above it belong to the project, and are created with the rights that the umask gives.
      mkdirSync(dirname(folder), { recursive: true })
      mkdirSync(folder, { recursive: true, mode: OWN_FOLDER_MODE })
      const ignore = join(folder, ".gitignore")
      if (!existsSync(ignore)) writeFileSync(ignore, "*\n", { mode: OWN_FILE_MODE })
    }
  } catch (cause) {
    throw new TransportError("unauthorized", `${folder}: the folder cannot be created: ${String(cause)}`, { cause })
  }
  if (!existsSync(folder)) {
    throw new TransportError("invalid", `${folder}: there is no such folder: create it, or use another path`)
  }
  if (existsSync(path) && statSync(path).isDirectory()) {
    throw new TransportError("invalid", `${path} is a folder: use the path of a file`)
  }
}

/**
 * SQLite would create the database with the rights that the umask gives, and copies the rights of the database to its log
 * and shared memory.
 */
const prepareFile = (path: string): void => {
  if (existsSync(path)) return
  try {
    closeSync(openSync(path, "a", OWN_FILE_MODE))
  } catch {
    // SQLite cannot create it either, and says why.
  }
}

/** Runs `run` again while another connection holds the lock, for up to `timeout` milliseconds. */
const retryWhileBusy = async <T>(database: Database, timeout: number, run: () => T): Promise<T> => {
  const deadline = performance.now() + timeout
  for (;;) {
    try {
      return run()
    } catch (error) {
      if (!isBusy(error)) throw faultOf(error, database.label)
      if (performance.now() >= deadline) throw lockedFault(error, database, timeout)
    }
    await sleep(2 + Math.random() * 8)
  }
}

/** The file was locked all the time. */
const lockedFault = (error: unknown, { label, path }: Database, timeout: number): TransportError =>
  lockHolder(path) === undefined
    ? faultOf(error, label)
    : new TransportError("unavailable", `${label}: ${heldBy(path, `for ${timeout} ms`)}`, { cause: error })

const pragma = (database: Database, name: string): number => {
  const row = database.prepare(`PRAGMA ${name}`).get() ?? {}
  return int(row, Object.keys(row)[0] ?? name)
}

/** Fails with `unsupported` for the database of another program. Runs before anything is changed in the file. */
const refuseExternal = (database: Database): void => {
  const used = database.prepare("SELECT 1 FROM sqlite_schema LIMIT 1").get() !== undefined
  if (!used || pragma(database, "application_id") === APPLICATION_ID) return
  throw new TransportError(
    "unsupported",
    `${database.label} is the database of another program: use another file, or pass the connection of that program (a DatabaseSync) instead of a URL`,
  )
}

const configure = (database: Database, sync: Location["sync"]): void => {
  // SQLite takes a page size only while the file is empty.
  database.exec(`PRAGMA page_size = ${PAGE_BYTES}`)
  const mode = text(database.prepare("PRAGMA journal_mode = WAL").get() ?? {}, "journal_mode")
  if (mode !== "wal") {
    throw new TransportError(
      "unsupported",
      `${database.label}: SQLite cannot keep a write-ahead log here (journal_mode ${mode}): use a local disk`,
    )
  }
  database.exec(`PRAGMA synchronous = ${sync}`)
  // On macOS only `F_FULLFSYNC` makes the disk itself write. These settings have no effect elsewhere.
  if (sync === "full") database.exec("PRAGMA fullfsync = 1; PRAGMA checkpoint_fullfsync = 1")
  database.exec(`PRAGMA cache_size = -${CACHE_KIB}; PRAGMA wal_autocheckpoint = ${CHECKPOINT_PAGES}`)
  database.exec(`PRAGMA journal_size_limit = ${MAX_LOG_BYTES}`)
  // A statement that changes more than 64 KiB of pages, such as a take of many tasks, would otherwise make a temporary file
  // for what it has to undo if it fails.
  database.exec("PRAGMA temp_store = MEMORY")
}

/** Creates the tables and the namespace where they are missing; returns the number of the namespace. */
const ensureNamespace = (database: Database, namespace: string): number => {
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

// ── the URL ──────────────────────────────────────────────────────────────────────────────────────────────────────────

export interface Location {
  /** Path of the database file; relative to the working directory unless it is absolute. */
  readonly path: string
  /**
   * When a commit is answered. `full`: once it is on the disk, so that it survives a power loss. `normal`: once it is
   * written to the file, so that it survives the end of the process; the last commits may be lost with the machine.
   * Defaults to `full`.
   */
  readonly sync: "full" | "normal"
}

const invalid = (message: string): TransportError => new TransportError("invalid", message)

/** Reads a `sqlite:` URL. Fails with `invalid`; the message shows how the URL should be written. */
export const readLocation = (url: URL): Location => {
  if (url.host !== "") {
    throw invalid(
      `sqlite://${url.host}… contains a host: write sqlite:${url.host}${url.pathname} for a relative path, sqlite:/path for an absolute one`,
    )
  }
  if (url.hash !== "") throw invalid(`${url.hash} is not part of the path: write # as %23`)
  const path = decodePath(url.pathname)
  if (path === "") throw invalid("the URL has no file: write sqlite:jobs.db")
  if (path === ":memory:")
    throw invalid("sqlite::memory: would be lost with the process and invisible to others: use memory:")
  if (path.includes("\0")) throw invalid("the path of the database contains a zero byte")
  checkUrlOptions(url, ["sync"])
  const sync = url.searchParams.get("sync") ?? "full"
  if (sync !== "full" && sync !== "normal") throw invalid(`sync=${sync}: must be full or normal`)
  return { path, sync }
}

const decodePath = (path: string): string => {
  try {
    return decodeURIComponent(path)
  } catch {
    throw invalid(`${path} is not a valid path: write % as %25`)
  }
}

const NAMESPACE = /^[A-Za-z0-9_-]{1,64}$/

/** Checks the namespace and the lease. Fails with `invalid`. */
export const checkSqliteOptions = ({ namespace, lease }: ConnectOptions): void => {
  if (!NAMESPACE.test(namespace)) throw invalid("a namespace must be 1 to 64 letters, digits, _ or -")
  if (!(lease >= 1_000 && lease < Number.POSITIVE_INFINITY))
    throw invalid(`a lease must be at least 1,000 milliseconds, not ${lease}`)
}
