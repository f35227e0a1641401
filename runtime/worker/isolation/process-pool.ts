/**
 * The processes of a worker's isolated handlers. They are started on demand, reused, and ended when idle for a while.
 * There are never more processes than handlers that may run at a time, and each process belongs to one actor.
 */
import * as Exit from "effect/Exit"
import type { ActorDefinition } from "../../actor/actor.ts"
import type { Client } from "../../client/client.ts"
import type { Log } from "../../log/log.ts"
import { MAX_TIMER_MS, waitFor } from "../../transport/timers.ts"
import type { HandlerRun } from "../active-delivery.ts"
import { ActorStartFailed } from "../actors/served-actor.ts"
import type { JobContext } from "../attempt/job-context.ts"
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
   * Runs a handler in a process of its actor, and hands its exit to `done`, once. When the run is ended from outside, `run.stop` says why. At the hard
   * limit, and when the job is given back, the process is killed.
   */
  run(
    actor: ActorDefinition,
    run: HandlerRun,
    input: unknown,
    job: JobContext,
    done: (exit: Exit.Exit<unknown, unknown>) => void,
  ): void {
    // The wait for a handler that is stopped may end before its process does.
    let isOver = false
    void this.#run(actor, run, input, job, (exit) => {
      if (isOver) return
      isOver = true
      done(exit)
    })
  }

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

  async #run(
    actor: ActorDefinition,
    run: HandlerRun,
    input: unknown,
    job: JobContext,
    done: (exit: Exit.Exit<unknown, unknown>) => void,
  ): Promise<void> {
    for (let tried = 1; ; tried++) {
      run.hold()
      const process = this.#acquire(actor)
      const failure = await this.#ready(process, run)
      if (failure !== undefined) {
        this.#release(process)
        return done(failure)
      }
      run.begin()
      const ended = process.run(run, input, job)
      const over = this.#endFromOutside(process, run, ended, done)
      const exit = await ended
      over()
      this.#release(process)
      if (!process.usable) this.#refill(actor)
      run.pending = undefined
      // The process had died while it was idle, and the worker did not know yet: another process runs the handler.
      if (exit === undefined && run.stop === undefined && tried < MAX_TRIES) continue
      return done(exit ?? (run.stop === undefined ? Exit.fail(processNotStarted("it died")) : Exit.interrupt()))
    }
  }

  /** Resolves with `undefined` when the process is ready, or with the exit of the run if it cannot start there. */
  async #ready(process: HandlerProcess, run: HandlerRun): Promise<Exit.Exit<never, unknown> | undefined> {
    const left = Promise.withResolvers<Exit.Exit<never>>()
    run.interrupt = () => left.resolve(Exit.interrupt())
    const failed = process.ready.then(
      () => undefined,
      (failure: unknown) => Exit.fail(failure),
    )
    const failure = await Promise.race([failed, left.promise])
    return failure ?? (run.stop === undefined ? undefined : Exit.interrupt())
  }

  /** Tells the process when its run is ended from outside. Returns a function that stops doing so. */
  #endFromOutside(
    process: HandlerProcess,
    run: HandlerRun,
    ended: Promise<unknown>,
    done: (exit: Exit.Exit<unknown, unknown>) => void,
  ): () => void {
    const { signal } = run
    const timers: Array<ReturnType<typeof setTimeout>> = []
    const abort = () => process.abort(signal.reason, run.stop !== undefined)
    signal.addEventListener("abort", abort, { once: true })
    // It may have fired while the process was starting.
    if (signal.aborted) abort()
    run.interrupt = () => {
      // The signal may have fired at the soft limit already; this message adds that the outcome is ignored now.
      abort()
      if (run.stop === "timeout" || run.stop === "hand-back") process.kill()
      // The time limits of a decided job are not watched any more, so the process is killed at the hard limit here.
      else
        timers.push(
          setTimeout(() => process.kill(), Math.min(Math.max(0, run.hardAt - run.clock.monotonic()), MAX_TIMER_MS)),
        )
      const leave = () => {
        run.pending = ended
        done(Exit.interrupt())
      }
      timers.push(setTimeout(leave, LEAVE_MS))
    }
    return () => {
      signal.removeEventListener("abort", abort)
      for (const timer of timers) clearTimeout(timer)
    }
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
    if (method === undefined || actor.module !== undefined) continue
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
