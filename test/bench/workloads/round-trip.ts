/** One job at a time on an idle board, from submission to its result. */
import { nats, sqlite } from "../harness/boards.ts"
import { bullmq, bunqueue, fileIn, ours, raw } from "../harness/contenders.ts"
import { measure, startOn, startProgram } from "../harness/program.ts"
import { besideWorker } from "../harness/workers.ts"
import { processorColumns, type Workload } from "../harness/workload.ts"
import type { Form } from "./forms.ts"

const columns = [
  { key: "p50", title: "p50 ms" },
  { key: "p99", title: "p99 ms" },
  { key: "max", title: "most ms" },
  ...processorColumns,
]

const gap = (ms: number): string => (ms === 0 ? "back to back" : `${ms} ms apart`)

/** `gapMs`: the pause before each job; an idle service sees jobs apart, a benchmark that waits for results none. */
export const roundTrip = ({ trips, isFull }: Form, gapMs: 0 | 4): Workload => ({
  name: gapMs === 0 ? "round-trip" : "round-trip-spaced",
  title: `Idle round trip, one process, ${gap(gapMs)}`,
  note: `${trips.toLocaleString("en")} jobs, one at a time: submit, wait for the result.`,
  main: "p50",
  better: "less",
  columns,
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

/** The same with the worker in another process. */
export const roundTripAcross = ({ trips }: Form, gapMs: 0 | 4): Workload => ({
  name: gapMs === 0 ? "round-trip-across" : "round-trip-across-spaced",
  title: `Idle round trip, two processes, ${gap(gapMs)}`,
  note: `${trips.toLocaleString("en")} jobs, one at a time; the worker is another process, and client CPU that of both.`,
  main: "p50",
  better: "less",
  columns,
  contenders: [
    ...ours((board) =>
      besideWorker(board, startProgram("programs/worker.ts", [board.url, 4]), () =>
        startProgram("programs/round-trip.ts", [board.url, "other", trips, gapMs]),
      ),
    ),
    ...bullmq((board, port, runtime) =>
      besideWorker(board, startOn(runtime, "peers/bullmq/worker.js", [port, 4]), () =>
        startOn(runtime, "peers/bullmq/round-trip.js", [port, "other", trips, gapMs]),
      ),
    ),
  ],
})
