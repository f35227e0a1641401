/** Jobs of ten milliseconds, a hundred at a time: what is left of the 10,000 a second that this could be. */
import { bullmq, bunqueue, ours } from "../harness/contenders.ts"
import { measure, startOn, startProgram } from "../harness/program.ts"
import { processorColumns, type Workload } from "../harness/workload.ts"
import type { Form } from "./forms.ts"

const NAP_MS = 10
const AT_A_TIME = 100

export const naps = ({ jobs: max }: Form): Workload => {
  const jobs = Math.min(20_000, max)
  return {
    name: "ten-ms",
    title: `Jobs of ${NAP_MS} ms, ${AT_A_TIME} at a time`,
    note: `${jobs.toLocaleString("en")} jobs in one process; the machine could do 10,000/s if timers and queue took nothing.`,
    main: "perSecond",
    better: "more",
    columns: [{ key: "perSecond", title: "jobs/s" }, ...processorColumns, { key: "rssMiB", title: "MiB" }],
    contenders: [
      ...ours((board) => measure(startProgram("programs/end-to-end.ts", [board.url, jobs, AT_A_TIME, NAP_MS]), board)),
      ...bullmq(
        (board, port, runtime) =>
          measure(startOn(runtime, "peers/bullmq/end-to-end.js", [port, jobs, AT_A_TIME, NAP_MS]), board),
        { everySecond: true },
      ),
      ...bunqueue((board, where) =>
        measure(startProgram("peers/bunqueue/end-to-end.ts", [where, jobs, AT_A_TIME, NAP_MS]), board),
      ),
    ],
  }
}
