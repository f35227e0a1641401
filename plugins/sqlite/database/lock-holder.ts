/** Finds the process that holds the write lock of a database file, where the system tells: on Linux. */
import { readFileSync, statSync } from "node:fs"

/** The byte of the shared memory beside the file that SQLite locks to write (https://sqlite.org/walformat.html, 2.3). */
const WRITE_LOCK_BYTE = "120"

/** `1: POSIX  ADVISORY  WRITE 6790 fe:00:3402373 120 120`; one that waits has an arrow in front. */
const LOCK = /^\d+: POSIX +\S+ +WRITE (\d+) [0-9a-f]+:[0-9a-f]+:(\d+) (\d+) (\d+)$/gm

/**
 * `undefined` where it cannot be known: on other systems, and for a process of another container. The file is not opened for it:
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
    ? `another program has held the lock ${held}: end it if it does not let go`
    : `process ${pid} has held the lock ${held}: end it if it does not let go, or continue it if it was stopped (kill -CONT ${pid})`
}
