/**
 * The process of isolated handlers: loads one actor, starts it, and runs one handler at a time for the worker that
 * started the process. It ends when it is told to, when nothing caught an error, and when its worker is gone.
 *
 * Arguments: the process id of the worker.
 */
import { Worker as Thread } from "node:worker_threads"
import type { ActorDefinition } from "../../actor/actor.ts"
import { jobError } from "../../jobs/outcome/job-error.ts"
import type { LogLevel } from "../../log/log.ts"
import { markInside } from "./inside.ts"
import { type Line, logOver } from "./isolated-job.ts"
import { IsolatedRun } from "./isolated-run.ts"
import { killGroup } from "./kill.ts"
import { loadActor } from "./load.ts"
import { type News, type Order, orderOf, sendOver } from "./message.ts"
import { Questions } from "./questions.ts"
import { acquire, type Resources } from "./resources.ts"

const worker = Number(process.argv[2])
const questions = new Questions()
/** Begun at once: a handler that blocks comes soon enough. */
const watched = watchWorker()
let started: { readonly actor: ActorDefinition; readonly resources: Resources; readonly line: Line } | undefined
let current: IsolatedRun | undefined

const tell = (news: News, then?: () => void): void =>
  sendOver((message, sent) => process.send?.(message, undefined, undefined, sent), news, then)

/** Says a last word, and ends once that is out. */
const endWith = (news: News, code = 1): void => tell(news, () => process.exit(code))

/** A blocked handler would keep the main thread from seeing that the worker is gone. Resolves once the thread watches. */
function watchWorker(): Promise<void> {
  return new Promise((resolve) => {
    const file = new URL(import.meta.url.endsWith(".ts") ? "./watch-thread.ts" : "./watch-thread.js", import.meta.url)
    const thread = new Thread(file, { workerData: { worker } })
    thread.unref()
    thread.once("message", () => resolve())
    thread.once("error", (cause) => {
      const message = "nothing watches for the end of the worker while a handler blocks"
      tell({ kind: "log", run: 0, level: "warn", message, fields: JSON.stringify({ cause: String(cause) }) })
      resolve()
    })
  })
}

const lineTo = (level: LogLevel): Line => ({
  level,
  tell,
  ask: (question) => questions.ask((number) => tell({ kind: "ask", question: number, ...question })),
})

const start = async ({ module, actor: name, level }: Extract<Order, { kind: "start" }>): Promise<void> => {
  try {
    const line = lineTo(level)
    const actor = await loadActor(module, name)
    const broke = (cause: unknown) => tell({ kind: "worn", error: jobError(cause, "actor-broken") })
    const [resources] = await Promise.all([acquire(actor, logOver(line, 0), broke), watched])
    started = { actor, resources, line }
    tell({ kind: "ready" })
  } catch (cause) {
    endWith({ kind: "unfit", error: jobError(cause, "actor-not-started") })
  }
}

const run = async (order: Extract<Order, { kind: "run" }>): Promise<void> => {
  if (started === undefined || current !== undefined) return
  const { actor, resources, line } = started
  current = new IsolatedRun(order)
  // Out before the handler may end this process.
  await new Promise<void>((resolve) => tell({ kind: "begun", run: order.run }, resolve))
  const ended = await current.perform(actor, resources.use, line)
  current = undefined
  questions.forget()
  tell(ended)
}

const stop = async (): Promise<void> => {
  await started?.resources.release()
  endWith({ kind: "stopped" }, 0)
}

process.on("message", (message) => {
  const order = orderOf(message)
  switch (order?.kind) {
    case "start":
      return void start(order)
    case "run":
      return void run(order)
    case "abort":
      if (current?.number === order.run) current.abort(order.reason, order.over)
      return
    case "answer":
      return questions.answered(order)
    case "stop":
      return void stop()
  }
})
process.on("disconnect", () => killGroup(process.pid))
for (const event of ["uncaughtException", "unhandledRejection"] as const) {
  process.on(event, (cause: unknown) => {
    endWith({ kind: "fatal", error: jobError(cause) })
  })
}
markInside()
// Not for the processes that handlers start.
for (const name of ["NODE_CHANNEL_FD", "NODE_CHANNEL_SERIALIZATION_MODE"]) delete process.env[name]
if (process.ppid !== worker) process.exit(1)
