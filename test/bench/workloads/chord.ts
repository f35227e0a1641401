/** A wide chord, from its submission to the result of its body. */
import { ours } from "../harness/contenders.ts"
import { measure, startProgram } from "../harness/program.ts"
import { processorColumns, type Workload } from "../harness/workload.ts"

const MEMBERS = 10_000

export const chord = (): Workload => ({
  name: "chord",
  title: `A chord of ${MEMBERS.toLocaleString("en")}`,
  note: "Members that do nothing, and a body that gets their results; in one process. Target on nats: 10 s.",
  main: "seconds",
  better: "less",
  columns: [
    { key: "submitSeconds", title: "submitted s" },
    { key: "seconds", title: "ended s" },
    ...processorColumns,
    { key: "rssMiB", title: "MiB" },
  ],
  contenders: [...ours((board) => measure(startProgram("programs/chord.ts", [board.url, MEMBERS]), board))],
})
