/** Jobs that are due later, and how late they start. */
import { bullmqOnNode, ours } from "../harness/contenders.ts"
import { measure, startOn, startProgram } from "../harness/program.ts"
import { processorColumns, type Workload } from "../harness/workload.ts"
import type { Form } from "./forms.ts"

/** As many are due in each second, once all are submitted; every contender submits faster. */
const PER_SECOND = 5_000

export const scheduled = ({ jobs: max }: Form): Workload => {
  const jobs = 2 * max
  const ms = Math.max(3_000, (1_000 * jobs) / PER_SECOND)
  return {
    name: "scheduled",
    title: `${jobs.toLocaleString("en")} scheduled jobs`,
    note: `Submitted first, then due over ${ms / 1_000} s, evenly; in one process. One round.`,
    main: "p99",
    better: "less",
    rounds: 1,
    columns: [
      { key: "submitPerSecond", title: "submitted/s" },
      { key: "p50", title: "late p50 ms" },
      { key: "p99", title: "p99 ms" },
      { key: "max", title: "most ms" },
      { key: "early", title: "too early" },
      ...processorColumns,
      { key: "rssMiB", title: "MiB" },
    ],
    contenders: [
      ...ours((board) => measure(startProgram("programs/scheduled.ts", [board.url, jobs, ms, ms]), board)),
      bullmqOnNode((board, port) => measure(startOn("node", "peers/bullmq/scheduled.js", [port, jobs, ms, ms]), board)),
    ],
  }
}
