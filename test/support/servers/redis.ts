/** Starts Redis from Debian's package for a test or benchmark, on a port or socket and with a folder of its own. */
import { execFile } from "node:child_process"
import { existsSync } from "node:fs"
import { delimiter, join } from "node:path"
import { promisify } from "node:util"
import { debianPackage, environmentOf, ownSuiteFirst, unpackedAt } from "./debian.ts"
import { type FoundProgram, foundEarlier, MissingServer } from "./missing.ts"
import { freePort, type Spawned, spawnProcess, temporaryFolder } from "./process.ts"

/** Name of the server in the results of the search and in the summary of `npm test`. */
export const redisServerName = "redis"

/** Oldest major version that the transport is tested with. */
const OLDEST = 7

/**
 * Dependencies that are unpacked: not the libraries of every machine, nor Perl, which only a tool of the package needs.
 */
const LIBRARIES = /^(redis-tools$|lib(?!c6$|c-bin$|gcc|stdc|perl|.*-perl$))/

const programAt = async (path: string): Promise<FoundProgram | undefined> => {
  if (!existsSync(path)) return undefined
  try {
    const env = { ...process.env, ...environmentOf(unpackedAt(path)) }
    const { stdout } = await promisify(execFile)(path, ["--version"], { timeout: 10_000, env })
    const version = /v=([\d.]+)/.exec(stdout)?.[1] ?? ""
    return Number.parseInt(version, 10) >= OLDEST ? { path, version } : undefined
  } catch {
    return undefined
  }
}

const find = async (): Promise<FoundProgram> => {
  const given = process.env.REDIS_SERVER
  const folders = (process.env.PATH ?? "").split(delimiter).filter((folder) => folder !== "")
  const paths = given ? [given] : folders.map((folder) => join(folder, "redis-server"))
  for (const path of paths) {
    const found = await programAt(path)
    if (found !== undefined) return found
  }
  if (given) throw new Error(`$REDIS_SERVER does not run, or is too old: ${given}`)
  const accept = (folder: string) => programAt(join(folder, "usr/bin/redis-server"))
  const suites = ownSuiteFirst(["trixie", "bookworm"])
  return debianPackage({ name: "redis-server", suites, libraries: LIBRARIES, accept })
}

let search: Promise<FoundProgram> | undefined

/** `$REDIS_SERVER`, then PATH, then the cache folder, which is filled from Debian. Rejects with `MissingServer`. */
export const redisProgram = (): Promise<FoundProgram> => {
  search ??= (async () => {
    const earlier = foundEarlier(redisServerName)
    if (earlier !== undefined) return earlier
    try {
      return await find()
    } catch (error) {
      const advice = `install Redis ${OLDEST} or newer (the package redis-server), or name its program in $REDIS_SERVER`
      throw new MissingServer(redisServerName, `${advice} (${(error as Error).message})`)
    }
  })()
  return search
}

export interface RedisServer extends AsyncDisposable {
  readonly port: number
  readonly url: string
  /** Folder of its files. A socket may be in it too. */
  readonly folder: string
  readonly pid: number
  readonly version: string
  /** Freezes the process: its connections stay open and are not answered. */
  pause(): void
  resume(): void
  /** Ends the server by SIGKILL. */
  kill(): Promise<void>
  /** Ends the server by SIGTERM if it runs, and starts it again with its data. */
  restart(): Promise<void>
  stop(): Promise<void>
}

/** Starts a server. By default it answers a change once the change is in its file. */
export const startRedis = async (
  settings: ReadonlyArray<string> = ["--save", "", "--appendonly", "yes", "--appendfsync", "always"],
): Promise<RedisServer> => {
  const { path, version } = await redisProgram()
  const folder = temporaryFolder()
  const port = await freePort()
  const own = ["--port", String(port), "--bind", "127.0.0.1", "--dir", folder.path]
  const launch = async (): Promise<Spawned> => {
    const server = spawnProcess(path, [...own, ...settings], { env: environmentOf(unpackedAt(path)) })
    try {
      await server.waitForLine(/Ready to accept connections/)
      return server
    } catch (error) {
      await server.end()
      throw error
    }
  }
  const endInOrder = async () => {
    if (server.exit !== undefined) return
    server.kill("SIGTERM")
    const timer = setTimeout(() => void server.end(), 10_000)
    await server.exited
    clearTimeout(timer)
  }
  let server = await launch().catch((error: unknown) => {
    folder.remove()
    throw error
  })
  const stop = async () => {
    await server.end()
    folder.remove()
  }
  return {
    port,
    url: `redis://127.0.0.1:${port}`,
    folder: folder.path,
    version,
    get pid() {
      return server.pid
    },
    pause: () => server.kill("SIGSTOP"),
    resume: () => server.kill("SIGCONT"),
    kill: () => server.end().then(() => undefined),
    restart: async () => {
      await endInOrder()
      server = await launch()
    },
    stop,
    [Symbol.asyncDispose]: stop,
  }
}
