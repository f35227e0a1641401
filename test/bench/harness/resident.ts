/** Memory of processes, as the kernel counts it. */
import { readFileSync } from "node:fs"
import { childrenOf } from "./processor-time.ts"

const kilobytesOf = (pid: number): number =>
  Number(/^VmRSS:\s*(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0)

/** Resident memory of a process with its descendants, and how many processes these are; not on systems without /proc. */
export const resident = (pid: number): { readonly MiB: number; readonly processes: number } => {
  if (process.platform !== "linux") return { MiB: Number.NaN, processes: Number.NaN }
  const below = childrenOf(pid).map(resident)
  return below.reduce((sum, each) => ({ MiB: sum.MiB + each.MiB, processes: sum.processes + each.processes }), {
    MiB: kilobytesOf(pid) / 1_024,
    processes: 1,
  })
}
