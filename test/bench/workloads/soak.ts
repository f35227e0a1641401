/** A steady load for minutes: memory must not grow with time. */
import { ours } from "../harness/contenders.ts"
import { measure, startProgram } from "../harness/program.ts"
import { resident } from "../harness/resident.ts"
import { processorColumns, type Workload } from "../harness/workload.ts"

const PER_SECOND = 500

export const soak = (seconds: number): Workload => ({
  name: "soak",
  title: `Soak, ${(seconds / 60).toFixed(1)} minutes`,
  note: `${PER_SECOND} jobs/s into one process that submits and works. Memory is the mean of the first and of the last fifth.`,
  main: "lastMiB",
  better: "less",
  rounds: 1,
  columns: [
    { key: "perSecond", title: "jobs/s" },
    { key: "p50", title: "wait p50 ms" },
    { key: "p99", title: "p99 ms" },
    { key: "max", title: "most ms" },
    { key: "firstMiB", title: "first MiB" },
    { key: "lastMiB", title: "last MiB" },
    { key: "brokerMiB", title: "broker MiB" },
    ...processorColumns,
  ],
  contenders: ours(async (board) => {
    const figures = await measure(startProgram("programs/soak.ts", [board.url, PER_SECOND, seconds]), board)
    return { ...figures, ...(board.broker === undefined ? {} : { brokerMiB: resident(board.broker).MiB }) }
  }).map(({ ratios: _, ...contender }) => contender),
})
