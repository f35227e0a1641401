/** Redis out of Debian's package, on a port and with a folder of its own. */
import { join } from "node:path"
import { freePort, spawnProcess, temporaryFolder } from "../../support/servers/process.ts"
import type { Board, BoardKind } from "../harness/boards.ts"
import { libraryPath, unpacked, versionIn } from "./unpacked.ts"

/** Without what every machine has, and without Perl, which only a tool beside the server wants. */
const LIBRARIES = /^(redis-tools$|lib(?!c6$|c-bin$|gcc|stdc|perl|.*-perl$))/

const folderOf = () => unpacked("redis-server", "usr/bin/redis-server", LIBRARIES)

export const redisVersion = async (): Promise<string> => versionIn(await folderOf())

interface RedisBoard extends Board {
  readonly broker: number
}

const start = async (settings: ReadonlyArray<string>): Promise<RedisBoard> => {
  const from = await folderOf()
  const folder = temporaryFolder()
  const port = await freePort()
  const own = ["--port", String(port), "--bind", "127.0.0.1", "--dir", folder.path]
  const program = join(from, "usr/bin/redis-server")
  const server = spawnProcess(program, [...own, ...settings], { env: { LD_LIBRARY_PATH: libraryPath(from) } })
  const stop = async () => {
    await server.end()
    folder.remove()
  }
  try {
    await server.waitForLine(/Ready to accept connections/)
  } catch (error) {
    await stop()
    throw error
  }
  return { url: `redis://127.0.0.1:${port}`, broker: server.pid, [Symbol.asyncDispose]: stop }
}

const WITHOUT_SNAPSHOTS = ["--save", ""]

export const redis: BoardKind = {
  name: "redis",
  durability: "in the server's memory",
  open: () => start([...WITHOUT_SNAPSHOTS, "--appendonly", "no"]),
}

export const redisEverySecond: BoardKind = {
  name: "redis, everysec",
  durability: "in the server's file, fsync every second",
  open: () => start([...WITHOUT_SNAPSHOTS, "--appendonly", "yes", "--appendfsync", "everysec"]),
}
