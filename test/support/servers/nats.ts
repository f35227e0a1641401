/** Real nats-servers for tests, each on a port and with a store of its own. */

import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { connect } from "node:net"
import { join } from "node:path"
import { type NatsRelease, natsProgram } from "./nats-program.ts"
import { freePort, type Spawned, spawnProcess, temporaryFolder } from "./process.ts"

export interface NatsOptions {
  /** Port. Defaults to a free one. */
  readonly port?: number
  /** Folder of its store. Defaults to a temporary folder that `stop` removes. */
  readonly storeDir?: string
  /** Whether JetStream is enabled. Defaults to true. */
  readonly jetstream?: boolean
  /** How often JetStream syncs to disk, such as "always". Defaults to the server's own default. */
  readonly syncInterval?: string
  /** Further settings of JetStream, such as "max_file: 20MB". */
  readonly limits?: string
  /** Whether clients are greeted before TLS, and not behind it. Defaults to true. */
  readonly greets?: boolean
  /** Further lines of the configuration file. */
  readonly config?: string
  /** "old" is a real server that the transport must refuse. Defaults to "current". */
  readonly release?: NatsRelease
}

export interface NatsServer extends AsyncDisposable {
  readonly url: string
  readonly port: number
  /** Process id. It changes with `restart`. */
  readonly pid: number
  readonly version: string
  readonly storeDir: string
  /** The output of the server since its last start. */
  readonly log: string
  /** Ends the server by SIGKILL, as a crash does. `restart` starts it again. */
  kill(): Promise<void>
  /** Ends the server by SIGTERM if it runs, and starts it again with the same port and store. */
  restart(): Promise<void>
  /** Freezes the server by SIGSTOP: connections stay open and nothing answers. */
  pause(): void
  resume(): void
  /** Ends the server, and removes its store unless the folder was given. */
  stop(): Promise<void>
}

const PORT_TAKEN = /address already in use/

/** Another process has taken a port since it was found free. A server listens for routes after it has listened for clients. */
export class PortTaken extends Error {}

export async function startNats(options: NatsOptions = {}): Promise<NatsServer> {
  const { path, version } = await natsProgram(options.release)
  const folder = temporaryFolder()
  const storeDir = options.storeDir ?? join(folder.path, "store")
  const configFile = join(folder.path, "nats.conf")

  const launch = async (port: number): Promise<{ server: Spawned; port: number }> => {
    const sync = options.syncInterval === undefined ? "" : `sync_interval: ${options.syncInterval}`
    const jetstream =
      options.jetstream === false
        ? ""
        : `jetstream { store_dir: ${JSON.stringify(storeDir)}, ${sync} ${options.limits ?? ""} }`
    writeFileSync(configFile, `host: 127.0.0.1\nport: ${port}\n${jetstream}\n${options.config ?? ""}\n`)
    const server = spawnProcess(path, ["--config", configFile])
    try {
      const line = await server.waitForLine(/Listening for client connections on .*:(\d+)/)
      const listening = Number(line[1])
      if (options.greets !== false) await readInfo(listening)
      return { server, port: listening }
    } catch (cause) {
      await server.end()
      throw PORT_TAKEN.test(server.output) ? new PortTaken(server.output) : cause
    }
  }

  const endInOrder = async (server: Spawned) => {
    // A frozen server does not react to SIGTERM.
    server.kill("SIGCONT")
    server.kill("SIGTERM")
    const timer = setTimeout(() => server.kill("SIGKILL"), 5_000)
    await server.exited
    clearTimeout(timer)
  }

  let { server, port } = await launch(options.port ?? (await freePort()))

  const stop = async () => {
    await endInOrder(server)
    folder.remove()
  }

  return {
    port,
    url: `nats://127.0.0.1:${port}`,
    version,
    storeDir,
    get pid() {
      return server.pid
    },
    get log() {
      return server.output
    },
    kill: () => server.end(),
    restart: async () => {
      await endInOrder(server)
      ;({ server, port } = await launch(port))
    },
    pause: () => {
      server.kill("SIGSTOP")
      waitUntilStopped(server.pid)
    },
    resume: () => server.kill("SIGCONT"),
    stop,
    [Symbol.asyncDispose]: stop,
  }
}

/** The signal is on its way when `kill` returns; a busy server may answer one more message before it takes effect. */
function waitUntilStopped(pid: number): void {
  const end = performance.now() + 1_000
  const stat = `/proc/${pid}/stat`
  if (!existsSync(stat)) return
  while (!/\) T /.test(readFileSync(stat, "utf8")) && performance.now() < end);
}

/** Waits for the line that a nats-server greets its clients with. */
function readInfo(port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1")
    const fail = (error: Error) => {
      socket.destroy()
      reject(error)
    }
    socket.setTimeout(10_000, () => fail(new Error(`nats-server on port ${port} does not greet its clients`)))
    socket.once("error", fail)
    socket.once("close", () => fail(new Error(`nats-server on port ${port} closed the connection`)))
    socket.once("data", (data) => {
      if (!data.toString().startsWith("INFO ")) return fail(new Error(`port ${port} is not a nats-server`))
      socket.destroy()
      resolve()
    })
  })
}
