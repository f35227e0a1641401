/** Jobs that do nothing, from submission to the stored result, in one process. */
import { nats, sqlite } from "../harness/boards.ts"
import { bullmq, ours, raw } from "../harness/contenders.ts"
import { measure, startOn, startProgram } from "../harness/program.ts"
import { processorColumns, type Workload } from "../harness/workload.ts"
import type { Form } from "./forms.ts"

export const endToEnd = ({ jobs, isFull }: Form): Workload => ({
  name: "end-to-end",
  title: "End to end, one process",
  note: `${jobs.toLocaleString("en")} jobs of 256 bytes that do nothing, submitted 1,000 at a time, with stored results.`,
  main: "perSecond",
  better: "more",
  columns: [{ key: "perSecond", title: "jobs/s" }, ...processorColumns, { key: "rssMiB", title: "MiB" }],
  contenders: [
    ...ours((board) => measure(startProgram("programs/end-to-end.ts", [board.url, jobs, 200]), board), { raw: true }),
    raw(sqlite, (board) => measure(startProgram("programs/raw-sqlite.ts", [board.url.slice(7), jobs]), board)),
    raw(nats, (board) => measure(startProgram("programs/raw-nats.ts", [board.url, jobs, 200]), board)),
    ...bullmq(
      (board, port, runtime) => measure(startOn(runtime, "peers/bullmq/end-to-end.js", [port, jobs, 150]), board),
      { everySecond: isFull },
    ),
  ],
})
