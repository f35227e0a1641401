/** How long the command line takes from its start to the first job, and what it needs of memory then. */
import { cpSync, mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { fileURLToPath } from "node:url"
import { freePort, type Spawned, spawnProcess, temporaryFolder } from "../../support/servers/process.ts"
import { type BoardKind, nats, sqlite } from "../harness/boards.ts"
import { bullmqOnNode, names, on } from "../harness/contenders.ts"
import { firstAnswer } from "../harness/first-answer.ts"
import { executableOf, ready, startOn, startProgram } from "../harness/program.ts"
import { resident } from "../harness/resident.ts"
import type { Contender, Workload } from "../harness/workload.ts"
import type { Figures } from "../report/figures.ts"

const root = fileURLToPath(new URL("../../../", import.meta.url))

/** A folder as `callboard init` leaves it, with the sources in place of an installed package. */
const project = () => {
  const folder = temporaryFolder()
  mkdirSync(join(folder.path, "actors"))
  cpSync(join(root, "runtime/cli/templates/actors"), join(folder.path, "actors"), { recursive: true })
  const paths = { callboard: [join(root, "runtime/mod.ts")] }
  writeFileSync(join(folder.path, "tsconfig.json"), JSON.stringify({ compilerOptions: { paths } }))
  return folder
}

/** A moment after the first job, so that what is loaded late is there. */
const SETTLING_MS = 2_000

const figuresOf = async (started: Spawned, until: () => Promise<unknown>): Promise<Figures> => {
  const began = performance.now()
  await using running = started
  await until()
  const readyMs = performance.now() - began
  await sleep(SETTLING_MS)
  const { MiB, processes } = resident(running.pid)
  return { readyMs, MiB, processes }
}

/** `launchedBy`: where the parent runs, which starts the worker again after a crash. The worker itself runs in Bun. */
const commandLine = async (
  command: "dev" | "worker",
  launchedBy: "node" | "bun",
  url: string,
  until: (http: string) => Promise<void>,
): Promise<Figures> => {
  using folder = project()
  const port = await freePort()
  const args = [join(root, "runtime/cli/launcher.js"), command, "--port", String(port)]
  const started = spawnProcess(executableOf(launchedBy), args, { cwd: folder.path, env: { CALLBOARD_TRANSPORT: url } })
  return await figuresOf(started, () => until(`http://127.0.0.1:${port}`))
}

const accepted = (http: string): Promise<void> =>
  firstAnswer(`${http}/v1/jobs`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ task: "hello.greet", input: { name: "bench" } }),
  })

const isReady = (http: string): Promise<void> => firstAnswer(`${http}/readyz`)

/** A program that only works, from its start until it says that it does. */
const working = (started: Spawned): Promise<Figures> =>
  figuresOf(started, async () => {
    await ready(started)
    started.write("go\n")
    await started.waitForLine(/^\{/)
  })

const row = (name: string, kind: BoardKind, run: (url: string) => Promise<Figures>): Contender => ({
  name,
  durability: kind.durability,
  run: () => on(kind, ({ url }) => run(url)),
})

export const start = (): Workload => ({
  name: "start",
  title: "Start and memory",
  note: "From the start of the first process: of `dev` to the first job accepted over HTTP, of a worker until it is ready. Memory of all its processes two seconds later. From the sources, as a checkout runs.",
  main: "readyMs",
  better: "less",
  columns: [
    { key: "readyMs", title: "ms" },
    { key: "MiB", title: "MiB" },
    { key: "processes", title: "processes" },
  ],
  contenders: [
    ...(["bun", "node"] as const).flatMap((launchedBy) => {
      const where = launchedBy === "node" ? ", launched by Node" : ""
      return [
        row(`callboard dev, sqlite${where}`, sqlite, (url) => commandLine("dev", launchedBy, url, accepted)),
        row(`callboard worker, sqlite${where}`, sqlite, (url) => commandLine("worker", launchedBy, url, isReady)),
        row(`callboard worker, nats${where}`, nats, (url) => commandLine("worker", launchedBy, url, isReady)),
      ]
    }),
    row(`${names.sqlite}, serve()`, sqlite, (url) => working(startProgram("programs/worker.ts", [url, 4]))),
    row(`${names.nats}, serve()`, nats, (url) => working(startProgram("programs/worker.ts", [url, 4]))),
    {
      ...bullmqOnNode((_, port) => working(startOn("node", "peers/bullmq/worker.js", [port, 4]))),
      name: `${names.bullmqNode}, worker`,
    },
  ],
})
