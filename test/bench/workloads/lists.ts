/** How long lists and counts take with few and with many jobs. */
import { nats, sqlite } from "../harness/boards.ts"
import { names, on } from "../harness/contenders.ts"
import { measure, startProgram } from "../harness/program.ts"
import type { Contender, Workload } from "../harness/workload.ts"

export const lists = (): Workload => {
  const sizes = [1_000, 1_000_000]
  const rowName = (name: string, size: number) => `${name}, ${size.toLocaleString("en")}`
  const rows = [
    { kind: sqlite, name: names.sqlite },
    { kind: nats, name: names.nats },
  ]
  return {
    name: "lists",
    title: "Lists and counts",
    note: "Median of 30 calls, each with a budget of 50 ms. One job in a hundred has failed, one in a thousand in the queue `few`; the others have succeeded. One round.",
    main: "failed",
    better: "less",
    rounds: 1,
    columns: [
      { key: "failed", title: "50 failed ms" },
      { key: "few", title: "in one queue ms" },
      { key: "task", title: "of one task ms" },
      { key: "newest", title: "50 newest ms" },
      { key: "waiting", title: "50 waiting ms" },
      { key: "slowest", title: "slowest ms" },
      { key: "count", title: "count failed ms" },
      { key: "succeeded", title: "count succeeded ms" },
      { key: "queues", title: "queues ms" },
    ],
    contenders: rows.flatMap(({ kind, name }) =>
      sizes.map(
        (size): Contender => ({
          name: rowName(name, size),
          durability: kind.durability,
          ...(size === 1_000 ? {} : { ratios: { "of few": [rowName(name, 1_000)] } }),
          run: () => on(kind, (board) => measure(startProgram("programs/lists.ts", [board.url, size]), board)),
        }),
      ),
    ),
  }
}
