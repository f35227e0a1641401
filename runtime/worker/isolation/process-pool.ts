/**
 * The processes of a worker's isolated handlers: started on demand, used again and again, ended when idle for a while, and
 * never more than handlers may run at a time. Each belongs to one actor.
 */
import { Effect, Exit } from "effect"
import type { ActorDefinition } from "../../actor/actor.ts"
import type { Client } from "../../client/client.ts"
import type { Log } from "../../log/log.ts"
import { ActorStartFailed } from "../actors/served-actor.ts"
import type { JobContext } from "../attempt/job-context.ts"
import type { Run } from "../delivery/in-flight.ts"
import { HandlerProcess } from "./handler-process.ts"
import { processNotStarted } from "./run-exit.ts"

export interface ProcessPoolOptions {
  readonly client: Client
  readonly log: Log
  /** Handlers that run at a time: no more processes than that are kept. */
  readonly concurrency: number
  /** How long a process waits for work before it is ended, in milliseconds. Defaults to 1 minute. */
  readonly idleMs?: number
}

const IDLE_MS = 60_000

/**
 * How long a run that was ended from outside is waited for: a handler that heeds its signal, or a process that is killed,
 * is gone sooner. After that the run is left like a promise that goes on, and keeps its slot until it is really over.
 */
const LEAVE_MS = 1_000

/** Timers that are to wait for longer fire at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1

/** Longest wait for the end of all processes: longer than they have for releasing their resources. */
const CLOSE_MS = 7_000

/** Processes in a row that may turn out to have died while idle before a run fails for it. */
const MAX_TRIES = 3

export class ProcessPool {
  readonly #options: ProcessPoolOptions
  /** Those that can be used, oldest first. */
  readonly #processes = new Set<HandlerProcess>()
  /** Those that have no run, with the timer that ends them. The one that was used last is last. */
  readonly #idle = new Map<HandlerProcess, ReturnType<typeof setTimeout>>()
  /** Every one that has not ended, those on their way out included. */
  readonly #living = new Set<HandlerProcess>()
  #closing = false

  constructor(options: ProcessPoolOptions) {
    this.#options = options
  }

  /**
   * Where nothing but isolated handlers is served: starts a process of each actor, as far as there may be, and waits for
   * one. Fails with `ActorStartFailed` when none comes up: each job would fail for it, one after the other.
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

  /** Processes that have not ended. */
  get size(): number {
    return this.#living.size
  }

  /**
   * Runs a handler in a process of its actor. Its exit is what came of it; when it was ended from outside, `run.stop` says
   * why. At the hard limit, and when the job is handed back, its process is killed.
   */
  run(actor: ActorDefinition, run: Run, input: unknown, job: JobContext): Effect.Effect<Exit.Exit<unknown, unknown>> {
    return Effect.callback<Exit.Exit<unknown, unknown>>((resume) => {
      void this.#run(actor, run, input, job, (exit) => resume(Effect.succeed(exit)))
    })
  }

  /** Kills the process in which the handler of this job runs, or still runs. */
  kill(job: string): void {
    for (const process of this.#living) if (process.job === job) process.kill()
  }

  /** Ends all processes: idle ones in good order, the others at once. Resolves when they have ended. */
  async close(): Promise<void> {
    this.#closing = true
    for (const process of this.#living) {
      if (process.job === undefined) this.#retire(process)
      else process.kill()
    }
    const all = Promise.all([...this.#living].map((process) => process.exited))
    // One that even SIGKILL does not end (it waits for a device) must not keep the worker.
    let timer: ReturnType<typeof setTimeout> | undefined
    const patience = new Promise((resolve) => {
      timer = setTimeout(resolve, CLOSE_MS)
    })
    await Promise.race([all, patience])
    clearTimeout(timer)
  }

  async #run(
    actor: ActorDefinition,
    run: Run,
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
      // It died while it was idle, and that was not known yet.
      if (exit === undefined && run.stop === undefined && tried < MAX_TRIES) continue
      return done(exit ?? (run.stop === undefined ? Exit.fail(processNotStarted("it died")) : Exit.interrupt()))
    }
  }

  /** Resolves when the process is ready, or with why it is of no use to the run. */
  async #ready(process: HandlerProcess, run: Run): Promise<Exit.Exit<never, unknown> | undefined> {
    const left = Promise.withResolvers<Exit.Exit<never>>()
    run.interrupt = () => left.resolve(Exit.interrupt())
    const failed = process.ready.then(
      () => undefined,
      (failure: unknown) => Exit.fail(failure),
    )
    const failure = await Promise.race([failed, left.promise])
    return failure ?? (run.stop === undefined ? undefined : Exit.interrupt())
  }

  /** Carries to the process what ends its run from outside; returns how to stop that. */
  #endFromOutside(
    process: HandlerProcess,
    run: Run,
    ended: Promise<unknown>,
    done: (exit: Exit.Exit<unknown, unknown>) => void,
  ): () => void {
    const { signal } = run
    const timers: Array<ReturnType<typeof setTimeout>> = []
    const tell = () => process.abort(signal.reason, run.stop !== undefined)
    signal.addEventListener("abort", tell, { once: true })
    run.interrupt = () => {
      // The soft limit may have fired the signal before: now its outcome counts for nothing.
      tell()
      if (run.stop === "timeout" || run.stop === "hand-back") process.kill()
      // Nobody watches the limit of a run whose job is decided.
      else
        timers.push(
          setTimeout(() => process.kill(), Math.min(Math.max(0, run.hardAt - run.clock.monotonic()), LONGEST_TIMER_MS)),
        )
      const leave = () => {
        run.pending = ended
        done(Exit.interrupt())
      }
      timers.push(setTimeout(leave, LEAVE_MS))
    }
    return () => {
      signal.removeEventListener("abort", tell)
      for (const timer of timers) clearTimeout(timer)
    }
  }

  /** The process of this actor that was used last, or a new one. */
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
      // Runs never outnumber the slots, so that one of another actor is idle.
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

  /** Its run is over: it waits for the next, if it can have one. */
  #release(process: HandlerProcess): void {
    if (!process.usable || this.#closing) this.#retire(process)
    else
      this.#idle.set(
        process,
        setTimeout(() => this.#retire(process), this.#options.idleMs ?? IDLE_MS),
      )
  }

  /** In the place of a process that died with its run, so that the next run need not wait for a start. */
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

/** Fails with `ActorStartFailed` for an actor with isolated methods whose file is not known, saying what to write. */
export const checkIsolation = (actors: ReadonlyArray<ActorDefinition>): void => {
  for (const actor of actors) {
    const [method] = isolated(actor)
    if (method === undefined || actor.module !== undefined) continue
    throw new ActorStartFailed(
      `actor ${actor.name}: method ${method} has isolation "process", and its file is not known: write ` +
        "`module: import.meta.url` in the actor's options, and export the actor from that file",
    )
  }
}

/** Whether all its handlers run in processes of their own. */
export const isWhollyIsolated = (actor: ActorDefinition): boolean => isolated(actor).length === actor.methods.size

/** The actor as the worker itself starts it: without resources when all its handlers run in processes of their own. */
export const inWorker = (actor: ActorDefinition): ActorDefinition =>
  isWhollyIsolated(actor) ? { ...actor, start: undefined, stop: undefined } : actor
