/** One, two and four workers that empty the same backlog. */

import { nats, sqlite } from "../harness/boards.ts"
import { bullmqOnNode, names, on } from "../harness/contenders.ts"
import { draining } from "../harness/workers.ts"
import { type Contender, processorColumns, type Workload } from "../harness/workload.ts"
import { redis } from "../peers/redis.ts"
import { bullmqPrograms, ourPrograms } from "./across.ts"
import type { Form } from "./forms.ts"

const WORKERS = [1, 2, 4] as const

const rowName = (name: string, workers: number): string => `${name}, ${workers} worker${workers === 1 ? "" : "s"}`

/** The same with each number of workers, compared with one. */
const each = (name: string, make: (workers: number) => Omit<Contender, "name" | "ratios">): ReadonlyArray<Contender> =>
  WORKERS.map((workers) => ({
    ...make(workers),
    name: rowName(name, workers),
    ...(workers === 1 ? {} : { ratios: { "of one": [rowName(name, 1)] } }),
  }))

export const drain = ({ jobs: max }: Form): Workload => {
  const jobs = Math.min(200_000, 4 * max)
  const mine = [
    { kind: sqlite, name: names.sqlite },
    { kind: nats, name: names.nats },
    { kind: redis, name: names.redis },
  ]
  return {
    name: "drain",
    title: `Draining ${jobs.toLocaleString("en")} jobs`,
    note: "Workers begin together, each in a process of its own; from the first job settled to the last. One round: filling takes as long. The fewest jobs of a worker are a part of an equal share.",
    main: "perSecond",
    better: "more",
    rounds: 1,
    columns: [
      { key: "perSecond", title: "jobs/s" },
      { key: "fewest", title: "fewest %" },
      ...processorColumns,
      { key: "rssMiB", title: "MiB of all" },
    ],
    contenders: [
      ...mine.flatMap(({ kind, name }) =>
        each(name, (workers) => ({
          durability: kind.durability,
          run: () => on(kind, (board) => draining(board, ourPrograms(board.url), workers, jobs)),
        })),
      ),
      ...each(names.bullmqNode, (workers) =>
        bullmqOnNode((board, port) => draining(board, bullmqPrograms("node", port), workers, jobs)),
      ),
    ],
  }
}
