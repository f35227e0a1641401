/**
 * The process of `callboard dev` that runs worker and HTTP. It loads actors when their files are watched, reports that, and
 * starts serving when the supervisor asks for it and the process before it has released the port. Then it prints a `curl`
 * that submits a first task.
 */
import { createServer } from "node:net"
import { setTimeout as sleep } from "node:timers/promises"
import type { ActorDefinition, ErasedMethod } from "../../actor/actor.ts"
import type { Token } from "../../config/scopes.ts"
import { DEFAULTS } from "../../config/table.ts"
import { displayUrl } from "../../connection/connect.ts"
import { jsonSchemaOf } from "../../options/json-schema.ts"
import { sampleOf } from "../../options/sample.ts"
import { isObject } from "../../protocol/guards.ts"
import { DEFAULT_METHOD } from "../../protocol/name.ts"
import { serve } from "../../service/serve.ts"
import type { Service } from "../../service/service.ts"
import { CommandFailed, EXIT } from "../failure.ts"
import { listText, oneLine, shortId } from "../format.ts"
import type { Invocation } from "../invocation.ts"
import {
  actorRows,
  httpOptions,
  loadActors,
  logSettings,
  printBanner,
  serveOptions,
  stopOf,
  stopText,
  transportText,
} from "../run-service.ts"
import { JobLines, terminalLog } from "../terminal-log.ts"
import { announcingEnd, sendToWatcher, stopWithWatcher } from "../work-process.ts"
import type { Watched } from "./changes.js"

/** From the supervisor to the process. */
export type SupervisorMessage =
  /** Load the actors: the files are watched. */
  | { readonly type: "load" }
  /**
   * Start serving. `reload`: a process was ready before. `replaces`: the one before is told to stop now, and may hold the
   * port. `port` is the one that the process before used.
   */
  | { readonly type: "start"; readonly reload: boolean; readonly replaces: boolean; readonly port?: number }
  /** Stop, and let running jobs finish: another process takes over. */
  | { readonly type: "stop" }

/** From the process to the supervisor. */
export type ProcessMessage =
  /** The settings are read, and these files are to be watched. The first message of a process. */
  | { readonly type: "watch"; readonly watched: Watched }
  /** Settings and actors are loaded; nothing was started yet. */
  | { readonly type: "loaded" }
  /** The worker is ready, and HTTP listens on this port. */
  | { readonly type: "ready"; readonly port: number }
  /** Names and ids of the running jobs, sent when they change and when the process exits. */
  | { readonly type: "running"; readonly jobs: string }

const hasType = (value: unknown): value is { readonly type: unknown } => isObject(value) && "type" in value

const isSupervisorMessage = (value: unknown): value is SupervisorMessage =>
  hasType(value) && (value.type === "load" || value.type === "start" || value.type === "stop")

/** Longest wait for the process before to release its port. Its jobs may take longer. */
const PORT_MS = 10_000

const sendMessage = (message: ProcessMessage): void => sendToWatcher(message)

interface Orders {
  readonly load: Promise<void>
  readonly start: Promise<Extract<SupervisorMessage, { type: "start" }>>
  /** Resolves when another process takes over. */
  readonly stop: Promise<void>
}

const listenToOrders = (): Orders => {
  const load = Promise.withResolvers<void>()
  const start = Promise.withResolvers<Extract<SupervisorMessage, { type: "start" }>>()
  const stop = Promise.withResolvers<void>()
  process.on("message", (message: unknown) => {
    if (!isSupervisorMessage(message)) return
    if (message.type === "load") load.resolve()
    else if (message.type === "start") start.resolve(message)
    else stop.resolve()
  })
  return { load: load.promise, start: start.promise, stop: stop.promise }
}

export const runDevProcess = async (invocation: Invocation, watched: Watched): Promise<void> => {
  if (process.send === undefined)
    throw new CommandFailed(EXIT.failed, "dev is started by the callboard command, which restarts it after changes")
  const { config, output } = invocation
  const orders = listenToOrders()
  stopWithWatcher()
  sendMessage({ type: "watch", watched })
  await orders.load
  const actors = await loadActors(invocation)
  sendMessage({ type: "loaded" })
  const { reload, replaces, port: earlierPort } = await orders.start
  const http = httpOptions(config)
  const port = earlierPort ?? http.port ?? DEFAULTS.http.port
  const host = http.host ?? DEFAULTS.http.host
  if (!(await waitForPort(port, host, reload || replaces ? PORT_MS : 0))) {
    throw new CommandFailed(EXIT.failed, `port ${port} of ${host} is in use: choose another port with --port`)
  }
  const lines = new JobLines(output)
  const log = terminalLog(logSettings(config), { ready: true, jobs: true })
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
  sendMessage({ type: "ready", port: Number(new URL(service.url ?? "http://localhost").port) })
  if (!reload && !output.json) await explain(invocation, service, actors)
  sendRunningJobs(service, sendMessage, following.signal)
  const report = await announcingEnd(() => stopOf(service))
  const { finished, handedBack, stuck, lost } = report
  following.abort()
  // A process that was replaced logs its stop only if jobs were running.
  if (!replaced || finished + handedBack + stuck + lost > 0)
    log.with({ logger: "callboard.cli" }).info(stopText(report))
}

/** Prints the banner at the first start, and one line after a reload. */
const announce = (
  { config, transport, output }: Invocation,
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
    ...(service.url === undefined || config.http?.page === false
      ? []
      : [["page", output.paint(pageLink(service.url, config.http?.tokens), "cyan")] as const]),
    ["transport", transportText(service, transport)],
    ...actorRows(actors),
  ])
}

/** Where a browser finds the page. The token stands behind `#`: the page takes it from there, and no server gets to see it. */
export const pageLink = (url: string, tokens: ReadonlyArray<Token> = []): string => {
  const [token] = ["admin", "operate", "read"].flatMap((scope) =>
    tokens.filter(({ scopes }) => scopes.some((each) => each === scope)),
  )
  return token === undefined ? `${url}/` : `${url}/#token=${encodeURIComponent(token.token)}`
}

/** Prints a command that submits a first task. */
const explain = async (
  { config, output }: Invocation,
  service: Service,
  actors: ReadonlyArray<ActorDefinition>,
): Promise<void> => {
  const example = await exampleOf(actors)
  if (example === undefined || service.url === undefined) return
  output.line(`\nSubmit a task:\n\n  ${curlOf(example, service.url, (config.http?.tokens ?? []).length > 0)}\n`)
}

const PORT_CHECK_MS = 20

const isFree = (port: number, host: string): Promise<boolean> =>
  new Promise((resolve) => {
    const probe = createServer()
    probe.once("error", (error: NodeJS.ErrnoException) => resolve(error.code !== "EADDRINUSE"))
    probe.listen({ port, host, exclusive: true }, () => probe.close(() => resolve(true)))
  })

/** Whether the port becomes free within a time; with 0 it is checked once. Port 0 stands for any port and is free. */
const waitForPort = async (port: number, host: string, withinMs: number): Promise<boolean> => {
  if (port === 0) return true
  const end = performance.now() + withinMs
  while (!(await isFree(port, host))) {
    if (performance.now() >= end) return false
    await sleep(PORT_CHECK_MS)
  }
  return true
}

/** Interval of checks for running jobs. They are also sent on exit; a process that is killed cannot do that. */
const RUNNING_MS = 200

/** Jobs that are named. */
const MAX_NAMED = 3

/** Sends the names of running jobs, until the signal: an end after that is a normal one. */
const sendRunningJobs = (
  { worker }: Service,
  sendMessage: (message: ProcessMessage) => void,
  signal: AbortSignal,
): void => {
  if (worker === undefined) return
  let sent = ""
  const look = () => {
    const jobs = listText(
      worker.inspect().active.map(({ id, name }) => `${oneLine(name)} ${shortId(id)}`),
      MAX_NAMED,
    )
    if (jobs === sent) return
    sent = jobs
    sendMessage({ type: "running", jobs })
  }
  const timer = setInterval(look, RUNNING_MS)
  process.on("exit", look)
  const end = () => {
    clearInterval(timer)
    process.off("exit", look)
  }
  signal.addEventListener("abort", end, { once: true })
}

interface Example {
  readonly task: string
  readonly input: unknown
}

const inputOf = (method: ErasedMethod): unknown => {
  if (method.input !== undefined) return sampleOf(jsonSchemaOf(method.input, "input"))
  return Object.fromEntries((method.params ?? []).map((name) => [name, 1]))
}

/** Whether the input schema of a method accepts an input. */
const isTaken = async (method: ErasedMethod, input: unknown): Promise<boolean> => {
  if (method.input === undefined) return true
  try {
    const checked = await method.input["~standard"].validate(input)
    return checked.issues === undefined
  } catch {
    return false
  }
}

/** The first method for which a valid example input can be made; else the first method. */
export const exampleOf = async (actors: ReadonlyArray<ActorDefinition>): Promise<Example | undefined> => {
  const examples = actors.flatMap((actor) =>
    [...actor.methods.values()].map((method) => ({
      method,
      task: method.name === DEFAULT_METHOD ? actor.name : `${actor.name}.${method.name}`,
      input: inputOf(method),
    })),
  )
  for (const example of examples) if (await isTaken(example.method, example.input)) return example
  return examples[0]
}

const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`

/** The command, in one line, since several lines break when pasted. It waits up to 10 seconds for the result. */
export const curlOf = ({ task, input }: Example, url: string, needsToken: boolean): string =>
  [
    `curl -s ${url}/v1/jobs`,
    `-H 'content-type: application/json'`,
    `-H 'prefer: wait=10'`,
    ...(needsToken ? [`-H "authorization: Bearer $TOKEN"`] : []),
    `-d ${quoted(JSON.stringify({ task, input }))}`,
  ].join(" ")
