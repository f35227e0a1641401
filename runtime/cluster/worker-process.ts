/**
 * Which process a worker is. Containers may share a host name, and each of them counts its processes from 1: a process id tells
 * something only within the PID namespace, and the boot, in which it was given.
 */
import { createHash } from "node:crypto"
import { readFileSync, readlinkSync } from "node:fs"
import { hostname } from "node:os"
import { compact } from "../protocol/compact.ts"

/** A process, as a worker that runs in it describes it. */
export interface WorkerProcess {
  readonly pid: number
  /** Names the PID namespace and the boot of its machine. Absent where the system does not tell them (it is no Linux). */
  readonly pidSpace?: string
  /** Distinguishes the worker from every other one. Absent in the entries of older versions. */
  readonly instance?: string
}

const random = (): string => crypto.randomUUID().slice(0, 6)

/** Named before a worker has a name of its own: `<host>-<six random digits>`. */
export const newWorkerName = (): string => `${hostname()}-${random()}`

let space: { readonly name: string | undefined } | undefined

/** The same for all processes of a PID namespace, and for no others. It is a digest: which machine it is concerns nobody. */
const ownPidSpace = (): string | undefined => {
  space ??= { name: readPidSpace() }
  return space.name
}

const readPidSpace = (): string | undefined => {
  try {
    const parts = [readFileSync("/proc/sys/kernel/random/boot_id", "latin1").trim(), readlinkSync("/proc/self/ns/pid")]
    return createHash("sha256").update(parts.join(" ")).digest("hex").slice(0, 16)
  } catch {
    return undefined
  }
}

/** Instances of this process begin with it. */
const here = `${crypto.randomUUID().slice(0, 13)}.`
let count = 0

/** Describes this process for one worker; every worker has an instance of its own. */
export const newWorkerProcess = (): WorkerProcess => {
  const pidSpace = ownPidSpace()
  return { pid: process.pid, ...compact({ pidSpace }), instance: `${here}${++count}` }
}

/** Whether a worker runs in this process. */
export const isThisProcess = ({ instance }: WorkerProcess): boolean => instance?.startsWith(here) === true

/** Whether the process of a worker is known to be gone: only of one in the same PID namespace that can be known. */
export const isDead = (
  worker: WorkerProcess,
  own: { readonly pid: number; readonly pidSpace: string | undefined } = { pid: process.pid, pidSpace: ownPidSpace() },
): boolean => {
  const { pid, pidSpace } = worker
  if (pidSpace === undefined || pidSpace !== own.pidSpace) return false
  // Process ids are given again: this process has that of the worker before it.
  if (pid === own.pid) return !isThisProcess(worker)
  try {
    process.kill(pid, 0)
    return false
  } catch (cause) {
    return cause instanceof Error && "code" in cause && cause.code === "ESRCH"
  }
}
