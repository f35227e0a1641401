/**
 * The process of isolated handlers: loads one actor, starts it, and runs one handler at a time for the worker that
 * started the process. It ends when it is told to, when nothing caught an error, and when its worker is gone.
 *
 * Arguments: the process id of the worker.
 */
import { Worker as Thread } from "node:worker_threads"
import { Result } from "effect"
import type { ActorDefinition } from "../../actor/actor.ts"
import { isActor } from "../../actor/discover.ts"
import type { JobLog } from "../../actor/job.ts"
import { CallboardError, type ErrorCode, WaitTimeout } from "../../errors.ts"
import { jobError } from "../../jobs/outcome/job-error.ts"
import type { LogLevel } from "../../log/log.ts"
import { parseJson } from "../../protocol/codec/json.ts"
import { markHandlerProcess } from "./handler-process-mark.ts"
import { logTo, type WorkerChannel } from "./isolated-job.ts"
import { IsolatedRun } from "./isolated-run.ts"
import { killGroup } from "./kill.ts"
import { type ProcessMessage, type ProcessRequest, parseProcessRequest, sendOver } from "./messages.ts"

/** Fails when the module cannot be loaded, and when it exports no such actor, saying what to write. */
export const loadActor = async (module: string, name: string): Promise<ActorDefinition> => {
  const exported: unknown = await import(module)
  const values: ReadonlyArray<unknown> =
    typeof exported === "object" && exported !== null ? Object.values(exported) : []
  const found = values.filter(isActor).find((actor) => actor.name === name)
  if (found === undefined) {
    throw new Error(`${module} exports no actor ${name}: export it from the file that its option \`module\` names`)
  }
  return found
}

export interface Resources {
  readonly use: unknown
  /** Releases them, in reverse order. Never fails. */
  release(): Promise<void>
}

/** Starts an actor. Fails with whatever its `start` fails with; `onBroken` hears of a resource that breaks later. */
export const acquire = async (
  actor: ActorDefinition,
  log: JobLog,
  onBroken: (cause: unknown) => void,
): Promise<Resources> => {
  const releases: Array<() => unknown> = []
  const abort = new AbortController()
  const use = await actor.start?.({
    actor: actor.name,
    signal: abort.signal,
    onStop: (release) => releases.push(release),
    fail: onBroken,
  })
  return {
    use,
    release: async () => {
      abort.abort()
      for (const step of [() => actor.stop?.(use), ...[...releases].reverse()]) {
        // One resource that cannot be released must not keep the others.
        try {
          await step()
        } catch (cause) {
          log.error(`actor ${actor.name} did not stop cleanly`, { cause: String(cause) })
        }
      }
    },
  }
}

type Answer = Extract<ProcessRequest, { readonly kind: "answer" }>

interface PendingCall {
  readonly resolve: (value: unknown) => void
  readonly reject: (cause: unknown) => void
}

export class PendingCalls {
  readonly #waiting = new Map<number, PendingCall>()
  #last = 0

  /** Asks, under a number of its own. */
  ask(send: (question: number) => void): Promise<unknown> {
    const question = ++this.#last
    return new Promise((resolve, reject) => {
      this.#waiting.set(question, { resolve, reject })
      send(question)
    })
  }

  /** Those who asked are gone: their run is over. */
  forget(): void {
    this.#waiting.clear()
  }

  answered({ question, value, refused }: Answer): void {
    const waiting = this.#waiting.get(question)
    this.#waiting.delete(question)
    if (waiting === undefined) return
    if (refused !== undefined) {
      waiting.reject(errorOf(refused))
      return
    }
    const parsed = value === undefined ? Result.succeed(undefined) : parseJson(value)
    if (Result.isFailure(parsed)) waiting.reject(new CallboardError("internal", parsed.failure.message))
    else waiting.resolve(parsed.success)
  }
}

/** The error that the worker's client threw, as its own class where a handler may want to tell it apart. */
const errorOf = ({ name, message, code, field, id }: NonNullable<Answer["refused"]>): Error => {
  if (code !== undefined) {
    // The worker's own words: one of its codes.
    return new CallboardError(code as ErrorCode, message, {
      ...(field === undefined ? {} : { field }),
      ...(id === undefined ? {} : { id }),
    })
  }
  const error = name === "WaitTimeout" ? new WaitTimeout(id ?? "", 0) : new Error()
  error.message = message
  return name === "WaitTimeout" ? error : Object.assign(error, { name })
}

const worker = Number(process.argv[2])
const pendingCalls = new PendingCalls()
/** Begun at once: a handler that blocks comes soon enough. */
const watched = watchWorker()
let started:
  | { readonly actor: ActorDefinition; readonly resources: Resources; readonly channel: WorkerChannel }
  | undefined
let current: IsolatedRun | undefined

const send = (received: ProcessMessage, then?: () => void): void =>
  sendOver((message, sent) => process.send?.(message, undefined, undefined, sent), received, then)

/** Says a last word, and ends once that is out. */
const endWith = (received: ProcessMessage, code = 1): void => send(received, () => process.exit(code))

/** A blocked handler would keep the main thread from seeing that the worker is gone. Resolves once the thread watches. */
function watchWorker(): Promise<void> {
  return new Promise((resolve) => {
    const file = new URL(import.meta.url.endsWith(".ts") ? "./watch-thread.ts" : "./watch-thread.js", import.meta.url)
    const thread = new Thread(file, { workerData: { worker } })
    thread.unref()
    thread.once("message", () => resolve())
    thread.once("error", (cause) => {
      const message = "nothing watches for the end of the worker while a handler blocks"
      send({ kind: "log", run: 0, level: "warn", message, fields: JSON.stringify({ cause: String(cause) }) })
      resolve()
    })
  })
}

const channelTo = (level: LogLevel): WorkerChannel => ({
  level,
  send,
  ask: (question) => pendingCalls.ask((number) => send({ kind: "ask", question: number, ...question })),
})

const start = async ({ module, actor: name, level }: Extract<ProcessRequest, { kind: "start" }>): Promise<void> => {
  try {
    const channel = channelTo(level)
    const actor = await loadActor(module, name)
    const broke = (cause: unknown) => send({ kind: "worn", error: jobError(cause, "actor-broken") })
    const [resources] = await Promise.all([acquire(actor, logTo(channel, 0), broke), watched])
    started = { actor, resources, channel }
    send({ kind: "ready" })
  } catch (cause) {
    endWith({ kind: "unfit", error: jobError(cause, "actor-not-started") })
  }
}

const run = async (request: Extract<ProcessRequest, { kind: "run" }>): Promise<void> => {
  if (started === undefined || current !== undefined) return
  const { actor, resources, channel } = started
  current = new IsolatedRun(request)
  // Out before the handler may end this process.
  await new Promise<void>((resolve) => send({ kind: "begun", run: request.run }, resolve))
  const ended = await current.perform(actor, resources.use, channel)
  current = undefined
  pendingCalls.forget()
  send(ended)
}

const stop = async (): Promise<void> => {
  await started?.resources.release()
  endWith({ kind: "stopped" }, 0)
}

process.on("message", (message) => {
  const request = parseProcessRequest(message)
  switch (request?.kind) {
    case "start":
      return void start(request)
    case "run":
      return void run(request)
    case "abort":
      if (current?.number === request.run) current.abort(request.reason, request.over)
      return
    case "answer":
      return pendingCalls.answered(request)
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
markHandlerProcess()
// Not for the processes that handlers start.
for (const name of ["NODE_CHANNEL_FD", "NODE_CHANNEL_SERIALIZATION_MODE"]) delete process.env[name]
if (process.ppid !== worker) process.exit(1)
