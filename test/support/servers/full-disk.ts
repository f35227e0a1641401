/**
 * Real disks that are full on command, for programs in processes of their own: a small file system, where one can be
 * mounted, and a limit of the operating system on the size of files, which needs no rights.
 */
import { spawnSync } from "node:child_process"
import { closeSync, openSync, rmSync, writeSync } from "node:fs"
import { type Spawned, spawnProcess, spawnScript, temporaryFolder } from "./process.ts"

export interface Disk extends AsyncDisposable {
  /** A folder on it, as the programs see it. */
  readonly folder: string
  /** Starts a program for which it is full when it is. */
  run(script: string, args: ReadonlyArray<string>): Spawned
  /** From now on it takes nothing more. */
  fill(): void
  /** There is room again. */
  free(): void
}

export interface DiskKind {
  readonly name: string
  make(): Promise<Disk>
}

/** How large the files may be that a process writes. Whoever is not deaf to SIGXFSZ is ended by going beyond that. */
export const limitFiles = (pid: number, bytes: number | "unlimited"): void =>
  tool("prlimit", "--pid", `${pid}`, `--fsize=${bytes}:unlimited`)

const tool = (command: string, ...args: ReadonlyArray<string>): void => {
  const { status, stderr, error } = spawnSync(command, args, { encoding: "utf8" })
  if (status !== 0) throw new Error(`${command} ${args.join(" ")}: ${error?.message ?? stderr}`)
}

/** Less than any database has. */
const LITTLE = 4096

/** SQLite calls it an error of the disk, not a full one. */
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

/** In a view of the file systems that ends with the process that holds it, so that nothing stays mounted. */
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
          // No room is left.
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

/** Whether this machine lets us mount something: containers seldom do. */
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

/** The kinds that this machine can make; at least the one that every one can. */
export const diskKinds = (): ReadonlyArray<DiskKind> => (canMount() ? [limited, mounted] : [limited])
