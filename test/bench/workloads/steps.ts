/** Durable steps: how many per second, against the bare writes that they are made of, and how soon a long job goes on. */
import { type Board, memory } from "../harness/boards.ts"
import { names, on, ours } from "../harness/contenders.ts"
import { measure, startProgram } from "../harness/program.ts"
import { processorColumns, type Workload } from "../harness/workload.ts"

const FLOWS = 64

const run = (board: Board) => measure(startProgram("programs/steps.ts", [board.url, FLOWS]), board)

export const steps = (): Workload => ({
  name: "steps",
  title: "Durable steps",
  note: `Steps that do nothing, 100 in each of ${FLOWS} jobs at a time, against a bare chain of compare-and-sets with the same pages, in turn with them: target 0.4 of it. One: the median time of a step of a job that is alone. Resume: a job of 1,000 steps runs again, from its begin to the first new step: target 50 ms.`,
  main: "perSecond",
  better: "more",
  columns: [
    { key: "perSecond", title: "steps/s" },
    { key: "bare", title: "bare/s" },
    { key: "ofBare", title: "of bare" },
    { key: "stepMs", title: "one ms" },
    { key: "resumeMs", title: "resume ms" },
    ...processorColumns,
    { key: "rssMiB", title: "MiB" },
  ],
  contenders: [{ name: names.memory, durability: memory.durability, run: () => on(memory, run) }, ...ours(run)],
})
