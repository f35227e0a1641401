/** End to end with a process that submits and another one that works. */
import { bullmq, ours } from "../harness/contenders.ts"
import { startOn, startProgram } from "../harness/program.ts"
import { acrossProcesses, type Programs } from "../harness/workers.ts"
import { processorColumns, type Workload } from "../harness/workload.ts"
import type { Form } from "./forms.ts"

/** Ours on a board. */
export const ourPrograms = (url: string, concurrency = 200): Programs => ({
  worker: () => startProgram("programs/worker.ts", [url, concurrency]),
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
    ...ours((board) => acrossProcesses(board, ourPrograms(board.url), jobs)),
    ...bullmq((board, port, runtime) => acrossProcesses(board, bullmqPrograms(runtime, port), jobs), {
      everySecond: true,
    }),
  ],
})
