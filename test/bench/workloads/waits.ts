/** Jobs that wait: how many continue per second, against plain jobs, and how soon one continues that is signalled. */
import { type Board, memory } from "../harness/boards.ts"
import { names, on, ours } from "../harness/contenders.ts"
import { measure, startProgram } from "../harness/program.ts"
import { processorColumns, type Workload } from "../harness/workload.ts"

const JOBS = 500

const run = (board: Board) => measure(startProgram("programs/waits.ts", [board.url, JOBS]), board)

export const waits = (): Workload => ({
  name: "waits",
  title: "Jobs that wait",
  note: `${JOBS} jobs that sleep and are due at the same moment, from then to their end, against as many plain jobs from submission to end, in turn with them: target 0.25 of these. Submit, signal: the median time of a job that is alone from its submission to its first step, and from its signal to the next one: target 2 ms more.`,
  main: "perSecond",
  better: "more",
  columns: [
    { key: "perSecond", title: "woken/s" },
    { key: "plain", title: "plain/s" },
    { key: "ofPlain", title: "of plain" },
    { key: "submitMs", title: "submit ms" },
    { key: "signalMs", title: "signal ms" },
    { key: "signalP99Ms", title: "p99 ms" },
    ...processorColumns,
    { key: "rssMiB", title: "MiB" },
  ],
  contenders: [{ name: names.memory, durability: memory.durability, run: () => on(memory, run) }, ...ours(run)],
})
