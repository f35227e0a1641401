/** Job boards: what a job costs that is posted, claimed and consumed, on an empty board and on one with a backlog. */
import { type BoardKind, nats, sqlite } from "../harness/boards.ts"
import { names, on } from "../harness/contenders.ts"
import { measure, startProgram } from "../harness/program.ts"
import { type Contender, processorColumns, type Workload } from "../harness/workload.ts"
import type { Form } from "./forms.ts"

const CLAIMERS = [1, 64]

const rows = (kind: BoardKind, name: string, backlog: number, cycles: number): ReadonlyArray<Contender> =>
  CLAIMERS.map((claimers) => ({
    name: `${name}, ${claimers === 1 ? "one by one" : `${claimers} claimers`}, ${backlog.toLocaleString("en")} waiting`,
    durability: kind.durability,
    run: () =>
      on(kind, (board) => measure(startProgram("programs/board.ts", [board.url, backlog, claimers, cycles]), board)),
  }))

const BACKLOGS = [0, 200_000]

export const board = ({ limited }: Form): Workload => {
  return {
    name: "board",
    title: "Job boards",
    note: `A cycle: a job is posted, claimed and consumed. "of bare": of three bare writes of one key in the same run; "of same": of writes with the board's bytes, in its order, beside as many keys that wait. With 64 claimers each claims the next job.`,
    main: "perSecond",
    better: "more",
    columns: [
      { key: "perSecond", title: "cycles/s" },
      { key: "bare", title: "3 writes/s" },
      { key: "ofBare", title: "of bare" },
      { key: "ofSame", title: "of same" },
      ...processorColumns,
    ],
    contenders: BACKLOGS.flatMap((backlog) => [
      ...rows(sqlite, names.sqlite, backlog, limited),
      ...rows(nats, names.nats, backlog, limited),
    ]),
  }
}
