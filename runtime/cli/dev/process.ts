/**
 * The process that does the work of `callboard dev`: worker and HTTP in one. It loads settings and actors, says so, and
 * starts when it is told to, when the process before it has let go of the port.
 */
import { createServer } from "node:net"
import { setTimeout as sleep } from "node:timers/promises"
import type { ActorDefinition } from "../../actor/actor.ts"
import { discoverActors } from "../../actor/discover.ts"
import { displayUrl } from "../../connection/connect.ts"
import { DEFAULTS } from "../../options/defaults.ts"
import { serve } from "../../service/serve.ts"
import type { Service } from "../../service/service.ts"
import type { StopReport } from "../../worker/control/worker.ts"
import { actorRows, printBanner } from "../banner.ts"
import { CommandFailed, EXIT } from "../failure.ts"
import { listText, oneLine, shortId } from "../format.ts"
import type { Invocation } from "../invocation.ts"
import { JobLines } from "../job-lines.ts"
import { stopOf, stopText } from "../run-service.ts"
import { httpOptions, serveOptions, transportText } from "../serve-options.ts"
import { terminalLog } from "../terminal-log.ts"
import { onOrphaned, tellEnding } from "../work-process.ts"
import { curlOf, exampleOf } from "./curl.ts"
import { isOrder, type News, type Order } from "./message.ts"

/** The process before may take this long to let go of its port; its jobs may take longer. */
const PORT_MS = 10_000

const tell = (news: News): void => {
  process.send?.(news)
}

interface Orders {
  /** Rejects when there is nobody left to give the order. */
  readonly start: Promise<Extract<Order, { type: "start" }>>
  /** Resolves when another process takes over, or nobody watches any more. */
  readonly stop: Promise<void>
}

const listenToOrders = (): Orders => {
  const start = Promise.withResolvers<Extract<Order, { type: "start" }>>()
  const stop = Promise.withResolvers<void>()
  process.on("message", (order: unknown) => {
    if (!isOrder(order)) return
    if (order.type === "start") start.resolve(order)
    else stop.resolve()
  })
  const leave = () => start.reject(new CommandFailed(EXIT.done))
  // Without whoever watches the files this process would stay for ever, and nobody would know of it.
  onOrphaned(() => {
    leave()
    stop.resolve()
  })
  // Before the start there is nothing to stop.
  for (const signal of ["SIGINT", "SIGTERM", "SIGQUIT"] as const) process.once(signal, leave)
  return { start: start.promise, stop: stop.promise }
}

export const runDevProcess = async (invocation: Invocation): Promise<void> => {
  const { config, output } = invocation
  const actors = await discoverActors(config.actors ?? DEFAULTS.actors)
  const orders = listenToOrders()
  tell({ type: "loaded" })
  const { reload, port: earlierPort } = await orders.start
  const http = httpOptions(config)
  const port = earlierPort ?? http.port ?? DEFAULTS.http.port
  const host = http.host ?? DEFAULTS.http.host
  if (!(await waitForPort(port, host, reload ? PORT_MS : 0))) {
    throw new CommandFailed(EXIT.failed, `port ${port} of ${host} is in use: choose another with --port`)
  }
  const lines = new JobLines(output)
  const log = terminalLog(config.log ?? {}, { ready: true, jobs: true })
  const given = serveOptions(invocation)
  const options = { ...given, reconnect: { ...given.reconnect, atStart: false } }
  const service = await serve({ ...options, actors, log, http: { ...http, port }, onSettled: lines.settled })
  const following = new AbortController()
  void lines.follow(service.client, following.signal).catch(() => undefined)
  let replaced = false
  void orders.stop.then(() => {
    replaced = true
    return service.stop()
  })
  await Promise.race([service.ready().catch(() => undefined), service.stopped])
  announce(invocation, service, actors, reload)
  tell({ type: "ready", port: Number(new URL(service.url ?? "http://localhost").port) })
  if (!reload && !output.json) await explain(invocation, service, actors)
  tellRunning(service, tell, following.signal)
  const report = await stopAndTell(service)
  const { finished, handedBack, stuck, lost } = report
  following.abort()
  // Being replaced is worth a word only if a job noticed.
  if (!replaced || finished + handedBack + stuck + lost > 0)
    log.with({ logger: "callboard.cli" }).info(stopText(report))
}

/** However it stops, it says so: a process that is gone without a word was ended by what it ran. */
const stopAndTell = async (service: Service): Promise<StopReport> => {
  try {
    return await stopOf(service)
  } finally {
    await tellEnding()
  }
}

/** One line after a reload; on the first start, what is there and where. */
const announce = (
  { transport, output }: Invocation,
  service: Service,
  actors: ReadonlyArray<ActorDefinition>,
  reload: boolean,
): void => {
  const methods = actors.map((actor) => ({ name: actor.name, methods: [...actor.methods.keys()] }))
  if (output.json) {
    const { durability } = service.client.connection.transport.capabilities
    output.record({
      type: "ready",
      reload,
      url: service.url,
      transport: displayUrl(transport),
      durability,
      actors: methods,
    })
    return
  }
  if (reload) {
    output.line(output.paint(`reloaded: ${methods.map(({ name }) => name).join(", ")}`, "green"))
    return
  }
  printBanner(output, [
    ["http", output.paint(service.url ?? "", "cyan")],
    ["transport", transportText(service, transport)],
    ...actorRows(actors),
  ])
}

/** What to do next. */
const explain = async (
  { config, output }: Invocation,
  service: Service,
  actors: ReadonlyArray<ActorDefinition>,
): Promise<void> => {
  const example = await exampleOf(actors)
  if (example === undefined || service.url === undefined) return
  output.line(`\nPost a task:\n\n  ${curlOf(example, service.url, (config.http?.tokens ?? []).length > 0)}\n`)
}

const PORT_CHECK_MS = 20

const isFree = (port: number, host: string): Promise<boolean> =>
  new Promise((resolve) => {
    const probe = createServer()
    probe.once("error", (error: NodeJS.ErrnoException) => resolve(error.code !== "EADDRINUSE"))
    probe.listen({ port, host, exclusive: true }, () => probe.close(() => resolve(true)))
  })

/** Whether the port becomes free within a time; 0 looks once. Any port (0) is always free. */
const waitForPort = async (port: number, host: string, withinMs: number): Promise<boolean> => {
  if (port === 0) return true
  const end = performance.now() + withinMs
  while (!(await isFree(port, host))) {
    if (performance.now() >= end) return false
    await sleep(PORT_CHECK_MS)
  }
  return true
}

/** How often it is told while the process lives. A process that exits tells it once more; one that is killed cannot. */
const RUNNING_MS = 200

/** Jobs that are named. */
const MAX_NAMED = 3

/** Until the signal: an end after that was decided by the process itself. */
const tellRunning = ({ worker }: Service, tell: (news: News) => void, signal: AbortSignal): void => {
  if (worker === undefined) return
  let told = ""
  const look = () => {
    const jobs = listText(
      worker.inspect().active.map(({ id, name }) => `${oneLine(name)} ${shortId(id)}`),
      MAX_NAMED,
    )
    if (jobs === told) return
    told = jobs
    tell({ type: "running", jobs })
  }
  const timer = setInterval(look, RUNNING_MS)
  process.on("exit", look)
  const end = () => {
    clearInterval(timer)
    process.off("exit", look)
  }
  signal.addEventListener("abort", end, { once: true })
}
