/**
 * The processes of a worker's isolated handlers. They are started on demand, reused, and ended when idle for a while.
 * There are never more processes than handlers that may run at a time, and each process belongs to one actor.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type { ActorDefinition } from "../../actor/actor.ts"
import type { Client } from "../../client/client.ts"
import type { Log } from "../../log/log.ts"
import { MAX_TIMER_MS, waitFor } from "../../transport/timers.ts"
import type { HandlerRun } from "../active-delivery.ts"
import { ActorStartFailed } from "../actors/served-actor.ts"
import type { JobContext, WorkerPort } from "../run/job-context.ts"
import { loadsFiles } from "./child-process.ts"
import { HandlerProcess } from "./handler-process.ts"
import { processNotStarted } from "./run-exit.ts"

export interface ProcessPoolOptions {
  readonly client: Client
  readonly log: Log
  /** Handlers that run at a time, and so the most processes that are kept. */
  readonly concurrency: number
  /** Milliseconds that an idle process is kept. Defaults to 1 minute. */
  readonly idleMs?: number
}

const IDLE_MS = 60_000

/**
 * How long a run that was ended from outside is waited for. A handler that heeds its signal, or a process that is
 * killed, ends sooner. After that the run counts as stuck and keeps its slot until it really ends.
 */
const LEAVE_MS = 1_000

/** Longest wait for the end of all processes; longer than the time in which they may release their resources. */
const CLOSE_MS = 7_000

/** Idle processes in a row that may be found dead before the run fails. */
const MAX_TRIES = 3

export class ProcessPool {
  readonly #options: ProcessPoolOptions
  /** Processes that can take runs, oldest first. */
  readonly #processes = new Set<HandlerProcess>()
  /** Processes without a run, with the timer that ends them. The process that was used last comes last. */
  readonly #idle = new Map<HandlerProcess, ReturnType<typeof setTimeout>>()
  /** All processes that have not ended, including those that are about to. */
  readonly #living = new Set<HandlerProcess>()
  #closing = false

  constructor(options: ProcessPoolOptions) {
    this.#options = options
  }

  /**
   * For a worker that serves only isolated handlers: starts a process for each actor, up to the concurrency, and waits
   * for the first that is ready. Fails with `ActorStartFailed` when none can be started, because each job would fail
   * with that error.
   */
  async checkStart(actors: ReadonlyArray<ActorDefinition>): Promise<void> {
    if (actors.length === 0 || !actors.every(isWhollyIsolated)) return
    const processes = actors.slice(0, this.#options.concurrency).map((actor) => this.#start(actor))
    for (const process of processes) this.#release(process)
    const all = await Promise.allSettled(processes.map(({ ready }) => ready))
    const [first] = all
    if (first?.status !== "rejected" || all.some(({ status }) => status === "fulfilled")) return
    throw new ActorStartFailed(`no process of isolated handlers can be started: ${messageOf(first.reason)}`)
  }

  /** Number of processes that have not ended. */
  get size(): number {
    return this.#living.size
  }

  /**
   * Runs a handler in a process of its actor. When the run is interrupted, `run.stop` says why. At the hard limit, and when the
   * job is given back, the process is killed. Its end is awaited for a moment, after which it is the run's `pending`.
   */
  readonly run = Effect.fnUntraced(function* (
    this: ProcessPool,
    actor: ActorDefinition,
    run: HandlerRun,
    input: unknown,
    job: JobContext<WorkerPort>,
  ): Effect.fn.Return<unknown, unknown> {
    for (let tried = 0; tried < MAX_TRIES; tried++) {
      run.hold()
      const process = this.#acquire(actor)
      yield* this.#untilReady(process)
      run.begin()
      const exit = yield* this.#call(process, run, input, job)
      // Otherwise the process had died while it was idle, and the worker did not know yet: another process runs the handler.
      if (exit !== undefined) return yield* exit
    }
    return yield* Exit.fail(processNotStarted("it died"))
  })

  /** Kills the process in which the handler of this job runs, even if the job was decided meanwhile. */
  kill(job: string): void {
    for (const process of this.#living) if (process.job === job) process.kill()
  }

  /**
   * Ends all processes: idle ones after they have released their resources, the others at once. Resolves when they have
   * ended.
   */
  async close(): Promise<void> {
    this.#closing = true
    for (const process of this.#living) {
      if (process.job === undefined) this.#retire(process)
      else process.kill()
    }
    const all = Promise.all([...this.#living].map((process) => process.exited))
    // A process that even SIGKILL does not end (it waits for a device) must not keep the worker from ending.
    await waitFor(all, CLOSE_MS)
  }

  /** Waits until the process can take the run. Fails as its start does; the process is released then, also if interrupted. */
  #untilReady(process: HandlerProcess): Effect.Effect<void, unknown> {
    const started = Effect.tryPromise({ try: () => process.ready, catch: (failure) => failure })
    return Effect.onExit(started, (exit) =>
      Exit.isFailure(exit) ? Effect.sync(() => this.#release(process)) : Effect.void,
    )
  }

  /** Calls the handler in a process that is ready: `undefined` if the process had died before. */
  #call(
    process: HandlerProcess,
    run: HandlerRun,
    input: unknown,
    job: JobContext<WorkerPort>,
  ): Effect.Effect<Exit.Exit<unknown, unknown> | undefined> {
    return Effect.callback((resume) => {
      const { signal } = run
      const abort = () => process.abort(signal.reason, run.stop !== undefined)
      let killing: ReturnType<typeof setTimeout> | undefined
      const ended = process.run(run, input, job).then((exit) => {
        signal.removeEventListener("abort", abort)
        clearTimeout(killing)
        this.#release(process)
        if (!process.usable) this.#refill(process.actor)
        run.pending = undefined
        resume(Exit.succeed(exit))
      })
      signal.addEventListener("abort", abort, { once: true })
      // It may have fired while the process was starting.
      if (signal.aborted) abort()
      return Effect.promise(async () => {
        // The signal may have fired at the soft limit already; this message adds that the outcome is ignored now.
        abort()
        if (run.stop === "timeout" || run.stop === "hand-back") process.kill()
        // The time limits of a decided job are not watched any more, so the process is killed at the hard limit here.
        else {
          const left = Math.max(0, run.hardAt - run.clock.monotonic())
          killing = setTimeout(() => process.kill(), Math.min(left, MAX_TIMER_MS))
        }
        run.pending = ended
        await waitFor(ended, LEAVE_MS)
      })
    })
  }

  /** Takes the process of this actor that was used last, or starts a new one. */
  #acquire(actor: ActorDefinition): HandlerProcess {
    const mine = [...this.#idle.keys()].filter((process) => process.actor === actor && process.usable)
    const found = mine.findLast((process) => process.isReady) ?? mine.at(-1) ?? this.#start(actor)
    clearTimeout(this.#idle.get(found))
    this.#idle.delete(found)
    return found
  }

  #start(actor: ActorDefinition): HandlerProcess {
    const { client, log, concurrency } = this.#options
    if (this.#processes.size >= concurrency) {
      // There are never more runs than slots, so a process of another actor must be idle.
      const [oldest] = this.#idle.keys()
      if (oldest !== undefined) this.#retire(oldest)
    }
    const process = new HandlerProcess(actor, client, log)
    this.#processes.add(process)
    this.#living.add(process)
    void process.exited.then(() => {
      this.#forget(process)
      this.#living.delete(process)
    })
    return process
  }

  /** Called when a run is over: the process becomes idle, or ends if it cannot take another run. */
  #release(process: HandlerProcess): void {
    if (!process.usable || this.#closing) this.#retire(process)
    else
      this.#idle.set(
        process,
        setTimeout(() => this.#retire(process), this.#options.idleMs ?? IDLE_MS),
      )
  }

  /** Starts a process in place of one that died with its run, so that the next run need not wait. */
  #refill(actor: ActorDefinition): void {
    if (this.#closing || this.#processes.size >= this.#options.concurrency) return
    for (const process of this.#idle.keys()) if (process.actor === actor) return
    this.#release(this.#start(actor))
  }

  #forget(process: HandlerProcess): void {
    clearTimeout(this.#idle.get(process))
    this.#idle.delete(process)
    this.#processes.delete(process)
  }

  #retire(process: HandlerProcess): void {
    this.#forget(process)
    void process.stop()
  }
}

const messageOf = (cause: unknown): string => (cause instanceof Error ? cause.message : String(cause))

const isolated = (actor: ActorDefinition): ReadonlyArray<string> =>
  [...actor.methods.values()].filter((method) => method.isolation === "process").map((method) => method.name)

/**
 * Checks the actors when the worker starts. Fails with `ActorStartFailed`, saying what to write, for an actor with
 * isolated methods whose file is unknown.
 */
export const checkIsolation = (actors: ReadonlyArray<ActorDefinition>): void => {
  for (const actor of actors) {
    const [method] = isolated(actor)
    if (method === undefined || actor.module !== undefined || !loadsFiles) continue
    throw new ActorStartFailed(
      `actor ${actor.name}: method ${method} has isolation "process", but its file is unknown: set ` +
        "`module: import.meta.url` in the actor's options, and export the actor from that file",
    )
  }
}

/** Whether all handlers of an actor run in processes of their own. */
const isWhollyIsolated = (actor: ActorDefinition): boolean => isolated(actor).length === actor.methods.size

/**
 * The actor as the worker itself starts it: without its resources when all its handlers run in processes of their own.
 */
export const inWorker = (actor: ActorDefinition): ActorDefinition =>
  isWhollyIsolated(actor) ? { ...actor, start: undefined, stop: undefined } : actor
