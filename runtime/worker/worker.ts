/**
 * A worker: pulls tasks, runs them under Effect, settles them. Starts timers and actors first and the consumer last,
 * and stops in the reverse order: pull no more, hand back what waits, let run what runs, then let go of the actors.
 */
import { hostname } from "node:os"
import { Cause, Effect, Exit, Fiber, Result, Scope } from "effect"
import type { ActorDefinition } from "../actor.ts"
import { type Board, CANCEL_TOPIC } from "../board.ts"
import type { Client } from "../client.ts"
import { describeActor, type WorkerDescription } from "../directory.ts"
import { CallboardError } from "../errors.ts"
import { EventSender } from "../events.ts"
import { keepListening } from "../listening.ts"
import type { Log } from "../log.ts"
import { parseRate, type RateInput } from "../rate.ts"
import type { ReconnectPolicy } from "../reconnect.ts"
import { type Settlement, TransportError } from "../transport.ts"
import { VERSION } from "../version.ts"
import { type ActorPool, makeActorPool } from "./actor-pool.ts"
import { Appetite } from "./appetite.ts"
import { type Autoscale, Autoscaler, KEEPALIVE_MS } from "./autoscale.ts"
import { cancellationOf } from "./cancellation.ts"
import { consume } from "./consumer.ts"
import { Counts } from "./counts.ts"
import type { Held } from "./delivery.ts"
import { EarlyAcks } from "./early-acks.ts"
import { Ending, type EndReason } from "./ending.ts"
import { EventTeller } from "./event-teller.ts"
import type { TimeLimits } from "./executor.ts"
import type { FailureHandler } from "./failure-handlers.ts"
import { FailureTeller } from "./failure-teller.ts"
import { Flow } from "./flow.ts"
import { Hands } from "./hands.ts"
import { checkIsolation, inWorker } from "./isolation/admission.ts"
import { ProcessPool } from "./isolation/process-pool.ts"
import type { LeaseThreadTarget } from "./lease-protocol.ts"
import { LostJobs } from "./lost-jobs.ts"
import { maintain } from "./maintenance.ts"
import { Observers, type WorkerObserver } from "./observer.ts"
import { keepPauses } from "./pause-keeper.ts"
import { reductionLines, restoredLine } from "./prefetch.ts"
import type { PutOff } from "./put-offs.ts"
import { Reach } from "./reach.ts"
import { Registry } from "./registry.ts"
import { obeyRemoteControl } from "./remote-control.ts"
import { Revoker } from "./revoker.ts"
import type { Keep } from "./verdict.ts"
import { WorkerNews } from "./worker-news.ts"

export interface WorkerOptions {
  readonly board: Board
  readonly client: Client
  readonly actors: ReadonlyArray<ActorDefinition>
  /** In order of preference. */
  readonly queues: ReadonlyArray<string>
  /** Handlers that run at a time, 1 at least. */
  readonly concurrency: number
  /** Between which bounds the concurrency follows what is held. Absent: it does not. */
  readonly autoscale?: Autoscale
  /** Deliveries held per handler, 1 at least; 1 keeps priorities strict. */
  readonly prefetch: number
  /** Queues take turns instead of strict order. */
  readonly rotate: boolean
  readonly name: string
  /** How long a soft stop lets handlers run, in milliseconds. */
  readonly graceMs: number
  readonly leaseMs: number
  /** How a thread can open the same transport, to keep leases while a handler blocks. Absent: it cannot. */
  readonly leaseThread?: LeaseThreadTarget
  /** False: neither rates nor limits of methods hold here. */
  readonly rateLimits: boolean
  readonly keep: Keep
  readonly lostCap: number
  readonly unknownGraceMs: number
  readonly maxBody: number
  readonly reconnect: ReconnectPolicy
  /** Fetch less after a broken connection, while what ran goes on. */
  readonly prefetchReduction: boolean
  /** Hand everything back when the connection is lost, instead of letting handlers go on. */
  readonly cancelOnConnectionLoss: boolean
  readonly languages: ReadonlyMap<string, string>
  readonly taskNames: ReadonlyMap<string, string>
  readonly log: Log
  /** Run in order after each failed attempt. */
  readonly onFailure: ReadonlyArray<FailureHandler>
  /** Called once per settled job. */
  readonly onSettled?: (settlement: Settlement) => void
  /** Ends when the queues are empty. */
  readonly burst: boolean
  /** Ends after so many jobs. Absent: never. */
  readonly maxJobs?: number
  /** Ends after so many milliseconds without a job. Absent: never. */
  readonly maxIdleMs?: number
  /** Whether it tells what happens to every task from the start. */
  readonly events: boolean
  /** Told what happens to deliveries. */
  readonly observers: ReadonlyArray<WorkerObserver>
}

/** How much a worker has to do now. */
export interface WorkerLoad {
  /** Deliveries in its hands, those that run included. */
  readonly inFlight: number
  /** Slots that are taken, also by handlers that go on after their job was decided. */
  readonly running: number
  readonly concurrency: number
}

/** What a stop came to. */
export interface StopReport {
  /** Handlers that ended within the grace. */
  readonly finished: number
  /** Tasks that were given back, to run elsewhere. */
  readonly handedBack: number
  /** Handlers that ignored their signal and still run. */
  readonly stuck: number
  /** Tasks that could be neither settled nor given back, since the transport did not take it: they come again when their lease is over. */
  readonly lost: number
}

/** A job whose handler runs. */
export type ActiveJob = NonNullable<WorkerDescription["jobs"]>[number]

/** A task that waits in a worker for a handler. */
export interface ReservedTask {
  /** Empty where it cannot be read. */
  readonly id: string
  readonly queue: string
}

/** What a worker has in its hands. */
export interface WorkerHands {
  readonly active: ReadonlyArray<ActiveJob>
  readonly reserved: ReadonlyArray<ReservedTask>
}

export interface Worker {
  readonly name: string
  /** The queues that it listens to, in order of preference. */
  readonly queues: ReadonlyArray<string>
  /** Whether it consumes now. */
  readonly listening: boolean
  /** Resolves, with the error, if it gives up by itself. */
  readonly failed: Promise<TransportError>
  /** Resolves, with the reason, when it has nothing more to do and wants to be stopped. */
  readonly done: Promise<EndReason>
  readonly load: WorkerLoad
  describe(): WorkerDescription
  /** What is in its hands. */
  inspect(): WorkerHands
  /** What it handed back because it could not run it now: one job, or the latest, 1,000 at most. */
  putOff(id?: string): ReadonlyArray<PutOff>
  /** Changes how many handlers run at a time; what runs goes on. */
  resize(concurrency: number): void
  /** Changes the bounds between which the concurrency follows what is held; null: it stays as it is. */
  autoscale(bounds: Autoscale | null): void
  /** Listens to one queue more. False if it does already. */
  addQueue(queue: string): boolean
  /** Does not listen to a queue any more; what waits here of it is handed back. False if it did not. */
  removeQueue(queue: string): boolean
  /** Changes the time limits of a method for runs that begin from now on. False if nobody here serves it. */
  limitTime(task: string, limits: TimeLimits): boolean
  /**
   * Replaces the `rate` of a method on this worker until it stops; null: none. Limits across the cluster stay. False if nobody
   * here serves it. Fails with `CallboardError` `invalid-input` for what is no rate.
   */
  rateLimit(task: string, rate: RateInput | null): boolean
  /** From now on it tells what happens to every task, as events, or does not any more; false if it was so already. */
  events(on: boolean): boolean
  /** Soft stop; `now` hands back at once instead of waiting for handlers. Called again with `now`, it hurries. */
  stop(options?: { readonly now?: boolean }): Promise<StopReport>
}

/** Starts a worker. Fails with `ActorStartFailed`, and when a live worker has its name; an unreachable transport is tried again. */
export const startWorker = async (options: WorkerOptions): Promise<Worker> => {
  const { log } = options
  checkIsolation(options.actors)
  const processes = new ProcessPool(options)
  const scope = await Effect.runPromise(Scope.make())
  const close = () => Effect.runPromise(Scope.close(scope, Exit.void))
  try {
    const served = makeActorPool(options.actors.map(inWorker), options.taskNames, log)
    const pool = await Effect.runPromise(Scope.provide(served, scope))
    await processes.prove(options.actors)
    const worker = new RunningWorker(options, pool, processes, close)
    await worker.begin()
    return worker
  } catch (cause) {
    await processes.close()
    await close()
    throw cause
  }
}

class RunningWorker implements Worker {
  readonly name: string
  readonly failed: Promise<TransportError>
  readonly done: Promise<EndReason>
  readonly #options: WorkerOptions
  readonly #pool: ActorPool
  readonly #appetite: Appetite
  readonly #hands: Hands
  readonly #counts = new Counts()
  readonly #observers: Observers
  readonly #reach: Reach
  readonly #events: EventSender
  readonly #news: WorkerNews
  readonly #flow: Flow
  readonly #early: EarlyAcks
  readonly #lost: LostJobs
  readonly #registry: Registry
  readonly #ending: Ending
  readonly #known: Promise<unknown>
  readonly #closeActors: () => Promise<void>
  readonly #end = new AbortController()
  readonly #hurry = new AbortController()
  readonly #startedAt = new Date().toISOString()
  readonly #gaveUp = Promise.withResolvers<TransportError>()
  readonly #finished = Promise.withResolvers<EndReason>()
  #consumer: Fiber.Fiber<never, TransportError> | undefined
  #autoscaler: Autoscaler | undefined
  #stopMaintenance = () => undefined as void
  #keepalive: ReturnType<typeof setInterval> | undefined
  #listening = false
  #stopAskedAt: string | undefined
  #stopping: Promise<StopReport> | undefined

  constructor(options: WorkerOptions, pool: ActorPool, processes: ProcessPool, closeActors: () => Promise<void>) {
    const { board, log, onSettled } = options
    const { signal } = this.#end
    this.name = options.name
    this.failed = this.#gaveUp.promise
    this.done = this.#finished.promise
    this.#options = options
    this.#pool = pool
    this.#closeActors = closeActors
    this.#appetite = new Appetite({ queues: options.queues, isIdle: (queue) => pool.isIdle(queue) })
    const { autoscale } = options
    if (autoscale !== undefined) this.#autoscaler = new Autoscaler(autoscale, Date.now())
    this.#hands = new Hands({
      ...options,
      ...(autoscale === undefined ? {} : { concurrency: autoscale.min, maxConcurrency: autoscale.max }),
    })
    this.#hands.onRestored = () => log.info(restoredLine(this.#hands.capacity))
    this.#reach = new Reach(board.transport, signal)
    const hostName = `${options.name}@${hostname()}`
    this.#events = new EventSender({ board, log, hostname: hostName, enabled: options.events })
    this.#news = new WorkerNews(this.#events, () => ({
      active: this.#hands.running,
      processed: this.#counts.processed,
    }))
    const failures = new FailureTeller(log, options.onFailure, options.maxBody)
    this.#early = new EarlyAcks({ store: board.store, worker: options.name, startedAt: this.#startedAt })
    this.#lost = new LostJobs({
      board,
      own: this.#early,
      holds: (token) => this.#hands.held.has(token),
      keep: options.keep,
      queueFor: (task, meth) => pool.queueOf(task, meth),
      onLost: (record) => failures.lost(record),
    })
    this.#observers = new Observers(
      [
        this.#counts,
        failures,
        new EventTeller(this.#events, pool),
        this.#news,
        ...(onSettled === undefined
          ? []
          : [{ settled: (_held: Held, settlement: Settlement) => onSettled(settlement) }]),
        ...options.observers,
      ],
      log,
    )
    const revoker = new Revoker({ board, held: this.#hands.held, log, signal })
    this.#flow = new Flow({
      worker: options,
      pool,
      processes,
      hands: this.#hands,
      observers: this.#observers,
      reach: this.#reach,
      events: this.#events,
      early: this.#early,
      isRevoked: (task) => revoker.isRevoked(task),
      allows: (queue) => this.#appetite.allows(queue),
    })
    this.#hands.onChange = () => this.#ending.look()
    this.#ending = new Ending({
      burst: options.burst,
      ...(options.maxIdleMs === undefined ? {} : { maxIdleMs: options.maxIdleMs }),
      held: () => this.#hands.held.size + this.#hands.stuck,
      isSpent: () => this.#hands.isSpent,
      onEnd: (reason) => this.#finished.resolve(reason),
    })
    this.#registry = new Registry({
      store: board.store,
      log,
      actors: options.actors.map(describeActor),
      describe: () => this.describe(),
    })
    const onChange = () => void this.#flow.handBack((held) => !this.#appetite.allows(held.delivery.queue))
    this.#known = Promise.all([
      revoker.ready,
      keepPauses({ board, name: options.name, appetite: this.#appetite, onChange, log, signal }),
    ])
  }

  /** Registers, and starts to consume. Where it fails, nothing of the worker is left but its actors. */
  async begin(): Promise<void> {
    const { board, log } = this.#options
    const { signal } = this.#end
    try {
      await this.#registry.begin()
    } catch (cause) {
      this.#ending.stop()
      this.#end.abort()
      await this.#flow.end()
      throw cause
    }
    this.#stopMaintenance = maintain(board, this.#lost, log)
    this.#keepalive = setInterval(() => this.#scale(), KEEPALIVE_MS)
    void keepListening(
      board.broadcast,
      CANCEL_TOPIC,
      (payload) => {
        const news = cancellationOf(payload)
        if (news !== undefined) this.#flow.cancelled(news)
      },
      { log, signal },
    )
    obeyRemoteControl({
      board,
      worker: this,
      actors: this.#options.actors.map(describeActor),
      shutdown: () => this.#finished.resolve("shutdown"),
      log,
      signal,
    })
    if (this.#options.cancelOnConnectionLoss) {
      const off = board.transport.onStatus((status) => {
        if (status === "disconnected") this.#letGo()
      })
      signal.addEventListener("abort", off, { once: true })
    }
    // Nothing starts before it is known what must not.
    void this.#known.then(() => this.#flow.open())
    this.#consumer = Effect.runFork(
      consume({
        queue: board.queue,
        appetite: this.#appetite,
        burst: this.#options.burst,
        rotate: this.#options.rotate,
        hands: this.#hands,
        log,
        reach: this.#reach,
        reconnect: this.#options.reconnect,
        onReturned: () => this.#returned(),
        accept: (deliveries) => {
          this.#flow.accept(deliveries)
          this.#scale()
        },
        onListening: (listening) => this.#setListening(listening && this.#stopping === undefined),
        onEmpty: () => void this.#known.then(() => this.#ending.foundNothing()),
      }),
    )
    this.#consumer.addObserver((exit) => {
      this.#setListening(false)
      const error = Exit.isFailure(exit) ? gaveUp(exit.cause) : undefined
      if (error === undefined) return
      log.error(`the worker gives up: ${error.message}`, { reason: error.reason })
      this.#gaveUp.resolve(error)
    })
  }

  get queues(): ReadonlyArray<string> {
    return this.#appetite.listed
  }

  get listening(): boolean {
    return this.#listening
  }

  get load(): WorkerLoad {
    const { held, running, stuck } = this.#hands
    return { inFlight: held.size, running: running + stuck, concurrency: this.#hands.concurrency }
  }

  describe(): WorkerDescription {
    const jobs = this.inspect().active
    const { unhealthy } = this.#pool
    return {
      name: this.name,
      pid: process.pid,
      host: hostname(),
      version: VERSION,
      queues: [...this.queues],
      actors: this.#options.actors.map((actor) => actor.name),
      concurrency: this.#hands.concurrency,
      state: this.#state(jobs.length > 0),
      running: jobs.map(({ id }) => id).slice(0, MOST_JOBS),
      jobs: jobs.slice(0, MOST_JOBS),
      inFlight: this.#hands.held.size,
      capacity: this.#hands.capacity,
      room: this.#hands.room,
      ...(unhealthy.length === 0 ? {} : { unhealthy }),
      processed: this.#counts.processed,
      failed: this.#counts.failed,
      superseded: this.#counts.superseded,
      workingSeconds: this.#counts.workingMs / 1000,
      startedAt: this.#startedAt,
      heartbeatAt: new Date().toISOString(),
      ...(this.#stopAskedAt === undefined ? {} : { stopAskedAt: this.#stopAskedAt }),
    }
  }

  #state(isBusy: boolean): WorkerDescription["state"] {
    if (this.#stopAskedAt !== undefined) return "stopping"
    if (isBusy) return "busy"
    if (this.#appetite.isSuspended) return "suspended"
    return this.#listening ? "idle" : "starting"
  }

  inspect(): WorkerHands {
    const active: Array<ActiveJob> = []
    const reserved: Array<ReservedTask> = []
    for (const { run, id, delivery } of this.#hands.held.values()) {
      if (run === undefined) {
        reserved.push({ id: id ?? "", queue: delivery.queue })
        continue
      }
      active.push({
        id: run.posting.id,
        name: run.record.name,
        queue: run.posting.queue,
        attempt: run.record.attempt,
        startedAt: new Date(run.startedAt).toISOString(),
      })
    }
    return { active, reserved }
  }

  putOff(id?: string): ReadonlyArray<PutOff> {
    return this.#flow.putOffs.list(id, MOST_PUT_OFF)
  }

  resize(concurrency: number): void {
    this.#hands.resize({ concurrency, prefetch: this.#options.prefetch, ...this.#largest() })
  }

  autoscale(bounds: Autoscale | null): void {
    if (bounds === null) this.#autoscaler = undefined
    else if (this.#autoscaler === undefined) this.#autoscaler = new Autoscaler(bounds, Date.now())
    else this.#autoscaler.bounds = bounds
    this.resize(this.#hands.concurrency)
    this.#scale()
  }

  #largest(): { readonly maxConcurrency?: number } {
    return this.#autoscaler === undefined ? {} : { maxConcurrency: this.#autoscaler.bounds.max }
  }

  /** Lets the concurrency follow what is held: asked at each arrival of tasks, and now and then. */
  #scale(): void {
    const { concurrency, held } = this.#hands
    const wanted = this.#autoscaler?.scale(held.size, concurrency, Date.now()) ?? concurrency
    if (wanted === concurrency) return
    this.#options.log.info(`${wanted > concurrency ? "Scaling up" : "Scaling down"} to ${wanted} handlers`)
    this.resize(wanted)
  }

  addQueue(queue: string): boolean {
    return this.#appetite.add(queue)
  }

  removeQueue(queue: string): boolean {
    const removed = this.#appetite.remove(queue)
    if (removed) this.#flow.handBack((held) => held.delivery.queue === queue)
    return removed
  }

  limitTime(task: string, limits: TimeLimits): boolean {
    return this.#flow.limitTime(task, limits)
  }

  rateLimit(task: string, rate: RateInput | null): boolean {
    const parsed = rate === null ? Result.succeed(null) : parseRate(rate)
    if (Result.isFailure(parsed))
      throw new CallboardError("invalid-input", `rate: ${parsed.failure}`, { field: "rate" })
    return this.#flow.limitRate(task, parsed.success)
  }

  events(on: boolean): boolean {
    const changed = this.#events.enabled !== on
    this.#events.enabled = on
    return changed
  }

  #setListening(listening: boolean): void {
    if (listening === this.#listening) return
    this.#listening = listening
    this.#observers.listening(listening)
    void this.#registry.beat()
  }

  stop(options: { readonly now?: boolean } = {}): Promise<StopReport> {
    if (options.now) this.#hurry.abort()
    this.#stopping ??= this.#stop()
    return this.#stopping
  }

  async #stop(): Promise<StopReport> {
    const { graceMs } = this.#options
    const { processed, handedBackTasks, lostTasks } = this.#counts
    this.#stopAskedAt = new Date().toISOString()
    this.#setListening(false)
    this.#ending.stop()
    this.#flow.close()
    if (this.#consumer !== undefined) await Effect.runPromise(Fiber.interrupt(this.#consumer))
    this.#restored(this.#flow.handBack())
    await waitFor(this.#hands.whenIdle(), graceMs, this.#hurry.signal)
    this.#restored(this.#flow.interrupt())
    await waitFor(this.#hands.whenIdle(), HAND_BACK_MS)
    await this.#flow.end()
    await this.#early.end()
    // What gives up storing with that is counted, and dropped, before the next turn.
    await new Promise((resolve) => setTimeout(resolve, 0))
    const report: StopReport = {
      finished: this.#counts.processed - processed,
      handedBack: this.#counts.handedBackTasks - handedBackTasks,
      stuck: this.#hands.stuck,
      lost: this.#counts.lostTasks - lostTasks + this.#hands.held.size,
    }
    clearInterval(this.#keepalive)
    this.#stopMaintenance()
    this.#end.abort()
    this.#news.end()
    await Promise.all([this.#registry.end(), this.#events.flush()])
    // An actor whose start does not end cannot be stopped either.
    await waitFor(this.#closeActors(), CLOSE_MS)
    return report
  }

  /** The connection is lost, and nothing shall go on meanwhile: everything is handed back once it can be. */
  #letGo(): void {
    const { running } = this.#hands
    this.#flow.handBack()
    this.#flow.interrupt()
    if (running > 0) this.#options.log.warn(`the connection is lost: ${running} running task(s) are handed back`)
  }

  /** The connection is back. */
  #returned(): void {
    const { prefetchReduction, cancelOnConnectionLoss, log } = this.#options
    if (!prefetchReduction || cancelOnConnectionLoss) return
    const { running, capacity } = this.#hands
    const limit = this.#hands.reducePrefetch()
    if (limit < capacity) for (const line of reductionLines(limit, capacity, running)) log.info(line)
  }

  #restored(count: number): void {
    if (count > 0) this.#options.log.info(`Restoring ${count} unacknowledged message(s)`)
  }
}

/** Jobs that the description of a worker names at most. */
const MOST_JOBS = 100

/** Tasks that were handed back and are named at a time. */
const MOST_PUT_OFF = 1_000

/** Longest wait for hand-backs to be written. */
const HAND_BACK_MS = 5_000

/** Longest wait for actors to let go of their resources: that of one whose start does not end never comes. */
const CLOSE_MS = 30_000

/** Timers cannot wait for longer. */
const LONGEST_TIMER_MS = 2 ** 31 - 1

/** Why the consumer ended by itself; nothing when it was stopped. */
const gaveUp = (cause: Cause.Cause<TransportError>): TransportError | undefined => {
  const failed = cause.reasons.find((reason) => reason._tag === "Fail")
  if (failed?._tag === "Fail") return failed.error
  const died = cause.reasons.find((reason) => reason._tag === "Die")
  return died === undefined ? undefined : new TransportError("internal", Cause.pretty(cause))
}

/** Waits for a promise, but no longer than `ms`, nor past the signal. */
const waitFor = (promise: Promise<void>, ms: number, signal?: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const timer = setTimeout(() => done(), Math.min(ms, LONGEST_TIMER_MS))
    const done = () => {
      clearTimeout(timer)
      signal?.removeEventListener("abort", done)
      resolve()
    }
    if (signal?.aborted) return done()
    signal?.addEventListener("abort", done, { once: true })
    promise.then(done, done)
  })
