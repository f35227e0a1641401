/** What it costs that at most ten jobs of a method run at a time. */
import { type BoardKind, nats, sqlite } from "../harness/boards.ts"
import { bullmqOnNode, names, on } from "../harness/contenders.ts"
import { measure, startOn, startProgram } from "../harness/program.ts"
import { type Contender, processorColumns, type Workload } from "../harness/workload.ts"
import type { Form } from "./forms.ts"

const WAYS = ["limited", "free"] as const

/** The names of the row with the limit, and of that without it. */
const rowName = (name: string, way: (typeof WAYS)[number]): string =>
  way === "limited" ? `${name}, limit of 10` : `${name}, concurrency 10`

const mine = (kind: BoardKind, name: string, jobs: number): ReadonlyArray<Contender> =>
  WAYS.map((way) => ({
    name: rowName(name, way),
    durability: kind.durability,
    ...(way === "limited" ? { ratios: { "of free": [rowName(name, "free")] } } : {}),
    run: () => on(kind, (board) => measure(startProgram("programs/limit.ts", [board.url, way, jobs]), board)),
  }))

const theirs = (jobs: number): ReadonlyArray<Contender> =>
  WAYS.map((way) => ({
    ...bullmqOnNode((board, port) => measure(startOn("node", "peers/bullmq/limit.js", [port, way, jobs]), board)),
    name: rowName(names.bullmqNode, way),
    ...(way === "limited" ? { ratios: { "of free": [rowName(names.bullmqNode, "free")] } } : {}),
  }))

export const limit = ({ limited }: Form): Workload => ({
  name: "limit",
  title: "A limit of ten at a time",
  note: `${limited.toLocaleString("en")} jobs of 5 ms. "of free": of the same concurrency of the worker, without a limit.`,
  main: "perSecond",
  better: "more",
  columns: [{ key: "perSecond", title: "starts/s" }, ...processorColumns],
  contenders: [...mine(sqlite, names.sqlite, limited), ...mine(nats, names.nats, limited), ...theirs(limited)],
})
