/** One job at a time on an idle board, from submission to its result. */
import { nats, sqlite } from "../harness/boards.ts"
import { bullmq, bunqueue, fileIn, ours, raw } from "../harness/contenders.ts"
import { measure, startOn, startProgram } from "../harness/program.ts"
import { processorColumns, type Workload } from "../harness/workload.ts"
import type { Form } from "./forms.ts"

/** `gapMs`: the pause before each job; an idle service sees jobs apart, a benchmark that waits for results none. */
export const roundTrip = ({ trips, isFull }: Form, gapMs: 0 | 4): Workload => ({
  name: gapMs === 0 ? "round-trip" : "round-trip-spaced",
  title: `Idle round trip, one process, ${gapMs === 0 ? "back to back" : `${gapMs} ms apart`}`,
  note: `${trips.toLocaleString("en")} jobs, one at a time: submit, wait for the result.`,
  main: "p50",
  better: "less",
  columns: [
    { key: "p50", title: "p50 ms" },
    { key: "p99", title: "p99 ms" },
    { key: "max", title: "most ms" },
    ...processorColumns,
  ],
  contenders: [
    ...ours((board) => measure(startProgram("programs/round-trip.ts", [board.url, "same", trips, gapMs]), board), {
      raw: true,
    }),
    raw(sqlite, (board) => measure(startProgram("programs/raw-sqlite.ts", [fileIn(board), trips, 1, gapMs]), board)),
    raw(nats, (board) => measure(startProgram("programs/raw-nats-round-trip.ts", [board.url, trips, gapMs]), board)),
    ...bullmq((board, port, runtime) =>
      measure(startOn(runtime, "peers/bullmq/round-trip.js", [port, "same", trips, gapMs]), board),
    ),
    ...(isFull
      ? bunqueue((board, where) => measure(startProgram("peers/bunqueue/round-trip.ts", [where, trips, gapMs]), board))
      : []),
  ],
})
