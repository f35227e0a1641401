/** Redis as the board of the benchmark's peers, in two durabilities. */
import { type RedisServer, startRedis } from "../../support/servers/redis.ts"
import type { Board, BoardKind } from "../harness/boards.ts"

interface RedisBoard extends Board {
  readonly broker: number
}

const WITHOUT_SNAPSHOTS = ["--save", ""]

const start = async (settings: ReadonlyArray<string>): Promise<RedisBoard> => {
  const { url, pid, stop }: RedisServer = await startRedis([...WITHOUT_SNAPSHOTS, ...settings])
  return { url, broker: pid, [Symbol.asyncDispose]: stop }
}

export const redis: BoardKind = {
  name: "redis",
  durability: "in the server's memory",
  open: () => start(["--appendonly", "no"]),
}

export const redisEverySecond: BoardKind = {
  name: "redis, everysec",
  durability: "in the server's file, fsync every second",
  open: () => start(["--appendonly", "yes", "--appendfsync", "everysec"]),
}
