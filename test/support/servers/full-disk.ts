/**
 * Disks that become full on command, for programs in processes of their own: a small file system where one can be
 * mounted, and a limit of the operating system on the size of files, which needs no rights.
 */
import { spawnSync } from "node:child_process"
import { closeSync, openSync, rmSync, writeSync } from "node:fs"
import { type Spawned, spawnProcess, spawnScript, temporaryFolder } from "./process.ts"

export interface Disk extends AsyncDisposable {
  /** A folder on the disk, as the programs see it. */
  readonly folder: string
  /** Starts a program on this disk. When the disk is full, its writes fail. */
  run(script: string, args: ReadonlyArray<string>): Spawned
  /** Makes the disk full from now on. */
  fill(): void
  /** Makes room again. */
  free(): void
}

export interface DiskKind {
  readonly name: string
  make(): Promise<Disk>
}

/**
 * Limits the size of the files that a process writes. A process that exceeds it is ended, unless it ignores SIGXFSZ.
 */
export const limitFiles = (pid: number, bytes: number | "unlimited"): void =>
  tool("prlimit", "--pid", `${pid}`, `--fsize=${bytes}:unlimited`)

const tool = (command: string, ...args: ReadonlyArray<string>): void => {
  const { status, stderr, error } = spawnSync(command, args, { encoding: "utf8" })
  if (status !== 0) throw new Error(`${command} ${args.join(" ")}: ${error?.message ?? stderr}`)
}

/** A limit below the size of any database, in bytes. */
const LITTLE = 4096

/** SQLite reports a write beyond this limit as an I/O error, and not as a full disk. */
const limited: DiskKind = {
  name: "whose files may not grow",
  make: async () => {
    const { path, remove } = temporaryFolder()
    const started: Array<Spawned> = []
    const limit = (bytes: number | "unlimited") => {
      for (const { pid, exit } of started) if (exit === undefined) limitFiles(pid, bytes)
    }
    return {
      folder: path,
      run: (script, args) => {
        const program = spawnScript(script, args, { prefix: ["sh", "-c", `trap '' XFSZ; exec "$@"`, "sh"] })
        started.push(program)
        return program
      },
      fill: () => limit(LITTLE),
      free: () => limit("unlimited"),
      [Symbol.asyncDispose]: async () => remove(),
    }
  },
}

const SIZE = "8m"
const CHUNK = 4096

/** The file system is mounted in the namespace of a separate process: when that process ends, it is unmounted. */
const mounted: DiskKind = {
  name: "that is full",
  make: async () => {
    const { path, remove } = temporaryFolder()
    const script = `mount -t tmpfs -o size=${SIZE} tmpfs "$1" && echo mounted && cat`
    const holder = spawnProcess("unshare", ["--mount", "sh", "-c", script, "sh", path])
    await holder.waitForLine(/^mounted$/)
    const filler = `/proc/${holder.pid}/root${path}/filler`
    return {
      folder: path,
      run: (script, args) =>
        spawnScript(script, args, { prefix: ["nsenter", `--mount=/proc/${holder.pid}/ns/mnt`, "--"] }),
      fill: () => {
        const file = openSync(filler, "w")
        const chunk = new Uint8Array(CHUNK)
        try {
          for (;;) writeSync(file, chunk)
        } catch {
          // The write failed: the disk is full.
        } finally {
          closeSync(file)
        }
      },
      free: () => rmSync(filler),
      [Symbol.asyncDispose]: async () => {
        await holder.end()
        remove()
      },
    }
  },
}

/** Whether this process may mount a file system, which containers seldom allow. */
const canMount = (): boolean => {
  const folder = temporaryFolder()
  try {
    tool("unshare", "--mount", "mount", "-t", "tmpfs", "-o", `size=${SIZE}`, "tmpfs", folder.path)
    return true
  } catch {
    return false
  } finally {
    folder.remove()
  }
}

/** The kinds of disk that this machine can make; the limit on file sizes works on every machine. */
export const diskKinds = (): ReadonlyArray<DiskKind> => (canMount() ? [limited, mounted] : [limited])
