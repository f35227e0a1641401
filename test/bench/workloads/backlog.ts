/** Memory of a worker, and of the broker, with a small and with a large backlog. */
import type { Spawned } from "../../support/servers/process.ts"
import { type Board, nats, sqlite } from "../harness/boards.ts"
import { bullmqOnNode, names, on } from "../harness/contenders.ts"
import { measure, startOn, startProgram } from "../harness/program.ts"
import { resident } from "../harness/resident.ts"
import type { Programs } from "../harness/workers.ts"
import type { Contender, Workload } from "../harness/workload.ts"
import type { Figures } from "../report/figures.ts"
import { bullmqPrograms, ourPrograms } from "./across.ts"
import type { Form } from "./forms.ts"

/** Jobs after which the memory is read: the same whatever the backlog. */
const WORKED = 1_000

const onBacklog = async (board: Board, programs: Programs, jobs: number, start: () => Spawned): Promise<Figures> => {
  await measure(programs.submitter(0, jobs), { clients: [] })
  const figures = await measure(start(), board)
  return { ...figures, ...(board.broker === undefined ? {} : { brokerMiB: resident(board.broker).MiB }) }
}

export const backlog = ({ jobs }: Form): Workload => {
  const sizes = [WORKED, 10 * jobs]
  const rowName = (name: string, size: number | undefined) => `${name}, ${size?.toLocaleString("en")}`
  const each = (name: string, make: (size: number) => Omit<Contender, "name">): ReadonlyArray<Contender> =>
    sizes.map((size) => ({
      ...make(size),
      name: rowName(name, size),
      ...(size === WORKED ? {} : { ratios: { "of small": [rowName(name, WORKED)] } }),
    }))
  const mine = [
    { kind: sqlite, name: names.sqlite },
    { kind: nats, name: names.nats },
  ]
  return {
    name: "backlog",
    title: "Memory with a backlog",
    note: `Of a worker after ${WORKED.toLocaleString("en")} jobs, and of the broker then. One round.`,
    main: "rssMiB",
    better: "less",
    rounds: 1,
    columns: [
      { key: "rssMiB", title: "worker MiB" },
      { key: "brokerMiB", title: "broker MiB" },
    ],
    contenders: [
      ...mine.flatMap(({ kind, name }) =>
        each(name, (size) => ({
          durability: kind.durability,
          run: () =>
            on(kind, (board) =>
              onBacklog(board, ourPrograms(board.url), size, () =>
                startProgram("programs/backlog.ts", [board.url, WORKED]),
              ),
            ),
        })),
      ),
      ...each(names.bullmqNode, (size) =>
        bullmqOnNode((board, port) =>
          onBacklog(board, bullmqPrograms("node", port), size, () =>
            startOn("node", "peers/bullmq/backlog.js", [port, WORKED]),
          ),
        ),
      ),
    ],
  }
}
