/**
 * One process of isolated handlers, as its worker sees it: started for one actor, runs one handler at a time, and ends
 * in good order or by SIGKILL. A run always has an outcome, whatever becomes of the process.
 */
import { type ChildProcess, spawn } from "node:child_process"
import { Exit, Result } from "effect"
import type { ActorDefinition } from "../../actor/actor.ts"
import type { Client } from "../../client/client.ts"
import { KnownFailure } from "../../jobs/outcome/known-failure.ts"
import { LOG_LEVELS, type Log, type LogLevel } from "../../log/log.ts"
import { parseJson, renderJson } from "../../protocol/codec/json.ts"
import type { JobError } from "../../protocol/record.ts"
import type { JobContext } from "../attempt/job-context.ts"
import type { Run } from "../delivery/in-flight.ts"
import { JOB_LOGGER } from "../delivery/job-fields.ts"
import { processCommand } from "./command.ts"
import { killGroup, killRest } from "./kill.ts"
import { MAX_PAYLOAD, type ProcessMessage, type ProcessRequest, parseProcessMessage, sendOver } from "./messages.ts"
import { exitOf, processDied, processNotStarted } from "./run-exit.ts"
import { callFailureOf, performCall } from "./worker-calls.ts"

/** A process whose actor has not started by then is given up. */
const START_LIMIT_MS = 60_000
/** How long resources may take to be released before the process is killed all the same. */
const STOP_LIMIT_MS = 5_000
/** What a process said last may arrive after the news of its end, but not much later. */
const LAST_MESSAGES_MS = 200
/** A process that closed its channel is of no use any more; this long it may take to end by itself. */
const CLOSED_MS = 1_000

interface ActiveRun {
  readonly job: JobContext
  /** Fires when the run is over: nobody waits for answers to its questions any more. */
  readonly over: AbortController
  begun: boolean
  readonly ended: (exit: Exit.Exit<unknown, unknown> | undefined) => void
}

export class HandlerProcess {
  readonly actor: ActorDefinition
  /** Resolves when handlers can run; fails with {@link KnownFailure}. */
  readonly ready: Promise<void>
  /** Resolves when it has ended. */
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
  /** Nothing that matters will be heard of it any more: its channel has closed, or it was killed from here. */
  #silent = false

  constructor(actor: ActorDefinition, client: Client, log: Log) {
    this.actor = actor
    this.#client = client
    this.#log = log.with({ actor: actor.name })
    this.ready = this.#begin.promise
    this.exited = this.#end.promise
    // Nobody may be waiting for it.
    this.ready.catch(() => undefined)
    const { command, args } = processCommand()
    // A group of its own: Ctrl+C in the terminal is for the worker, and a kill takes along what a handler has started.
    this.#child = spawn(command, [...args], { stdio: ["ignore", "inherit", "inherit", "ipc"], detached: true })
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
      module: actor.module ?? "",
      actor: actor.name,
      level: lower(log.level, log.with({ logger: JOB_LOGGER }).level),
    })
  }

  get pid(): number | undefined {
    return this.#child.pid
  }

  /** Whether it can be given another run, now or when it is ready. */
  get usable(): boolean {
    return this.#state === "starting" || this.#state === "ready"
  }

  /** Whether a handler would begin at once. */
  get isReady(): boolean {
    return this.#state === "ready"
  }

  /** Id of the job whose handler runs, or goes on after its job was decided. */
  get job(): string | undefined {
    return this.#activeRun?.job.id
  }

  /**
   * Runs a handler; one at a time. Never fails: the exit is what came of the handler, or that the process died;
   * `undefined` when the process was not there any more, or died before it called the handler.
   */
  run(run: Run, input: unknown, job: JobContext): Promise<Exit.Exit<unknown, unknown> | undefined> {
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
        method: run.method.name,
        job: {
          id: job.id,
          attempt: job.attempt,
          run: job.run,
          retries: job.retries,
          queue: job.queue,
          deadline: job.deadline,
          ...(job.parentId === undefined ? {} : { parentId: job.parentId }),
          ...(job.rootId === undefined ? {} : { rootId: job.rootId }),
          ...(job.after.length === 0 ? {} : { after: job.after }),
        },
        ...(run.trace === undefined ? {} : { trace: run.trace.context }),
        payload: payload.success,
      })
    })
  }

  /** The handler's signal fires; `over`: its outcome counts for nothing. */
  abort(reason: unknown, over: boolean): void {
    if (this.#activeRun === undefined) return
    const { name, message } =
      reason instanceof Error ? reason : { name: "AbortError", message: "the run was ended from outside" }
    this.#send({ kind: "abort", run: this.#runs, reason: { name, message }, over })
  }

  /** Ends it at once, with everything that its handlers have started. */
  kill(): void {
    if (this.#state === "ended") return
    // Whatever it still says, it gets no other run.
    this.#state = "stopping"
    this.#silent = true
    if (this.pid !== undefined) killGroup(this.pid)
  }

  /** Ends it in good order, and by force when that takes too long. Resolves when it has ended. */
  stop(): Promise<void> {
    if (this.#state !== "stopping" && this.#state !== "ended") {
      this.#state = "stopping"
      this.#begin.reject(processNotStarted("the worker stops"))
      this.#send({ kind: "stop" })
      this.#later(STOP_LIMIT_MS, () => {
        this.#log.warn("a process of isolated handlers did not stop in time and is killed", { pid: this.pid })
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
      this.#log.debug("a process of isolated handlers said something else", { pid: this.pid })
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
        this.#log.warn("a resource broke: the next run gets a fresh process", { cause: received.error.message })
        if (this.#state === "ready") this.#state = "worn"
        if (this.#activeRun === undefined) void this.stop()
        return
      case "stopped":
        return
      case "fatal":
        this.#fatal = received.error
        // The run, if there is one, fails for it, and says no more than its name.
        this.#log.error("an error that nothing caught ends a process of isolated handlers", {
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
      case "event":
        // Checked in the process already; what a library sends in its place must not end the worker.
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
    try {
      const value = await performCall(question, activeRun.job, this.#client, activeRun.over.signal)
      const text: string | undefined = JSON.stringify(value)
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
    // Not `connected`, which Deno takes back before the last messages have been handed over.
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

  /** Does something unless the process has ended by then. */
  #later(ms: number, act: () => void): void {
    const timer = setTimeout(() => {
      this.#timers.delete(timer)
      act()
    }, ms)
    this.#timers.add(timer)
  }
}

/** Of two levels the one that lets more through. */
const lower = (one: LogLevel, other: LogLevel): LogLevel =>
  LOG_LEVELS.indexOf(one) < LOG_LEVELS.indexOf(other) ? one : other

const invalidInput = (message: string): KnownFailure =>
  new KnownFailure({ name: "InvalidInput", message, reason: "invalid-input" }, true)

const valueOf = (text: string): unknown => Result.getOrUndefined(parseJson(text))

const fieldsOf = (text: string | undefined): Readonly<Record<string, unknown>> | undefined => {
  const value = text === undefined ? undefined : valueOf(text)
  return typeof value === "object" && value !== null ? { ...value } : undefined
}
