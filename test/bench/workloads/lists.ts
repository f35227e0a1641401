/** How long lists, counts and the overview take with few and with many jobs. */
import { type BoardKind, nats, sqlite } from "../harness/boards.ts"
import { names, on } from "../harness/contenders.ts"
import { memoryMetered, postgresMetered } from "../harness/meters.ts"
import { measure, startProgram } from "../harness/program.ts"
import type { Contender, Workload } from "../harness/workload.ts"
import type { Form } from "./forms.ts"

const FEW = 1_000

export const lists = ({ jobs }: Form): Workload => {
  const sizes = [FEW, 20 * jobs]
  const rowName = (name: string, size: number) => `${name}, ${size.toLocaleString("en")}`
  const rows: ReadonlyArray<{ readonly kind: BoardKind; readonly name: string }> = [
    { kind: memoryMetered, name: "Callboard, memory" },
    { kind: sqlite, name: names.sqlite },
    { kind: nats, name: names.nats },
    { kind: postgresMetered, name: "Callboard, postgres" },
  ]
  return {
    name: "lists",
    title: "Lists, counts and the overview",
    note: "Median of 30 calls, each with a budget of 50 ms, and of 6 for queues, pulse and stats. One job in a hundred has failed, one in a thousand in the queue `few`; the others have succeeded, and as many as have failed wait. `aside`, and the jobs by root, parent and group, are 60 of the oldest. One round.",
    main: "failed",
    better: "less",
    rounds: 1,
    columns: [
      { key: "failed", title: "50 failed ms" },
      { key: "few", title: "in one queue ms" },
      { key: "task", title: "of one task ms" },
      { key: "newest", title: "50 newest ms" },
      { key: "fine", title: "50 succeeded ms" },
      { key: "waiting", title: "50 waiting ms" },
      { key: "asideQueue", title: "in aside ms" },
      { key: "asideTask", title: "of its task ms" },
      { key: "root", title: "by root ms" },
      { key: "parent", title: "by parent ms" },
      { key: "group", title: "by group ms" },
      { key: "count", title: "count failed ms" },
      { key: "succeeded", title: "count succeeded ms" },
      { key: "queues", title: "queues ms" },
      { key: "pulse", title: "pulse ms" },
      { key: "stats", title: "stats ms" },
      { key: "slowest", title: "slowest ms" },
    ],
    contenders: rows.flatMap(({ kind, name }) =>
      sizes.map(
        (size): Contender => ({
          name: rowName(name, size),
          durability: kind.durability,
          ...(size === FEW ? {} : { ratios: { "of few": [rowName(name, FEW)] } }),
          run: () => on(kind, (board) => measure(startProgram("programs/lists.ts", [board.url, size]), board)),
        }),
      ),
    ),
  }
}
