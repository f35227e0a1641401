/** Durable steps: how many per second, against the bare writes that they are made of, and how soon a long job goes on. */
import { ours } from "../harness/contenders.ts"
import { measure, startProgram } from "../harness/program.ts"
import { processorColumns, type Workload } from "../harness/workload.ts"

const FLOWS = 64

export const steps = (): Workload => ({
  name: "steps",
  title: "Durable steps",
  note: `Steps that do nothing, in ${FLOWS} jobs at a time, against a bare chain of compare-and-sets in the same run: target 0.4 of it. Resume: a job of 1,000 steps runs again; first new step within 50 ms.`,
  main: "perSecond",
  better: "more",
  columns: [
    { key: "perSecond", title: "steps/s" },
    { key: "bare", title: "bare/s" },
    { key: "ofBare", title: "of bare" },
    { key: "resumeMs", title: "resume ms" },
    ...processorColumns,
    { key: "rssMiB", title: "MiB" },
  ],
  contenders: [...ours((board) => measure(startProgram("programs/steps.ts", [board.url, FLOWS]), board))],
})
