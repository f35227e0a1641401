/**
 * The program of a process for isolated handlers. It loads one actor, starts it, and runs one handler at a time. It
 * ends when the worker tells it to, when an error was not caught, and when its worker is gone.
 */

import type { ActorDefinition } from "../../actor/actor.ts"
import { isActor } from "../../actor/actor.ts"
import { acquire, type Resources } from "../../actor/resources.ts"
import { deferred } from "../../async/deferred.ts"
import { CallboardError, type ErrorCode, WaitTimeout } from "../../errors.ts"
import { jobError } from "../../jobs/outcome/job-error.ts"
import type { LogLevel } from "../../log/choices.ts"
import { isObject } from "../../protocol/guards.ts"
import { logTo, type WorkerChannel } from "./channel-port.ts"
import { killGroup, markHandlerProcess, takeWorker } from "./child-process.ts"
import { IsolatedRun } from "./isolated-run.ts"
import { type ProcessMessage, type ProcessRequest, parseProcessRequest, sendOver } from "./messages.ts"
import { watchParent } from "./parent-watch.ts"

/** The actors with which the program calls serve(). */
const served = deferred<ReadonlyArray<ActorDefinition>>()

const servedActor = async (name: string): Promise<ActorDefinition> => {
  const found = (await served.promise).find((actor) => actor.name === name)
  if (found === undefined)
    throw new Error(`the first serve() has no actor ${name}: pass all isolated actors to one serve()`)
  return found
}

const exportedActor = async (module: string, name: string): Promise<ActorDefinition> => {
  const exported: unknown = await import(
    /* webpackIgnore: true */ /* turbopackIgnore: true */ /* @vite-ignore */ module
  )
  const values: ReadonlyArray<unknown> = isObject(exported) ? Object.values(exported) : []
  const found = values.filter(isActor).find((actor) => actor.name === name)
  if (found === undefined) {
    throw new Error(`${module} exports no actor ${name}: export it from the file that its option \`module\` names`)
  }
  return found
}

/**
 * Loads an actor from the file that exports it. If that file calls serve(), the actor is one of those that it serves, and if
 * there is no file, the main program calls serve(). Fails, saying what to write, if the file cannot be loaded or has no such
 * actor.
 */
const loadActor = (module: string, name: string): Promise<ActorDefinition> =>
  module === "" ? servedActor(name) : Promise.race([servedActor(name), exportedActor(module, name)])

type Answer = Extract<ProcessRequest, { readonly kind: "answer" }>

interface PendingCall {
  readonly resolve: (value: unknown) => void
  readonly reject: (cause: unknown) => void
}

/** Calls of the handler that the worker has not answered yet. */
class PendingCalls {
  readonly #waiting = new Map<number, PendingCall>()
  #last = 0

  /** Sends a call under a new number and resolves with its answer. */
  ask(send: (question: number) => void): Promise<unknown> {
    const question = ++this.#last
    return new Promise((resolve, reject) => {
      this.#waiting.set(question, { resolve, reject })
      send(question)
    })
  }

  /** Drops all calls, because the run that made them is over. */
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
    // The value is JSON text that the worker made itself, so it can be parsed.
    waiting.resolve(value === undefined ? undefined : JSON.parse(value))
  }
}

/** Rebuilds the error that the worker's client threw, with its class where a handler may want to distinguish it. */
const errorOf = ({ name, message, code, field, id }: NonNullable<Answer["refused"]>): Error => {
  if (code !== undefined) {
    // The code comes from the worker, so it is a valid one.
    return new CallboardError(code as ErrorCode, message, {
      ...(field === undefined ? {} : { field }),
      ...(id === undefined ? {} : { id }),
    })
  }
  const error = name === "WaitTimeout" ? new WaitTimeout(id ?? "", 0) : new Error()
  error.message = message
  return name === "WaitTimeout" ? error : Object.assign(error, { name })
}

/** Runs isolated handlers for a worker, until it ends this process. `worker`: its process id. */
const runHandlers = (worker: number): void => {
  const pendingCalls = new PendingCalls()
  /** The thread is started at once, since a handler may block the main thread soon. */
  const watched = watchParent(worker, (cause) => {
    const message = "the end of the worker is not noticed while a handler blocks"
    send({ kind: "log", run: 0, level: "warn", message, fields: JSON.stringify({ cause: String(cause) }) })
  })
  let started:
    | { readonly actor: ActorDefinition; readonly resources: Resources; readonly channel: WorkerChannel }
    | undefined
  let current: IsolatedRun | undefined

  const send = (received: ProcessMessage, then?: () => void): void =>
    sendOver((message, sent) => process.send?.(message, undefined, undefined, sent), received, then)

  /** Sends a last message and ends the process once it was sent. */
  const endWith = (received: ProcessMessage, code = 1): void => send(received, () => process.exit(code))

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
    // This message must be sent before the handler runs, because the handler may end the process.
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
  markHandlerProcess(served.resolve)
  // Processes that handlers start must not inherit the channel to the worker.
  for (const name of ["NODE_CHANNEL_FD", "NODE_CHANNEL_SERIALIZATION_MODE"]) delete process.env[name]
  if (process.ppid !== worker) process.exit(1)
}

const worker = takeWorker()
/** Whether this is the process. In a bundle this module is loaded in the worker's process, too. */
export const runsHandlers = worker !== undefined

if (worker !== undefined) runHandlers(worker)
