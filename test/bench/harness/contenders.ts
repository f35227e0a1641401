/** The contenders that several workloads have. Each has the same name in all of them. */

import { npmPeers } from "../peers/npm.ts"
import { redis, redisEverySecond } from "../peers/redis.ts"
import type { Figures } from "../report/figures.ts"
import { type Board, type BoardKind, nats, sqlite } from "./boards.ts"
import type { Contender } from "./workload.ts"

/** Measures on a board that is opened for this run, and closed after it. */
export const on = async (kind: BoardKind, run: (board: Board) => Promise<Figures>): Promise<Figures> => {
  await using board = await kind.open()
  return await run(board)
}

export const names = {
  memory: "Callboard, memory",
  nats: "Callboard, nats",
  sqlite: "Callboard, sqlite",
  redis: "Callboard, redis",
  rawNats: "raw JetStream",
  rawSqlite: "raw SQLite",
  bullmqNode: "BullMQ, Node",
  bullmqBun: "BullMQ, Bun",
  bullmqEverySecond: "BullMQ, Node, appendonly",
  bunqueueFile: "bunqueue, file",
  bunqueueMemory: "bunqueue, memory",
  celery: "Celery, prefork 2",
  rq: "RQ, forking worker",
} as const

/** The libraries that users of each transport would use instead. */
const peersOf = {
  nats: [names.bullmqNode, names.bullmqBun],
  sqlite: [names.bunqueueFile],
} as const

type Runs = (board: Board) => Promise<Figures>

interface Comparisons {
  /** Whether to compare with the raw loops. Defaults to false. */
  readonly raw?: boolean
  /** Whether to compare with the peers in Python. Defaults to false. */
  readonly python?: boolean
}

/** Callboard on both transports, compared with the raw loops and the peers of each. */
export const ours = (run: Runs, { raw = false, python = false }: Comparisons = {}): ReadonlyArray<Contender> =>
  [sqlite, nats].map((kind) => {
    const isNats = kind === nats
    return {
      name: isNats ? names.nats : names.sqlite,
      durability: kind.durability,
      ratios: {
        ...(raw ? { "of raw": [isNats ? names.rawNats : names.rawSqlite] } : {}),
        "of peer": isNats ? peersOf.nats : peersOf.sqlite,
        ...(python && isNats ? { "of Celery": [names.celery], "of RQ": [names.rq] } : {}),
      },
      run: () => on(kind, run),
    }
  })

export const raw = (kind: BoardKind, run: Runs): Contender => ({
  name: kind === nats ? names.rawNats : names.rawSqlite,
  durability: kind.durability,
  run: () => on(kind, run),
})

/** BullMQ on Redis. The program of the workload gets the port of Redis. */
export const bullmq = (
  run: (board: Board, port: string, runtime: "node" | "bun") => Promise<Figures>,
  { everySecond = false } = {},
): ReadonlyArray<Contender> => {
  const kinds = [
    { name: names.bullmqNode, kind: redis, runtime: "node" as const },
    { name: names.bullmqBun, kind: redis, runtime: "bun" as const },
    { name: names.bullmqEverySecond, kind: redisEverySecond, runtime: "node" as const },
  ]
  return kinds
    .filter(({ kind }) => everySecond || kind === redis)
    .map(({ name, kind, runtime }) => ({
      name,
      durability: kind.durability,
      run: async () => {
        await npmPeers()
        return on(kind, (board) => run(board, new URL(board.url).port, runtime))
      },
    }))
}

/** BullMQ on Node only, for workloads in which one row is enough. */
export const bullmqOnNode = (run: (board: Board, port: string) => Promise<Figures>): Contender => ({
  name: names.bullmqNode,
  durability: redis.durability,
  run: async () => {
    await npmPeers()
    return on(redis, (board) => run(board, new URL(board.url).port))
  },
})

/** bunqueue, which runs inside the program of the workload. The program gets the path of its file, or `memory`. */
export const bunqueue = (run: (board: Board, where: string) => Promise<Figures>): ReadonlyArray<Contender> => [
  {
    name: names.bunqueueFile,
    durability: "in the process, in the file within 10 ms, no fsync",
    run: async () => {
      await npmPeers()
      // The file is in an empty folder of its own, as with Callboard.
      return on(sqlite, (board) => run(board, fileIn(board)))
    },
  },
  {
    name: names.bunqueueMemory,
    durability: "in the process",
    run: async () => {
      await npmPeers()
      return run({ url: "memory", [Symbol.asyncDispose]: async () => {} }, "memory")
    },
  },
]

/** The file of a board of SQLite. */
export const fileIn = (board: Board): string => board.url.replace(/^sqlite:/, "")
