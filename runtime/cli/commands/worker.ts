/** The commands that run until a signal stops them: `callboard worker`, `serve` and `dev`. */
import { existsSync } from "node:fs"
import { resolve } from "node:path"
import { type Command, Option } from "commander"
import type { ActorDefinition } from "../../actor/actor.ts"
import { newWorkerName } from "../../cluster/worker-process.ts"
import { configPaths } from "../../config/file.ts"
import { DEFAULTS } from "../../config/table.ts"
import type { HttpServer } from "../../http/server.ts"
import { compact } from "../../protocol/compact.ts"
import { serve } from "../../service/serve.ts"
import type { Service } from "../../service/service.ts"
import { TransportError } from "../../transport/mod.ts"
import { runDevProcess } from "../dev/process.ts"
import { CommandFailed, EXIT } from "../failure.ts"
import { addSettings, givenSettings, HTTP_SETTINGS, type Invocation, runs, WORKER_SETTINGS } from "../invocation.ts"
import { parseQuestion, type Report, WorkerPool } from "../pool.ts"
import {
  actorRows,
  gaveUp,
  httpOptions,
  isWatched,
  loadActors,
  logOf,
  printBanner,
  serveOptions,
  transportText,
  untilStopped,
} from "../run-service.ts"
import { JobLines } from "../terminal-log.ts"
import { announcingEnd, askForRestarts, sendReady, sendToWatcher, stopWithWatcher, WORK_FLAG } from "../work-process.ts"

/** `callboard worker`: runs the actors of a folder until a signal stops it, in one process or several. */
export const addWorker = (program: Command): void => {
  const command = program
    .command("worker")
    .description(
      "run the actors; the first signal starts a graceful shutdown, the second hands back the jobs at once, the third exits",
    )
  addSettings(command, [...WORKER_SETTINGS, ...HTTP_SETTINGS])
  command.addHelpText(
    "after",
    `
A worker serves HTTP only if --port is set here. With several --processes, the
supervising process serves /healthz, /readyz and /metrics for all of them, and
nothing else.`,
  )
  command.addOption(new Option(WORK_FLAG).hideHelp())
  runs(command, (invocation) => {
    // The port of the configuration is ignored: several workers on a machine share the file, and cannot share a port.
    const servesHttp = givenSettings(command).has("http.port")
    if (command.opts<{ readonly workProcess?: boolean }>().workProcess) return work(invocation, servesHttp)
    if (processesOf(invocation) > 1) return supervise(invocation, servesHttp)
    askForRestarts()
    return work(invocation, servesHttp)
  })
}

/** Prints the banner of a single worker on a terminal. The processes of a pool log a line instead. */
const announce = (
  { output, transport }: Invocation,
  { worker, url, client }: Service,
  actors: ReadonlyArray<ActorDefinition>,
): void => {
  if (worker === undefined) return
  printBanner(output, [
    ["worker", `${worker.name}, ${worker.load.concurrency} at a time`],
    ["queues", worker.queues.join(", ")],
    ["transport", transportText({ client }, transport)],
    ...(url === undefined ? [] : [["http", output.paint(url, "cyan")] as const]),
    ...actorRows(actors),
  ])
  output.line()
}

const processesOf = ({ config }: Invocation): number => config.processes ?? DEFAULTS.processes

/** Runs the supervisor of a pool, which starts the workers and starts them again when they are killed. */
const supervise = async (invocation: Invocation, servesHttp: boolean): Promise<void> => {
  const { config } = invocation
  const name = config.name ?? newWorkerName()
  const pool = new WorkerPool({
    count: processesOf(invocation),
    argumentsOf: (member) => ["--name", `${name}-${member}`],
  })
  stopWithWatcher()
  const http = servesHttp ? await servePoolHttp(pool, invocation) : undefined
  const exitCode = await pool.run()
  await http?.stop()
  if (exitCode !== EXIT.done) throw new CommandFailed(exitCode)
}

/** Serves health checks and metrics of the pool. Fails with `invalid-input` on an unusable address, before a worker starts. */
const servePoolHttp = async (pool: WorkerPool, invocation: Invocation): Promise<HttpServer> => {
  const { config } = invocation
  const log = logOf(invocation)
  const { startPoolHttp } = await import("../../http/server.ts")
  const { PoolMetrics } = await import("../../metrics/pool-metrics.ts")
  const metrics = config.metrics === false ? undefined : new PoolMetrics(processesOf(invocation), () => pool.count())
  if (metrics !== undefined) pool.exportTo(metrics)
  const http = await startPoolHttp(httpOptions(config), { unready: () => pool.unready(), metrics, log })
  log
    .with({ logger: "callboard.cli" })
    .info("the pool serves health checks", { url: http.listens, processes: processesOf(invocation) })
  return http
}

/** Runs a worker in this process. */
const work = (invocation: Invocation, servesHttp: boolean): Promise<void> =>
  announcingEnd(() => workUntilStopped(invocation, servesHttp))

const workUntilStopped = async (invocation: Invocation, servesHttp: boolean): Promise<void> => {
  stopWithWatcher()
  const { config } = invocation
  const isPooled = processesOf(invocation) > 1
  const isAlone = isWatched(invocation) && !isPooled
  const log = logOf(invocation, { ready: isAlone, jobs: true })
  const lines = isWatched(invocation) ? new JobLines(invocation.output) : undefined
  const actors = await loadActors(invocation)
  const service = await serve({
    ...serveOptions(invocation),
    log,
    actors,
    http: servesHttp && !isPooled ? httpOptions(config) : false,
    metrics: config.metrics ?? servesHttp,
    ...compact({ onSettled: lines?.settled }),
    onReady: (ready: Service) => {
      if (isAlone) announce(invocation, ready, actors)
      if (isPooled) answerQuestions(ready)
      sendReady()
    },
  }).catch((cause: unknown) => {
    // All tries to connect have failed: ends like a worker whose transport stays lost.
    const triedAgain = config.reconnect?.atStart ?? DEFAULTS.reconnect.atStart
    if (triedAgain && cause instanceof TransportError && cause.retryable) throw gaveUp(cause)
    throw cause
  })
  try {
    // Announced before the report: a handler that ignores its signal may end the process at any moment then.
    await announcingEnd(() => untilStopped(service, log, invocation))
  } finally {
    if (isPooled) await sendLastReport(service)
  }
}

/** Answers the questions of the supervisor: whether this worker is ready, and its metrics. */
const answerQuestions = (service: Service): void => {
  process.on("message", (message: unknown) => {
    const asked = parseQuestion(message)
    if (asked === undefined) return
    void makeReport(service, asked.metrics).then((report) => sendToWatcher({ ...report, answers: asked.question }))
  })
}

/** Sends the final metrics of a stopped worker, which cannot be asked later. Resolves when they were sent. */
const sendLastReport = async (service: Service): Promise<void> => {
  const report = await makeReport(service, true)
  await new Promise<void>((resolve) => {
    if (process.send === undefined || !process.connected) resolve()
    else process.send(report, () => resolve())
  })
}

const makeReport = async ({ isReady, worker, metrics }: Service, wantsMetrics: boolean): Promise<Report> => ({
  isReady,
  ...(worker?.isStuck ? { isStuck: true } : {}),
  ...(wantsMetrics && metrics !== undefined ? { metrics: JSON.stringify(await metrics.families()) } : {}),
})

/** `callboard serve`: serves HTTP without running actors, which run in workers. */
export const addServe = (program: Command): void => {
  const command = program.command("serve").description("serve HTTP, without a worker")
  addSettings(command, [...HTTP_SETTINGS, "maxBody", "name", "logFormat"])
  runs(command, async (invocation) => {
    const log = logOf(invocation)
    const options = serveOptions(invocation)
    const reconnect = { ...options.reconnect, atStart: false }
    const service = await serve({ ...options, reconnect, log, http: httpOptions(invocation.config) })
    await untilStopped(service, log, invocation)
  })
}

/** `callboard dev`: worker and HTTP in one process. A new process replaces it when a file changes. */
export const addDev = (program: Command): void => {
  const command = program
    .command("dev")
    .description("run everything in one process, and restart it when a file changes")
  addSettings(command, [...WORKER_SETTINGS, ...HTTP_SETTINGS])
  runs(command, async (invocation) => {
    const actors = resolve(invocation.config.actors ?? DEFAULTS.actors)
    if (!existsSync(actors)) {
      throw new CommandFailed(
        EXIT.failed,
        `there is no folder ${actors}: create it with callboard init, or name another folder with --actors`,
      )
    }
    await runDevProcess(invocation, { folder: actors, files: configPaths(process.cwd()) })
  })
}
