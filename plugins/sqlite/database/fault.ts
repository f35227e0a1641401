/**
 * Errors of SQLite as errors of the contract: which are worth a retry, which concern the whole database, and what the
 * user can do about each.
 */

import { readFileSync, statSync } from "node:fs"
import { TransportError, type TransportReason } from "../../../runtime/transport/mod.ts"

// https://sqlite.org/rescode.html
const PERM = 3
const BUSY = 5
const LOCKED = 6
const NOMEM = 7
const READONLY = 8
const IOERR = 10
const CORRUPT = 11
const FULL = 13
const CANTOPEN = 14
const PROTOCOL = 15
const TOOBIG = 18
const AUTH = 23
const NOTADB = 26

/** Deno 2.9 sets no `errcode` on some of these errors, so that only their message tells them apart. */
const BY_MESSAGE: ReadonlyArray<readonly [RegExp, number]> = [
  [/database (table )?is locked/i, BUSY],
  [/locking protocol/i, PROTOCOL],
  [/out of memory/i, NOMEM],
  [/readonly database/i, READONLY],
  [/disk i\/o error/i, IOERR],
  [/malformed/i, CORRUPT],
  [/database or disk is full/i, FULL],
  [/unable to open/i, CANTOPEN],
  [/too big/i, TOOBIG],
  [/not a database/i, NOTADB],
  [/not authorized/i, AUTH],
]

/** Primary result code of an error that SQLite raised; `undefined` for any other error. */
const codeOf = (error: unknown): number | undefined => {
  if (!(error instanceof Error)) return undefined
  const code: unknown = "errcode" in error ? error.errcode : undefined
  if (typeof code === "number") return code & 0xff
  if (!("code" in error) || error.code !== "ERR_SQLITE_ERROR") return undefined
  return BY_MESSAGE.find(([pattern]) => pattern.test(error.message))?.[1] ?? 1
}

/** Whether the disk was full. SQLite has rolled the transaction back: nothing of it is stored. */
export const isFull = (error: unknown): boolean => codeOf(error) === FULL

/** Whether another connection holds the lock, so that the same statement may succeed later. */
export const isBusy = (error: unknown): boolean => {
  const code = codeOf(error)
  return code === BUSY || code === LOCKED || code === PROTOCOL
}

const DATABASE_WIDE: ReadonlyArray<number | undefined> = [
  PERM,
  NOMEM,
  READONLY,
  IOERR,
  CORRUPT,
  FULL,
  CANTOPEN,
  AUTH,
  NOTADB,
]

/** Whether an error concerns the whole database, and not only the statement that failed. */
export const isDatabaseWide = (error: unknown): boolean =>
  DATABASE_WIDE.includes(codeOf(error)) || (error instanceof Error && /database is not open/i.test(error.message))

const ADVICE: Readonly<Record<number, readonly [TransportReason, string]>> = {
  [PERM]: ["unauthorized", "access was denied: check the owner and permissions of the file and its folder"],
  [BUSY]: [
    "unavailable",
    "another program holds its lock: end that program (an open transaction in a database tool does this), or use another file",
  ],
  [READONLY]: [
    "unauthorized",
    "it cannot be written: check the permissions of the file and of its folder (SQLite writes two more files next to it)",
  ],
  [IOERR]: [
    "unavailable",
    "the disk reports an error: check the disk, quotas and limits on the size of files, and that it is a local disk (no network share)",
  ],
  [CORRUPT]: ["internal", "it is damaged: stop all workers, keep a copy, and try `sqlite3 FILE .recover`"],
  [FULL]: ["unavailable", "the disk is full: free some space; no accepted task is lost"],
  [CANTOPEN]: ["unauthorized", "it cannot be opened: check that its folder exists and is writable"],
  [TOOBIG]: ["too-large", "the value is larger than SQLite allows"],
  [AUTH]: ["unauthorized", "access was denied"],
  [NOTADB]: ["invalid", "it is not an SQLite database (or an encrypted one): use another file"],
}

/**
 * The error of the contract for `error`. `what` names the file in its message; `outcome` says whether the change may
 * have been stored all the same.
 */
export const faultOf = (error: unknown, what: string, outcome: "none" | "unknown" = "none"): TransportError => {
  if (error instanceof TransportError) return error
  const code = codeOf(error)
  const known = code === undefined ? undefined : ADVICE[code === LOCKED || code === PROTOCOL ? BUSY : code]
  const message = error instanceof Error ? error.message : String(error)
  const [reason, advice] = known ?? (["internal", message] as const)
  return new TransportError(reason, `${what}: ${advice}`, { outcome, cause: error })
}

/** The byte of the shared memory beside the file that SQLite locks to write (https://sqlite.org/walformat.html, 2.3). */
const WRITE_LOCK_BYTE = "120"

/** `1: POSIX  ADVISORY  WRITE 6790 fe:00:3402373 120 120`; the line of a process that waits begins with an arrow. */
const LOCK = /^\d+: POSIX +\S+ +WRITE (\d+) [0-9a-f]+:[0-9a-f]+:(\d+) (\d+) (\d+)$/gm

/**
 * The process that holds the write lock of a database file; `undefined` where that cannot be known: on other systems, and for a process of another container. The file is not opened for it:
 * as soon as a process closes a file, it loses all its locks on it.
 */
export const lockHolder = (path: string | undefined): number | undefined => {
  if (path === undefined) return undefined
  try {
    const { ino } = statSync(`${path}-shm`)
    for (const [, pid, inode, first, last] of readFileSync("/proc/locks", "utf8").matchAll(LOCK)) {
      const isIt = Number(inode) === ino && first === WRITE_LOCK_BYTE && last === WRITE_LOCK_BYTE
      if (isIt && Number(pid) > 0) return Number(pid)
    }
  } catch {
    // The message then names no process.
  }
  return undefined
}

/** Says which program keeps a file locked, and what to do about it. */
export const heldBy = (path: string | undefined, held: string): string => {
  const pid = lockHolder(path)
  return pid === undefined
    ? `another program has held the lock ${held}: end it if it does not release the lock`
    : `process ${pid} has held the lock ${held}: end it if it does not release the lock, or continue it if it was stopped (kill -CONT ${pid})`
}
