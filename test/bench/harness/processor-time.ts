/** Processor time of a process, as the kernel counts it. */
import { readdirSync, readFileSync } from "node:fs"

/** One tick of the counters in /proc, the same on every Linux. */
const TICK_MICROS = 10_000

/** Ticks in a line of /proc/PID/stat: of the process and of the children that it has waited for. */
export const ticksIn = (stat: string): number => {
  // The second field is the name in parentheses, and may hold blanks and parentheses itself.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ")
  return fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0)
}

export const childrenOf = (pid: number): ReadonlyArray<number> =>
  readdirSync(`/proc/${pid}/task`).flatMap((thread) =>
    readFileSync(`/proc/${pid}/task/${thread}/children`, "utf8").split(" ").filter(Boolean).map(Number),
  )

const ticksOf = (pid: number): number => {
  try {
    const own = ticksIn(readFileSync(`/proc/${pid}/stat`, "utf8"))
    return childrenOf(pid).reduce((sum, child) => sum + ticksOf(child), own)
  } catch {
    // It has ended; its parent has its ticks.
    return 0
  }
}

/** Microseconds of processor time that processes and their descendants have used; not a number where there is no /proc. */
export const processorMicros = (pids: ReadonlyArray<number>): number =>
  process.platform === "linux" ? pids.reduce((sum, pid) => sum + ticksOf(pid), 0) * TICK_MICROS : Number.NaN
