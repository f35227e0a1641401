/** Starts RabbitMQ from Debian's packages for a test, with a port, a folder, a cookie and a port mapper of its own. */
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { delimiter, join } from "node:path"
import { debianPackage, environmentOf, ownSuiteFirst, unpackedAt } from "./debian.ts"
import { type FoundProgram, foundEarlier, MissingServer } from "./missing.ts"
import { eventually, freePort, type Spawned, spawnProcess, temporaryFolder } from "./process.ts"

/** Name of the server in the results of the search and in the summary of `npm test`. */
export const rabbitmqServerName = "rabbitmq"

/** Erlang without its documentation, and the libraries that not every machine has. */
const LIBRARIES = /^(erlang-(?!.*(doc|src|manpages))|lib(sctp|ncurses|tinfo|ssl|systemd))/

/** How long a server may take to start, in milliseconds: less than the kit waits for a restart, so that the error has its log. */
const START_MS = 100_000

/** The folder `sbin` of a server below a root: `/`, or where a package was unpacked. */
const serverBelow = (root: string): FoundProgram | undefined => {
  const home = join(root, "usr/lib/rabbitmq/lib")
  const folder = existsSync(home) ? readdirSync(home).find((each) => each.startsWith("rabbitmq_server-")) : undefined
  if (folder === undefined || !existsSync(join(root, "usr/lib/erlang/bin/erl"))) return undefined
  return { path: join(home, folder, "sbin/rabbitmq-server"), version: folder.replace("rabbitmq_server-", "") }
}

let search: Promise<FoundProgram> | undefined

/**
 * Finds an installed server, else the one in the cache folder, which is filled from Debian. Rejects with
 * `MissingServer`.
 */
export const rabbitmqProgram = (): Promise<FoundProgram> => {
  search ??= (async () => {
    const earlier = foundEarlier(rabbitmqServerName) ?? serverBelow("/")
    if (earlier !== undefined) return earlier
    try {
      const suites = ownSuiteFirst(["bookworm", "trixie"])
      return await debianPackage({ name: "rabbitmq-server", suites, libraries: LIBRARIES, accept: serverBelow })
    } catch (error) {
      const advice = "install RabbitMQ 3.10 or newer (the package rabbitmq-server)"
      throw new MissingServer(rabbitmqServerName, `${advice} (${(error as Error).message})`)
    }
  })()
  return search
}

export interface RabbitmqServer extends AsyncDisposable {
  readonly port: number
  /** URL with user and password. */
  readonly url: string
  readonly version: string
  /** The output of the server since its last start. */
  readonly log: string
  /** Runs a command of `rabbitmqctl`. */
  control(...command: ReadonlyArray<string>): Promise<void>
  /** Ends the server by SIGKILL. */
  kill(): Promise<void>
  /** Ends the server by SIGTERM if it runs, and starts it again with its data. */
  restart(): Promise<void>
  stop(): Promise<void>
}

export const startRabbitmq = async (): Promise<RabbitmqServer> => {
  const { path, version } = await rabbitmqProgram()
  const root = unpackedAt(path) ?? "/"
  const erlang = join(root, "usr/lib/erlang")
  const erts = readdirSync(erlang).find((each) => each.startsWith("erts-")) ?? ""
  const folder = temporaryFolder()
  const [port, mapperPort, nodePort] = [await freePort(), await freePort(), await freePort()]
  const inFolder = (name: string): string => join(folder.path, name)
  // Erlang's own script expects Erlang where Debian installs it, so an unpacked one needs this script.
  const [bin, program] = [join(erlang, erts, "bin"), inFolder("erl")]
  const variables = `ROOTDIR='${erlang}' BINDIR='${bin}' EMU=beam PROGNAME=erl`
  writeFileSync(program, `#!/bin/sh\nexport ${variables}\nexec "$BINDIR/erlexec" "$@"\n`, { mode: 0o755 })
  writeFileSync(inFolder(".erlang.cookie"), "SECRETOFTHISTEST", { mode: 0o400 })
  writeFileSync(inFolder("plugins"), "[].\n")
  const env = {
    ...environmentOf(unpackedAt(path)),
    PATH: [folder.path, bin, process.env["PATH"] ?? ""].join(delimiter),
    HOME: folder.path,
    LANG: "C.UTF-8",
    ERL_EPMD_PORT: String(mapperPort),
    ERL_EPMD_ADDRESS: "127.0.0.1",
    RABBITMQ_NODENAME: `test${port}@localhost`,
    RABBITMQ_NODE_IP_ADDRESS: "127.0.0.1",
    RABBITMQ_NODE_PORT: String(port),
    RABBITMQ_DIST_PORT: String(nodePort),
    RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS:
      "-kernel inet_dist_use_interface {127,0,0,1} +S 1:1 +sbwt none -start_epmd false",
    RABBITMQ_MNESIA_BASE: inFolder("data"),
    RABBITMQ_LOG_BASE: inFolder("log"),
    RABBITMQ_LOGS: "-",
    RABBITMQ_PID_FILE: inFolder("pid"),
    RABBITMQ_ENABLED_PLUGINS_FILE: inFolder("plugins"),
    RABBITMQ_CONFIG_FILE: inFolder("rabbitmq"),
    RABBITMQ_CONF_ENV_FILE: "/dev/null",
  }
  // Erlang would start a port mapper that outlives the test, so the test starts its own.
  const mapper = spawnProcess(join(bin, "epmd"), ["-port", String(mapperPort), "-address", "127.0.0.1"], { env })

  const launch = async (): Promise<Spawned> => {
    const server = spawnProcess("sh", [path], { env, cwd: folder.path })
    try {
      // A start takes five seconds of a processor, and on a machine with twenty other programs at work that is a minute.
      await server.waitForLine(/Server startup complete|started TCP listener/, START_MS)
      return server
    } catch (error) {
      await server.end()
      throw new Error(`RabbitMQ did not start on port ${port}: ${(error as Error).message}`)
    }
  }

  let server = await launch().catch(async (error: unknown) => {
    await mapper.end()
    folder.remove()
    throw error
  })

  const endInOrder = async (): Promise<void> => {
    if (server.exit !== undefined) return
    // The script waits for the server, whose process id is in a file.
    process.kill(Number(readFileSync(inFolder("pid"), "utf8")), "SIGTERM")
    const timer = setTimeout(() => void server.end(), 20_000)
    await server.exited
    clearTimeout(timer)
  }

  const stop = async (): Promise<void> => {
    await server.end()
    await mapper.end()
    folder.remove()
  }

  return {
    port,
    url: `amqp://guest:guest@127.0.0.1:${port}`,
    version,
    get log() {
      return server.output
    },
    control: async (...command) => {
      const control = spawnProcess("sh", [path.replace(/rabbitmq-server$/, "rabbitmqctl"), ...command], { env })
      const { code } = await control.closed
      if (code !== 0) throw new Error(`rabbitmqctl ${command.join(" ")} failed:\n${control.output}`)
    },
    kill: async () => {
      await server.end()
      await eventually(() => server.exit !== undefined, { message: "a killed server is still there" })
    },
    restart: async () => {
      await endInOrder()
      server = await launch()
    },
    stop,
    [Symbol.asyncDispose]: stop,
  }
}
