/**
 * The worker's side of one process for isolated handlers. The process belongs to one actor, runs one handler at a time,
 * and ends by itself or by SIGKILL. Each run gets an outcome, whatever happens to the process.
 */

import { type ChildProcess, spawn } from "node:child_process"
import * as Exit from "effect/Exit"
import * as Result from "effect/Result"
import type { ActorDefinition } from "../../actor/actor.ts"
import type { Client } from "../../client/client.ts"
import { KnownFailure } from "../../jobs/outcome/job-error.ts"
import { LOG_LEVELS, type LogLevel } from "../../log/choices.ts"
import type { Log } from "../../log/log.ts"
import { jsonForm, parseJson, renderJson } from "../../protocol/codec/json.ts"
import { isObject } from "../../protocol/guards.ts"
import type { JobError } from "../../protocol/record.ts"
import { type HandlerRun, JOB_LOGGER } from "../active-delivery.ts"
import type { JobContext, WorkerPort } from "../run/job-context.ts"
import { killGroup, killRest, loadsFiles, processCommand } from "./child-process.ts"
import { MAX_PAYLOAD, type ProcessMessage, type ProcessRequest, parseProcessMessage, sendOver } from "./messages.ts"
import { exitOf, processDied, processNotStarted } from "./run-exit.ts"
import { callFailureOf, performCall } from "./worker-calls.ts"

/** Longest wait for the actor of a process to start. */
const START_LIMIT_MS = 60_000
/** Longest wait for the process to release its resources before it is killed. */
const STOP_LIMIT_MS = 5_000
/** Longest wait for messages that arrive after the exit of the process. */
const LAST_MESSAGES_MS = 200
/** Longest wait for the end of a process that has closed its channel. */
const CLOSED_MS = 1_000

interface ActiveRun {
  readonly job: JobContext<WorkerPort>
  /** Fires when the run is over, so that calls of the handler are not answered any more. */
  readonly over: AbortController
  begun: boolean
  readonly ended: (exit: Exit.Exit<unknown, unknown> | undefined) => void
}

export class HandlerProcess {
  readonly actor: ActorDefinition
  /** Resolves when handlers can run. Fails with {@link KnownFailure}. */
  readonly ready: Promise<void>
  /** Resolves when the process has ended. */
  readonly exited: Promise<void>
  readonly #child: ChildProcess
  readonly #client: Client
  readonly #log: Log
  readonly #begin = Promise.withResolvers<void>()
  readonly #end = Promise.withResolvers<void>()
  readonly #timers = new Set<ReturnType<typeof setTimeout>>()
  #state: "starting" | "ready" | "worn" | "stopping" | "ended" = "starting"
  #activeRun: ActiveRun | undefined
  #runs = 0
  #fatal: JobError | undefined
  /** Whether no further message is expected: the channel has closed, or the worker killed the process. */
  #silent = false

  constructor(actor: ActorDefinition, client: Client, log: Log) {
    this.actor = actor
    this.#client = client
    this.#log = log.with({ actor: actor.name })
    this.ready = this.#begin.promise
    this.exited = this.#end.promise
    // Prevents an unhandled rejection where no run waits for the process.
    this.ready.catch(() => undefined)
    const { command, args, env } = processCommand()
    // The process leads a process group of its own: Ctrl+C in the terminal reaches only the worker, and a kill ends
    // everything that a handler has started.
    this.#child = spawn(command, [...args], {
      stdio: ["ignore", "inherit", "inherit", "ipc"],
      detached: true,
      env,
    })
    this.#child.on("message", (message) => this.#receive(message))
    this.#child.once("exit", (code, signal) => this.#exited(code, signal))
    this.#child.once("disconnect", () => {
      this.#silent = true
      this.#later(CLOSED_MS, () => this.kill())
    })
    this.#child.on("error", (cause) => {
      if (this.pid === undefined) this.#ended(processNotStarted(cause.message))
    })
    this.#later(START_LIMIT_MS, () => {
      if (this.#state !== "starting") return
      this.#begin.reject(processNotStarted(`actor ${actor.name} was not ready within ${START_LIMIT_MS / 1000} s`))
      this.kill()
    })
    this.#send({
      kind: "start",
      module: (loadsFiles ? actor.module : undefined) ?? "",
      actor: actor.name,
      level: lower(log.level, log.with({ logger: JOB_LOGGER }).level),
    })
  }

  get pid(): number | undefined {
    return this.#child.pid
  }

  /** Whether the process can take another run, now or when it is ready. */
  get usable(): boolean {
    return this.#state === "starting" || this.#state === "ready"
  }

  /** Whether a handler could begin at once. */
  get isReady(): boolean {
    return this.#state === "ready"
  }

  /** Id of the job whose handler runs here, even if the job was decided meanwhile. */
  get job(): string | undefined {
    return this.#activeRun?.job.id
  }

  /**
   * Runs a handler. Only one may run at a time. Never fails: the exit says how the handler ended, or that the process
   * died. `undefined` when the process had ended before, or died before it called the handler.
   */
  run(run: HandlerRun, input: unknown, job: JobContext<WorkerPort>): Promise<Exit.Exit<unknown, unknown> | undefined> {
    if (this.#state !== "ready") return Promise.resolve(undefined)
    const payload = renderJson({ input, headers: job.headers, meta: job.meta })
    if (Result.isFailure(payload)) return Promise.resolve(Exit.fail(invalidInput(payload.failure.message)))
    if (payload.success.length > MAX_PAYLOAD) {
      return Promise.resolve(Exit.fail(invalidInput(`the input has more than ${MAX_PAYLOAD} characters`)))
    }
    return new Promise((resolve) => {
      const over = new AbortController()
      this.#activeRun = { job, over, begun: false, ended: resolve }
      this.#runs++
      this.#send({
        kind: "run",
        run: this.#runs,
        job: {
          ...job.port.facts,
          deadline: job.deadline,
          ...(run.handsOn ? { handsOn: true } : {}),
          ...(job.port.hasSteps && job.port.steps.isEnding ? { reverting: true } : {}),
        },
        ...(run.trace === undefined ? {} : { trace: run.trace.context }),
        payload: payload.success,
      })
    })
  }

  /** Fires the handler's signal. `over`: the outcome of the run is ignored from now on. */
  abort(reason: unknown, over: boolean): void {
    if (this.#activeRun === undefined) return
    const { name, message } =
      reason instanceof Error ? reason : { name: "AbortError", message: "the run was terminated" }
    this.#send({ kind: "abort", run: this.#runs, reason: { name, message }, over })
  }

  /** Kills the process at once, with everything that its handlers have started. */
  kill(): void {
    if (this.#state === "ended") return
    // The process takes no other run, even if further messages arrive.
    this.#state = "stopping"
    this.#silent = true
    if (this.pid !== undefined) killGroup(this.pid)
  }

  /**
   * Tells the process to release its resources and end, and kills it when that takes too long. Resolves when the
   * process has ended.
   */
  stop(): Promise<void> {
    if (this.#state !== "stopping" && this.#state !== "ended") {
      this.#state = "stopping"
      this.#begin.reject(processNotStarted("the worker is stopping"))
      this.#send({ kind: "stop" })
      this.#later(STOP_LIMIT_MS, () => {
        this.#log.warn("a process of isolated handlers did not stop in time and was killed", { pid: this.pid })
        this.kill()
      })
    }
    return this.exited
  }

  #send(request: ProcessRequest): void {
    sendOver((message, sent) => this.#child.send(message, undefined, undefined, sent), request)
  }

  #receive(message: unknown): void {
    const received = parseProcessMessage(message)
    if (received === undefined) {
      this.#log.debug("a process of isolated handlers sent an unknown message", { pid: this.pid })
      return
    }
    switch (received.kind) {
      case "ready":
        if (this.#state === "starting") this.#state = "ready"
        this.#begin.resolve()
        return
      case "unfit":
        this.#begin.reject(new KnownFailure(received.error))
        this.kill()
        return
      case "worn":
        this.#log.warn("a resource failed: the next run gets a new process", { cause: received.error.message })
        if (this.#state === "ready") this.#state = "worn"
        if (this.#activeRun === undefined) void this.stop()
        return
      case "stopped":
        return
      case "fatal":
        this.#fatal = received.error
        // The run fails with this error too, if there is one, but its record keeps only the error's name.
        this.#log.error("an uncaught error ends a process of isolated handlers", {
          cause: received.error.traceback ?? `${received.error.name}: ${received.error.message}`,
        })
        return
      default:
        this.#receiveOfRun(received)
    }
  }

  #receiveOfRun(received: Extract<ProcessMessage, { readonly run: number }>): void {
    const activeRun = received.run === this.#runs ? this.#activeRun : undefined
    if (received.kind === "log") {
      const log = received.run === 0 ? this.#log : (activeRun?.job.log ?? this.#log)
      log[received.level](received.message, fieldsOf(received.fields))
      return
    }
    if (activeRun === undefined) return
    switch (received.kind) {
      case "begun":
        activeRun.begun = true
        return
      case "progress":
        activeRun.job.progress(received.fraction, received.detail === undefined ? undefined : valueOf(received.detail))
        return
      case "meta":
        try {
          activeRun.job.patchMeta(fieldsOf(received.patch) ?? {})
        } catch (cause) {
          this.#log.debug("a change of metadata by an isolated handler was refused", { cause: String(cause) })
        }
        return
      case "event":
        // The process has validated the event already. A library that imitates the message must not crash the worker.
        try {
          activeRun.job.event(received.type, fieldsOf(received.fields))
        } catch (cause) {
          this.#log.debug("an event of an isolated handler was refused", { type: received.type, cause: String(cause) })
        }
        return
      case "ask":
        void this.#answer(received, activeRun)
        return
      default:
        this.#finish(exitOf(received))
    }
  }

  async #answer(question: Extract<ProcessMessage, { readonly kind: "ask" }>, activeRun: ActiveRun): Promise<void> {
    const number = question.question
    const answer = (request: Omit<Extract<ProcessRequest, { readonly kind: "answer" }>, "kind" | "question">) => {
      if (!activeRun.over.signal.aborted) this.#send({ kind: "answer", question: number, ...request })
    }
    const caller = { job: activeRun.job, client: this.#client, signal: activeRun.over.signal }
    try {
      const value = await performCall(question, caller)
      const form = jsonForm(value, "answer")
      if (Result.isFailure(form)) throw new Error(form.failure.message)
      const text: string | undefined = JSON.stringify(form.success)
      if (text !== undefined && text.length > MAX_PAYLOAD)
        throw new Error("the answer is too large for an isolated process")
      answer(text === undefined ? {} : { value: text })
    } catch (cause) {
      answer({ refused: callFailureOf(cause) })
    }
  }

  #finish(exit: Exit.Exit<unknown, unknown> | undefined): void {
    const activeRun = this.#activeRun
    this.#activeRun = undefined
    activeRun?.over.abort()
    activeRun?.ended(exit)
  }

  #exited(code: number | null, signal: NodeJS.Signals | null): void {
    if (this.pid !== undefined) killRest(this.pid)
    const conclude = () => this.#ended(this.#died(code, signal))
    // `connected` cannot be used here: Deno sets it to false before it has delivered the last messages.
    if (this.#silent) conclude()
    else {
      this.#child.once("disconnect", conclude)
      this.#later(LAST_MESSAGES_MS, conclude)
    }
  }

  #died(code: number | null, signal: NodeJS.Signals | null): KnownFailure {
    return processDied(this.pid, code, signal, this.#fatal)
  }

  #ended(failure: KnownFailure): void {
    if (this.#state === "ended") return
    this.#state = "ended"
    for (const timer of this.#timers) clearTimeout(timer)
    this.#begin.reject(failure)
    this.#finish(this.#activeRun?.begun === true ? Exit.fail(failure) : undefined)
    this.#end.resolve()
  }

  /** Runs `act` later, unless the process has ended by then. */
  #later(ms: number, act: () => void): void {
    const timer = setTimeout(() => {
      this.#timers.delete(timer)
      act()
    }, ms)
    this.#timers.add(timer)
  }
}

/** The lower of two log levels, which lets more lines through. */
const lower = (one: LogLevel, other: LogLevel): LogLevel =>
  LOG_LEVELS.indexOf(one) < LOG_LEVELS.indexOf(other) ? one : other

const invalidInput = (message: string): KnownFailure =>
  new KnownFailure({ name: "InvalidInput", message, reason: "invalid-input" }, true)

const valueOf = (text: string): unknown => Result.getOrUndefined(parseJson(text))

const fieldsOf = (text: string | undefined): Readonly<Record<string, unknown>> | undefined => {
  const value = text === undefined ? undefined : valueOf(text)
  return isObject(value) ? { ...value } : undefined
}
