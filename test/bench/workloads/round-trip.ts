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

/**
 * How trips are made. `spaced`: with a pause before each one, as an idle service sees them; a benchmark that waits for results sees
 * none. `longer`: so many that the compilers of the runtimes have done most of their work.
 */
type Kind = "" | "spaced" | "longer"

const SPACE_MS = 4
const LONGER = 10

const nameOf = (name: string, kind: Kind): string => (kind === "" ? name : `${name}-${kind}`)

const howOf = (kind: Kind): string =>
  kind === "spaced" ? `${SPACE_MS} ms apart` : kind === "longer" ? "back to back, a longer run" : "back to back"

const tripsOf = ({ trips }: Form, kind: Kind) => ({
  trips: kind === "longer" ? LONGER * trips : trips,
  gapMs: kind === "spaced" ? SPACE_MS : 0,
})

export const roundTrip = (form: Form, kind: Kind): Workload => {
  const { trips, gapMs } = tripsOf(form, kind)
  return {
    name: nameOf("round-trip", kind),
    title: `Idle round trip, one process, ${howOf(kind)}`,
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
      ...(form.isFull
        ? bunqueue((board, where) =>
            measure(startProgram("peers/bunqueue/round-trip.ts", [where, trips, gapMs]), board),
          )
        : []),
    ],
  }
}

/** The same with the worker in another process. */
export const roundTripAcross = (form: Form, kind: Kind): Workload => {
  const { trips, gapMs } = tripsOf(form, kind)
  return {
    name: nameOf("round-trip-across", kind),
    title: `Idle round trip, two processes, ${howOf(kind)}`,
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
  }
}
