/** Real PostgreSQL servers for tests, each on a port and with data of its own. */

import { chmodSync, chownSync, cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { dirname, join, relative } from "node:path"
import { environmentOf, unpackedAt } from "./debian.ts"
import { postgresProgram } from "./postgres-program.ts"
import { eventually, freePort, isRunning, type Spawned, spawnProcess, temporaryFolder } from "./process.ts"

export interface PostgresServer extends AsyncDisposable {
  /** URL with user and password. */
  readonly url: string
  readonly port: number
  /** Process id. It changes with `restart`. */
  readonly pid: number
  readonly version: string
  /** The output of the server since its last start. */
  readonly log: string
  /** Ends the server and all of its processes by SIGKILL. `restart` starts it again. */
  kill(): Promise<void>
  /** Ends the server by SIGINT if it runs, and starts it again with the same port and data. */
  restart(): Promise<void>
  /** Ends the server and removes its data. */
  stop(): Promise<void>
}

/** The user of the server where the tests run as root, since PostgreSQL refuses to run as root. */
const NOBODY = 65_534

const isRoot = process.getuid?.() === 0

/** A command as the user that the server runs as. */
const asUser = (command: string, args: readonly string[]): readonly [string, readonly string[]] =>
  isRoot
    ? ["setpriv", [`--reuid=${NOBODY}`, `--regid=${NOBODY}`, "--clear-groups", "--", command, ...args]]
    : [command, args]

const settings = {
  listen_addresses: "127.0.0.1",
  unix_socket_directories: "",
  fsync: "on",
  jit: "off",
  // A test file opens many connections at once.
  max_connections: "300",
  shared_buffers: "64MB",
  // The socket is in the folder of the data, so that the socket of a killed server is removed with it.
  dynamic_shared_memory_type: "mmap",
}

export async function startPostgres(): Promise<PostgresServer> {
  const { path: found, version } = await postgresProgram()
  const folder = temporaryFolder()
  const unpacked = unpackedAt(found)
  let home = unpacked
  if (isRoot) {
    chmodSync(folder.path, 0o755)
    if (unpacked !== undefined) {
      // `nobody` may not enter the cache folder of root.
      home = join(folder.path, "program")
      cpSync(unpacked, home, { recursive: true, verbatimSymlinks: true })
    }
  }
  const bin = dirname(home === undefined || unpacked === undefined ? found : join(home, relative(unpacked, found)))
  const env = environmentOf(home)
  const data = join(folder.path, "data")
  const password = join(folder.path, "password")
  mkdirSync(data, { mode: 0o700 })
  writeFileSync(password, "secret\n")
  if (isRoot) for (const path of [data, password]) chownSync(path, NOBODY, NOBODY)

  const options = { cwd: folder.path, env: { ...env, LC_ALL: "C" } }
  const initdb = [
    "-D",
    data,
    "-U",
    "callboard",
    "-E",
    "UTF8",
    "--locale=C",
    "--auth=scram-sha-256",
    "--pwfile",
    password,
  ]
  const init = spawnProcess(...asUser(join(bin, "initdb"), [...initdb, "--no-sync"]), options)
  init.endInput()
  const { code } = await init.closed
  if (code !== 0) {
    folder.remove()
    throw new Error(`initdb failed:\n${init.output}`)
  }

  const port = await freePort()
  const launch = async (): Promise<Spawned> => {
    const all = Object.entries({ ...settings, port: String(port) }).flatMap(([name, value]) => [
      "-c",
      `${name}=${value}`,
    ])
    const server = spawnProcess(...asUser(join(bin, "postgres"), ["-D", data, ...all]), options)
    try {
      await server.waitForLine(/database system is ready to accept connections/)
      return server
    } catch (error) {
      await server.end()
      throw error
    }
  }

  /** The processes of a server. They have sessions of their own, so they do not end with its process group. */
  const childrenOf = (pid: number): number[] => {
    const file = `/proc/${pid}/task/${pid}/children`
    return existsSync(file) ? readFileSync(file, "utf8").trim().split(" ").filter(Boolean).map(Number) : []
  }

  const kill = async () => {
    const children = childrenOf(server.pid)
    await server.end()
    for (const pid of children) if (isRunning(pid)) process.kill(pid, "SIGKILL")
    // The next server refuses to start as long as one of these processes lives.
    await eventually(() => !children.some(isRunning), { message: "processes of a killed server are still there" })
  }

  const endInOrder = async () => {
    if (server.exit !== undefined) return
    server.kill("SIGINT")
    const timer = setTimeout(() => void kill(), 10_000)
    await server.exited
    clearTimeout(timer)
  }

  let server = await launch().catch((error: unknown) => {
    folder.remove()
    throw error
  })

  const stop = async () => {
    await endInOrder()
    folder.remove()
  }

  return {
    port,
    url: `postgres://callboard:secret@127.0.0.1:${port}/postgres`,
    version,
    get pid() {
      return server.pid
    },
    get log() {
      return server.output
    },
    kill,
    restart: async () => {
      await endInOrder()
      server = await launch()
    },
    stop,
    [Symbol.asyncDispose]: stop,
  }
}
