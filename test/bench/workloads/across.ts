/** End to end with a process that submits and another one that works. */
import { bullmq, ours } from "../harness/contenders.ts"
import { startOn, startProgram } from "../harness/program.ts"
import { acrossProcesses, type Programs } from "../harness/workers.ts"
import { processorColumns, type Workload } from "../harness/workload.ts"
import type { Form } from "./forms.ts"

/**
 * Tasks held per handler where the rate of jobs that do nothing is measured: the best of 4, 8 and 16, as the peers have
 * their best settings.
 */
export const BEST_PREFETCH = 16

/** Ours on a board, with the default prefetch unless another is given. */
export const ourPrograms = (url: string, prefetch = 4): Programs => ({
  worker: () => startProgram("programs/worker.ts", [url, 200, 0, prefetch]),
  submitter: (warmUp, jobs) => startProgram("programs/submit.ts", [url, warmUp, jobs]),
})

export const bullmqPrograms = (runtime: "node" | "bun", port: string): Programs => ({
  worker: () => startOn(runtime, "peers/bullmq/worker.js", [port, 150]),
  submitter: (warmUp, jobs) => startOn(runtime, "peers/bullmq/submit.js", [port, warmUp, jobs]),
})

export const acrossTwo = ({ jobs }: Form): Workload => ({
  name: "end-to-end-across",
  title: "End to end, from another process",
  note: `${jobs.toLocaleString("en")} jobs that do nothing. Client CPU is that of both processes, MiB of the worker.`,
  main: "perSecond",
  better: "more",
  columns: [
    { key: "perSecond", title: "jobs/s" },
    { key: "submitPerSecond", title: "submitted/s" },
    ...processorColumns,
    { key: "rssMiB", title: "MiB" },
  ],
  contenders: [
    ...ours((board) => acrossProcesses(board, ourPrograms(board.url, BEST_PREFETCH), jobs)),
    ...bullmq((board, port, runtime) => acrossProcesses(board, bullmqPrograms(runtime, port), jobs), {
      everySecond: true,
    }),
  ],
})
