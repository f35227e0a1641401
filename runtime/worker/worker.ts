/**
 * A worker: pulls tasks, runs them under Effect, settles them. Starts timers and actors first and the consumer last,
 * and stops in the reverse order: pull no more, hand back what waits, let run what runs, then let go of the actors.
 */
import { hostname } from "node:os"
import { Cause, Effect, Exit, Fiber, Result, Scope } from "effect"
import { describeActor } from "../actor/description.ts"
import { systemClock } from "../async/clock.ts"
import type { WorkerDescription } from "../cluster/directory.ts"
import { EventSender } from "../cluster/events.ts"
import { Neighbours } from "../cluster/neighbours.ts"
import type { PutOff } from "../cluster/put-offs.ts"
import { CANCEL_TOPIC } from "../connection/board.ts"
import { Reach } from "../connection/connectivity.ts"
import { keepListening } from "../connection/listening.ts"
import { CallboardError } from "../errors.ts"
import { type Autoscale, isHandlerCount, MOST_HANDLERS, parseAutoscale } from "../options/autoscale.ts"
import { type RateInput, rateOf } from "../options/rate.ts"
import { checkTimeLimit } from "../options/time-limit.ts"
import { checkQueueName } from "../protocol/name.ts"
import type { Settlement } from "../transport/lift/transport.ts"
import { TransportError } from "../transport/mod.ts"
import { type ActorPool, makeActorPool } from "./actors/actor-pool.ts"
import { cancellationOf } from "./attempt/cancellation.ts"
import type { TimeLimits } from "./attempt/method-plan.ts"
import { keepPauses } from "./control/pause-keeper.ts"
import { Registry } from "./control/registry.ts"
import { obeyRemoteControl } from "./control/remote-control.ts"
import { Revoker } from "./control/revoker.ts"
import { handsOf, portraitOf, type Sitter } from "./control/snapshot.ts"
import type { StopReport, Worker, WorkerHands, WorkerLoad } from "./control/worker.ts"
import type { Held } from "./delivery/delivery.ts"
import { Flow } from "./dispatcher.ts"
import { Ending, type EndReason } from "./ending.ts"
import { Hands } from "./fetch/buffer.ts"
import { consume } from "./fetch/consumer.ts"
import { PoolSize } from "./fetch/pool-size.ts"
import { reductionLines, restoredLine } from "./fetch/prefetch.ts"
import { Appetite } from "./fetch/queue-list.ts"
import { checkIsolation, inWorker } from "./isolation/admission.ts"
import { ProcessPool } from "./isolation/process-pool.ts"
import { Dependents } from "./maintenance/dependents.ts"
import { LostJobs } from "./maintenance/lost-jobs.ts"
import { maintain } from "./maintenance/maintenance.ts"
import type { WorkerOptions } from "./options.ts"
import { EarlyAcks } from "./settle/early-acks.ts"
import { Counts } from "./telemetry/counts.ts"
import { EventTeller } from "./telemetry/event-teller.ts"
import { FailureTeller } from "./telemetry/failure-teller.ts"
import { Observers } from "./telemetry/observer.ts"
import { WorkerNews } from "./telemetry/worker-news.ts"

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
  readonly #appetite: Appetite
  readonly #hands: Hands
  readonly #size: PoolSize
  readonly #sitter: Sitter
  readonly #counts = new Counts()
  readonly #observers: Observers
  readonly #reach: Reach
  readonly #events: EventSender
  readonly #news: WorkerNews
  readonly #flow: Flow
  readonly #early: EarlyAcks
  readonly #lost: LostJobs
  readonly #dependents: Dependents
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
  #stopMaintenance = () => undefined as void
  #listening = false
  /** With `burst`: until when tasks may come that others have put off, in milliseconds since the epoch. */
  #othersComeUntil = 0
  #stopAskedAt: string | undefined
  #stopping: Promise<StopReport> | undefined

  constructor(options: WorkerOptions, pool: ActorPool, processes: ProcessPool, closeActors: () => Promise<void>) {
    const { board, log, onSettled } = options
    const { signal } = this.#end
    this.name = options.name
    this.failed = this.#gaveUp.promise
    this.done = this.#finished.promise
    this.#options = options
    this.#closeActors = closeActors
    this.#appetite = new Appetite({ queues: options.queues, isIdle: (queue) => pool.isIdle(queue) })
    const { autoscale } = options
    this.#hands = new Hands({
      ...options,
      ...(autoscale === undefined ? {} : { concurrency: autoscale.min, maxConcurrency: autoscale.max }),
    })
    this.#size = new PoolSize({ hands: this.#hands, prefetch: options.prefetch, autoscale, log })
    this.#sitter = {
      name: options.name,
      actors: options.actors.map((actor) => actor.name),
      startedAt: this.#startedAt,
      pool,
      hands: this.#hands,
      counts: this.#counts,
    }
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
    this.#dependents = new Dependents({ board, log, signal })
    this.#lost = new LostJobs({
      board,
      own: this.#early,
      holds: (token) => this.#hands.held.has(token),
      queueFor: (task, meth) => pool.queueOf(task, meth),
      onLost: (record) => {
        failures.lost(record)
        this.#dependents.stored(record)
      },
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
    const neighbours = new Neighbours({
      board,
      name: options.name,
      isComplete: () => this.#registry.isComplete,
    })
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
      dependents: this.#dependents,
      leaveAlone: (id) => neighbours.leaveAlone(id),
      isRevoked: (task) => revoker.isRevoked(task),
      allows: (queue) => this.#appetite.allows(queue),
    })
    this.#hands.onChange = () => this.#ending.look()
    this.#ending = new Ending({
      burst: options.burst,
      ...(options.maxIdleMs === undefined ? {} : { maxIdleMs: options.maxIdleMs }),
      held: () => this.#hands.held.size + this.#hands.stuck,
      isBusy: () => this.#dependents.isBusy,
      isSpent: () => this.#hands.isSpent,
      onEnd: (reason) => this.#finished.resolve(reason),
    })
    this.#registry = new Registry({
      store: board.store,
      log,
      actors: options.actors.map(describeActor),
      describe: () => this.describe(),
      onTaken: ({ message }) => this.#giveUp(new TransportError("invalid", message)),
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
      this.#size.stop()
      this.#end.abort()
      await this.#flow.end()
      throw cause
    }
    this.#stopMaintenance = maintain({ board, lost: this.#lost, dependents: this.#dependents, log })
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
        isBusy: () => this.#dependents.isBusy,
        onReturned: () => this.#returned(),
        accept: (deliveries) => {
          this.#flow.accept(deliveries)
          this.#size.follow()
        },
        onListening: (listening) => this.#setListening(listening && this.#stopping === undefined),
        comingBackMs: () => this.#comingBackMs(),
        onEmpty: () => void this.#known.then(() => this.#foundNothing()),
      }),
    )
    this.#consumer.addObserver((exit) => {
      this.#setListening(false)
      const error = Exit.isFailure(exit) ? gaveUp(exit.cause) : undefined
      if (error !== undefined) this.#giveUp(error)
    })
  }

  /** Pulls no more, and says why; whoever holds the worker stops it. */
  #giveUp(error: TransportError): void {
    this.#consumer?.interruptUnsafe()
    this.#options.log.error(`the worker gives up: ${error.message}`, { reason: error.reason })
    this.#gaveUp.resolve(error)
  }

  /** What a limit has put off is still there, although a look into the queues does not show it. */
  async #foundNothing(): Promise<void> {
    try {
      this.#othersComeUntil = await this.#flow.othersComeUntil(this.#appetite.queues)
    } catch (cause) {
      // Whoever cannot ask must not end: the next look asks again.
      this.#options.log.debug("it is not known whether tasks come back", { cause: String(cause) })
      return
    }
    if (this.#comingBackMs() === 0) this.#ending.foundNothing()
  }

  #comingBackMs(): number {
    // As long as something runs, what comes of it decides.
    if (this.#hands.held.size > 0) return 0
    const own = this.#flow.putOffs.comeUntil(this.#appetite.queues)
    return Math.max(0, Math.max(own, this.#othersComeUntil) - (this.#options.clock ?? systemClock).now())
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
    return portraitOf(this.#sitter, {
      queues: this.queues,
      isListening: this.#listening,
      isSuspended: this.#appetite.isSuspended,
      stopAskedAt: this.#stopAskedAt,
    })
  }

  inspect(): WorkerHands {
    return handsOf(this.#hands)
  }

  putOff(id?: string): ReadonlyArray<PutOff> {
    return this.#flow.notes(id, MOST_PUT_OFF)
  }

  resize(concurrency: number): void {
    if (!isHandlerCount(concurrency)) throw invalid("concurrency", `must be a whole number from 1 to ${MOST_HANDLERS}`)
    this.#size.set(concurrency)
  }

  autoscale(bounds: Autoscale | null): void {
    const parsed = bounds === null ? Result.succeed(null) : parseAutoscale(bounds)
    if (Result.isFailure(parsed)) throw invalid("autoscale", parsed.failure)
    this.#size.autoscale(parsed.success)
  }

  addQueue(queue: string): boolean {
    const checked = checkQueueName(queue)
    if (Result.isFailure(checked)) throw invalid("queue", checked.failure.message)
    return this.#appetite.add(queue)
  }

  removeQueue(queue: string): boolean {
    const removed = this.#appetite.remove(queue)
    if (removed) this.#flow.handBack((held) => held.delivery.queue === queue)
    return removed
  }

  limitTime(task: string, limits: TimeLimits): boolean {
    const { hardMs, softMs } = limits
    checkTimeLimit(
      { ...(hardMs === undefined ? {} : { hardMs }), ...(typeof softMs === "number" ? { softMs } : {}) },
      { hard: "hardMs", soft: "softMs" },
    )
    return this.#flow.limitTime(task, limits)
  }

  rateLimit(task: string, rate: RateInput | null): boolean {
    return this.#flow.limitRate(task, rate === null ? null : rateOf("rate", rate))
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
    await waitFor(this.#dependents.end(), HAND_BACK_MS)
    // What gives up storing with that is counted, and dropped, before the next turn.
    await new Promise((resolve) => setTimeout(resolve, 0))
    const report: StopReport = {
      finished: this.#counts.processed - processed,
      handedBack: this.#counts.handedBackTasks - handedBackTasks,
      stuck: this.#hands.stuck,
      lost: this.#counts.lostTasks - lostTasks + this.#hands.held.size,
    }
    this.#size.stop()
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
    this.#flow.reconnected()
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

const invalid = (field: string, why: string): CallboardError =>
  new CallboardError("invalid-input", `${field}: ${why}`, { field })

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
