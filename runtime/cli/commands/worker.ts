/** `callboard worker`: runs the actors of a folder until a signal stops it, in one process or several. */
import { hostname } from "node:os"
import { type Command, Option } from "commander"
import type { ActorDefinition } from "../../actor/actor.ts"
import { discoverActors } from "../../actor/discover.ts"
import type { HttpServer } from "../../http/server.ts"
import { visible } from "../../log/log-value.ts"
import { DEFAULTS } from "../../options/defaults.ts"
import { serve } from "../../service/serve.ts"
import type { Service } from "../../service/service.ts"
import { TransportError } from "../../transport/mod.ts"
import { actorRows, printBanner } from "../banner.ts"
import { CommandFailed, EXIT } from "../failure.ts"
import type { Invocation } from "../invocation.ts"
import { JobLines } from "../job-lines.ts"
import { addSettings, givenSettings, HTTP_SETTINGS, WORKER_SETTINGS } from "../options.ts"
import { questionOf, type Report } from "../pool/message.ts"
import { WorkerPool } from "../pool/supervisor.ts"
import { gaveUp, untilStopped } from "../run-service.ts"
import { httpOptions, isWatched, logOf, serveOptions, transportText } from "../serve-options.ts"
import { onOrphaned, tellEnding, tellReady, WORK_FLAG } from "../work-process.ts"
import { runs } from "./command.ts"

export const addWorker = (program: Command): void => {
  const command = program
    .command("worker")
    .description("run the actors; the first signal stops softly, the second hands back now, the third ends it")
  addSettings(command, [...WORKER_SETTINGS, ...HTTP_SETTINGS])
  command.addHelpText(
    "after",
    `
HTTP is answered only if --port is given here. Of several --processes, the one that watches over them answers for all:
/healthz, /readyz and /metrics, and nothing else.`,
  )
  command.addOption(new Option(WORK_FLAG).hideHelp())
  runs(command, (invocation) => {
    // Two workers on one machine share a configuration, but cannot share its port.
    const answers = givenSettings(command).has("http.port")
    return command.opts<{ readonly workProcess?: boolean }>().workProcess
      ? workAndTell(invocation, answers)
      : watch(invocation, answers)
  })
}

/** Says on a terminal what runs here, and where. Of several processes each has a line of its log for it. */
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

/** The process that watches over those that work. */
const watch = async (invocation: Invocation, answers: boolean): Promise<void> => {
  const { config } = invocation
  const count = processesOf(invocation)
  const name = config.name ?? `${hostname()}-${process.pid}`
  const pool = new WorkerPool({
    count,
    argumentsOf: (seat) => (count === 1 ? [] : ["--name", `${name}-${seat}`]),
    note: (text) => void process.stderr.write(`callboard: ${visible(text)}\n`),
  })
  // A single worker answers by itself.
  const http = answers && count > 1 ? await answerFor(pool, invocation) : undefined
  const exitCode = await pool.run()
  await http?.stop()
  if (exitCode !== EXIT.done) throw new CommandFailed(exitCode)
}

/** Fails with `invalid-input` where the address cannot be had, before any process is started. */
const answerFor = async (pool: WorkerPool, invocation: Invocation): Promise<HttpServer> => {
  const { config } = invocation
  const log = logOf(invocation)
  const { startPoolHttp } = await import("../../http/pool.ts")
  const { PoolMetrics } = await import("../../metrics/pool-metrics.ts")
  const metrics = config.metrics === false ? undefined : new PoolMetrics(processesOf(invocation), () => pool.count())
  if (metrics !== undefined) pool.countInto(metrics)
  const http = startPoolHttp(httpOptions(config), { unready: () => pool.unready(), metrics, log })
  log
    .with({ logger: "callboard.cli" })
    .info("the pool answers health checks", { url: http.listens, processes: processesOf(invocation) })
  return http
}

/** The process that works. However it comes to its end, it says so: one that does not was ended by what it ran. */
const workAndTell = async (invocation: Invocation, answers: boolean): Promise<void> => {
  try {
    await work(invocation, answers)
  } finally {
    await tellEnding()
  }
}

const work = async (invocation: Invocation, answers: boolean): Promise<void> => {
  const { config } = invocation
  const isPooled = processesOf(invocation) > 1
  const isAlone = isWatched(invocation) && !isPooled
  const log = logOf(invocation, { ready: isAlone, jobs: true })
  const lines = isWatched(invocation) ? new JobLines(invocation.output) : undefined
  const actors = await discoverActors(config.actors ?? DEFAULTS.actors)
  const service = await serve({
    ...serveOptions(invocation),
    log,
    actors,
    http: answers && !isPooled ? httpOptions(config) : false,
    metrics: config.metrics ?? answers,
    ...(lines === undefined ? {} : { onSettled: lines.settled }),
    onReady: (ready: Service) => {
      if (isAlone) announce(invocation, ready, actors)
      if (isPooled) reportTo(ready)
      tellReady()
    },
  }).catch((cause: unknown) => {
    // It was tried again as often as it may be: the same end as when it is lost later.
    const triedAgain = config.reconnect?.atStart ?? DEFAULTS.reconnect.atStart
    if (triedAgain && cause instanceof TransportError && cause.retryable) throw gaveUp(cause)
    throw cause
  })
  onOrphaned(() => void service.stop())
  try {
    await untilStopped(service, log, invocation)
  } finally {
    // First: a handler that ignores its signal is ended with the process, which may be any moment now.
    await tellEnding()
    if (isPooled) await reportLast(service)
  }
}

/** Answers questions from now on. */
const reportTo = (service: Service): void => {
  process.on("message", (message: unknown) => {
    const asked = questionOf(message)
    if (asked === undefined) return
    void reportOf(service, asked.metrics).then((report) => process.send?.({ ...report, answers: asked.question }))
  })
}

/** Says, once it has stopped, what it came to: nobody can ask it later. Resolves when that has gone out. */
const reportLast = async (service: Service): Promise<void> => {
  const report = await reportOf(service, true)
  await new Promise<void>((resolve) => {
    if (process.send === undefined || !process.connected) resolve()
    else process.send(report, () => resolve())
  })
}

const reportOf = async ({ isReady, metrics }: Service, wantsMetrics: boolean): Promise<Report> => ({
  isReady,
  ...(wantsMetrics && metrics !== undefined ? { metrics: JSON.stringify(await metrics.families()) } : {}),
})
