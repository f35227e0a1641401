/** How much of a rate is delivered while more jobs wait. */
import type { Spawned } from "../../support/servers/process.ts"
import { type Board, type BoardKind, nats, sqlite } from "../harness/boards.ts"
import { names } from "../harness/contenders.ts"
import { measure, startOn, startProgram } from "../harness/program.ts"
import type { Contender, Workload } from "../harness/workload.ts"
import { npmPeers } from "../peers/npm.ts"
import { redis } from "../peers/redis.ts"
import type { Figures } from "../report/figures.ts"
import type { Form } from "./forms.ts"

const RATES = [1, 10, 100, 1_000] as const

/** All rates at the same time, each on a board of its own, since they wait most of it. */
const kept = async (
  kind: BoardKind,
  seconds: number,
  start: (board: Board, rate: number) => Spawned,
): Promise<Figures> => {
  const shares = await Promise.all(
    RATES.map(async (rate) => {
      await using board = await kind.open()
      const { starts = Number.NaN } = await measure(start(board, rate), board)
      return [`of${rate}`, (100 * starts) / (rate * seconds)] as const
    }),
  )
  // Too many is as wrong as too few.
  const worst = Math.min(...shares.map(([, share]) => Math.min(share, 200 - share)))
  return { ...Object.fromEntries(shares), worst }
}

export const rates = ({ rateSeconds: seconds }: Form): Workload => {
  const mine = (kind: BoardKind, name: string): Contender => ({
    name,
    durability: kind.durability,
    run: () => kept(kind, seconds, (board, rate) => startProgram("programs/rate.ts", [board.url, rate, seconds])),
  })
  return {
    name: "rates",
    title: "Rates",
    note: `Starts over ${seconds} s, as a part of what the rate allows; the four rates side by side. One round.`,
    main: "worst",
    better: "more",
    rounds: 1,
    columns: [
      ...RATES.map((rate) => ({ key: `of${rate}`, title: `% of ${rate.toLocaleString("en")}/s` })),
      { key: "worst", title: "worst %" },
    ],
    contenders: [
      mine(sqlite, names.sqlite),
      mine(nats, names.nats),
      {
        name: names.bullmqNode,
        durability: redis.durability,
        run: async () => {
          await npmPeers()
          return kept(redis, seconds, (board, rate) =>
            startOn("node", "peers/bullmq/rate.js", [new URL(board.url).port, rate, seconds]),
          )
        },
      },
    ],
  }
}
