/**
 * A worker: pulls tasks, runs them under Effect, settles them. Starts timers and actors first and the consumer last,
 * and stops in the reverse order: pull no more, hand back what waits, let run what runs, then let go of the actors.
 */
import { hostname } from "node:os"
import { Cause, Effect, Exit, Fiber, Scope } from "effect"
import type { ActorDefinition } from "../actor.ts"
import { type Board, CANCEL_TOPIC } from "../board.ts"
import type { Client } from "../client.ts"
import { describeActor, type WorkerDescription } from "../directory.ts"
import { EventSender } from "../events.ts"
import type { Log } from "../log.ts"
import type { JobRecord } from "../protocol/record.ts"
import { type Claim, type Claimed, type Delivery, type Settlement, TransportError } from "../transport.ts"
import { VERSION } from "../version.ts"
import { type ActorPool, makeActorPool } from "./actor-pool.ts"
import { Batcher } from "./batcher.ts"
import { cancellationOf } from "./cancellation.ts"
import { consume } from "./consumer.ts"
import { Counts } from "./counts.ts"
import type { Held } from "./delivery.ts"
import { EventTeller } from "./event-teller.ts"
import { Executor } from "./executor.ts"
import type { FailureHandler } from "./failure-handlers.ts"
import { FailureTeller } from "./failure-teller.ts"
import { Hands } from "./hands.ts"
import { checkIsolation, inWorker } from "./isolation/admission.ts"
import { ProcessPool } from "./isolation/process-pool.ts"
import { keepLeases, type LeaseKeeper } from "./lease-keeper.ts"
import type { LeaseThreadData } from "./lease-protocol.ts"
import { maintain } from "./maintenance.ts"
import { Observers, type WorkerObserver } from "./observer.ts"
import { PauseWatch } from "./pause-watch.ts"
import { register } from "./registry.ts"
import { Revoker } from "./revoker.ts"
import { RunWatch } from "./run-watch.ts"
import { Settler } from "./settler.ts"
import type { Keep } from "./verdict.ts"

export interface WorkerOptions {
  readonly board: Board
  readonly client: Client
  readonly actors: ReadonlyArray<ActorDefinition>
  /** In order of preference. */
  readonly queues: ReadonlyArray<string>
  /** Handlers that run at a time, 1 at least. */
  readonly concurrency: number
  /** Deliveries held per handler, 1 at least; 1 keeps priorities strict. */
  readonly prefetch: number
  /** Queues take turns instead of strict order. */
  readonly rotate: boolean
  readonly name: string
  /** How long a soft stop lets handlers run, in milliseconds. */
  readonly graceMs: number
  readonly leaseMs: number
  /** How a thread can open the same transport, to keep leases while a handler blocks. Absent: it cannot. */
  readonly leaseThread?: Pick<LeaseThreadData, "url" | "namespace">
  readonly keep: Keep
  readonly lostCap: number
  readonly unknownGraceMs: number
  readonly maxBody: number
  /** Tries to reach the transport in a row; 0 is for ever. */
  readonly maxTries: number
  readonly languages: ReadonlyMap<string, string>
  readonly taskNames: ReadonlyMap<string, string>
  readonly log: Log
  /** Run in order after each failed attempt. */
  readonly onFailure: ReadonlyArray<FailureHandler>
  /** Called once per settled job. */
  readonly onSettled?: (settlement: Settlement) => void
  /** Told what happens to deliveries. */
  readonly observers: ReadonlyArray<WorkerObserver>
}

/** What a stop came to. */
export interface StopReport {
  /** Handlers that ended within the grace. */
  readonly finished: number
  /** Tasks that were given back, to run elsewhere. */
  readonly handedBack: number
  /** Handlers that ignored their signal and still run. */
  readonly stuck: number
}

export interface Worker {
  readonly name: string
  readonly queues: ReadonlyArray<string>
  /** Whether it consumes now. */
  readonly listening: boolean
  /** Resolves, with the error, if it gives up by itself. */
  readonly failed: Promise<TransportError>
  describe(): WorkerDescription
  /** Soft stop; `now` hands back at once instead of waiting for handlers. Called again with `now`, it hurries. */
  stop(options?: { readonly now?: boolean }): Promise<StopReport>
}

/** Starts a worker. Fails with `ActorStartFailed`; an unreachable transport is tried again. */
export const startWorker = async (options: WorkerOptions): Promise<Worker> => {
  const { board, log } = options
  checkIsolation(options.actors)
  const scope = await Effect.runPromise(Scope.make())
  const close = () => Effect.runPromise(Scope.close(scope, Exit.void))
  try {
    const served = makeActorPool(options.actors.map(inWorker), options.taskNames, log)
    const pool = await Effect.runPromise(Scope.provide(served, scope))
    return new RunningWorker(options, pool, board, close)
  } catch (cause) {
    await close()
    throw cause
  }
}

class RunningWorker implements Worker {
  readonly name: string
  readonly queues: ReadonlyArray<string>
  readonly failed: Promise<TransportError>
  readonly #options: WorkerOptions
  readonly #hands: Hands
  readonly #watch: RunWatch
  readonly #executor: Executor
  readonly #processes: ProcessPool
  readonly #settler: Settler
  readonly #counts = new Counts()
  readonly #observers: Observers
  readonly #revoker: Revoker
  readonly #leases: LeaseKeeper
  readonly #pauses: PauseWatch
  readonly #registry: ReturnType<typeof register>
  readonly #consumer: Fiber.Fiber<never, TransportError>
  readonly #closeActors: () => Promise<void>
  readonly #end = new AbortController()
  readonly #hurry = new AbortController()
  readonly #startedAt = new Date().toISOString()
  #listening = false
  #pumping = false
  #stopping: Promise<StopReport> | undefined
  #mayStart = false

  constructor(options: WorkerOptions, pool: ActorPool, board: Board, closeActors: () => Promise<void>) {
    const { queue, store, broadcast } = board
    const { log } = options
    this.name = options.name
    this.queues = options.queues
    this.#options = options
    this.#closeActors = closeActors
    this.#hands = new Hands(options)
    this.#hands.onFree = () => this.#pump()
    this.#settler = new Settler(queue, log)
    const { onSettled } = options
    this.#observers = new Observers(
      [
        this.#counts,
        new FailureTeller(log, options.onFailure),
        new EventTeller(new EventSender(board, log, options.name)),
        ...(onSettled === undefined
          ? []
          : [{ settled: (_held: Held, settlement: Settlement) => onSettled(settlement) }]),
        ...options.observers,
      ],
      log,
    )
    this.#revoker = new Revoker({ board, held: this.#hands.held, log, signal: this.#end.signal })
    void this.#revoker.ready.then(() => {
      this.#mayStart = true
      this.#pump()
    })
    this.#watch = new RunWatch(queue, log, (at) => this.#leases.deadline(at))
    this.#processes = new ProcessPool({ client: options.client, log, concurrency: options.concurrency })
    this.#pauses = new PauseWatch(
      options.leaseMs,
      () => this.#resume(),
      () => this.#pump(),
    )
    this.#executor = new Executor({
      pool,
      processes: this.#processes,
      claims: new Batcher<Claim, Claimed>((claims) => queue.claim(claims)),
      client: options.client,
      log,
      worker: options.name,
      keep: options.keep,
      lostCap: options.lostCap,
      unknownGraceMs: options.unknownGraceMs,
      maxBody: options.maxBody,
      languages: options.languages,
      isRevoked: (task) => this.#revoker.isRevoked(task),
      onRun: (held) => this.#started(held),
    })
    this.#leases = keepLeases({
      queue,
      held: this.#hands.held,
      lease: options.leaseMs,
      log,
      onLost: (held) => this.#lost(held),
      ...(options.leaseThread === undefined ? {} : { thread: options.leaseThread }),
    })
    const stopMaintenance = maintain(board, log)
    this.#registry = register({
      store,
      log,
      actors: options.actors.map(describeActor),
      describe: () => this.describe(),
    })
    this.#end.signal.addEventListener("abort", () => {
      this.#leases.stop()
      this.#pauses.stop()
      stopMaintenance()
      this.#watch.stop()
    })
    void this.#registry.beat()
    broadcast
      .listen(CANCEL_TOPIC, (payload) => this.#cancelled(payload), this.#end.signal)
      .catch((cause: unknown) => log.warn("cancellations are not heard of; they still hold", { cause: String(cause) }))
    this.#consumer = Effect.runFork(
      consume({
        queue,
        queues: options.queues,
        isIdle: (name) => pool.isIdle(name),
        rotate: options.rotate,
        hands: this.#hands,
        log,
        maxTries: options.maxTries,
        accept: (deliveries) => this.#accept(deliveries),
        onListening: (listening) => {
          this.#setListening(listening && this.#stopping === undefined)
        },
      }),
    )
    this.failed = new Promise((resolve) => {
      this.#consumer.addObserver((exit) => {
        this.#setListening(false)
        const error = Exit.isFailure(exit) ? gaveUp(exit.cause) : undefined
        if (error === undefined) return
        log.error(`the worker gives up: ${error.message}`, { reason: error.reason })
        resolve(error)
      })
    })
  }

  get listening(): boolean {
    return this.#listening
  }

  describe(): WorkerDescription {
    const running = [...this.#hands.held.values()].flatMap((held) =>
      held.run === undefined ? [] : [held.run.posting.id],
    )
    return {
      name: this.name,
      pid: process.pid,
      host: hostname(),
      version: VERSION,
      queues: [...this.queues],
      actors: this.#options.actors.map((actor) => actor.name),
      concurrency: this.#options.concurrency,
      state:
        this.#stopping !== undefined ? "stopping" : running.length > 0 ? "busy" : this.#listening ? "idle" : "starting",
      running: running.slice(0, 100),
      inFlight: this.#hands.held.size,
      processed: this.#counts.processed,
      failed: this.#counts.failed,
      superseded: this.#counts.superseded,
      startedAt: this.#startedAt,
      heartbeatAt: new Date().toISOString(),
    }
  }

  #setListening(listening: boolean): void {
    if (listening === this.#listening) return
    this.#listening = listening
    this.#observers.listening(listening)
  }

  stop(options: { readonly now?: boolean } = {}): Promise<StopReport> {
    if (options.now) this.#hurry.abort()
    this.#stopping ??= this.#stop()
    return this.#stopping
  }

  async #stop(): Promise<StopReport> {
    const { log, graceMs } = this.#options
    const { processed, handedBackTasks } = this.#counts
    this.#setListening(false)
    await Effect.runPromise(Fiber.interrupt(this.#consumer))
    const waiting = this.#hands.takeBuffered()
    if (waiting.length > 0) log.info(`Restoring ${waiting.length} unacknowledged message(s)`)
    for (const held of waiting) this.#release(held)
    await waitFor(this.#hands.whenIdle(), graceMs, this.#hurry.signal)
    for (const held of this.#hands.held.values()) held.end("hand-back")
    await waitFor(this.#hands.whenIdle(), HAND_BACK_MS)
    await this.#processes.close()
    const report: StopReport = {
      finished: this.#counts.processed - processed,
      handedBack: this.#counts.handedBackTasks - handedBackTasks,
      stuck: this.#hands.stuck,
    }
    this.#end.abort()
    await this.#registry.end()
    // An actor whose start does not end cannot be stopped either.
    await waitFor(this.#closeActors(), CLOSE_MS)
    return report
  }

  #accept(deliveries: ReadonlyArray<Delivery>): void {
    if (deliveries.length === 0) return
    this.#observers.received(deliveries)
    this.#hands.add(deliveries)
    this.#leases.added(deliveries.map((delivery) => delivery.token))
    if (this.#stopping !== undefined) for (const held of this.#hands.takeBuffered()) this.#release(held)
    this.#pump()
  }

  /** Starts handlers while there are slots and tasks. */
  #pump(): void {
    // A handler that ends at once leads back here: the loop goes on with its slot, instead of one deeper for each task.
    if (this.#pumping || !this.#mayStart) return
    this.#pumping = true
    try {
      // In doubt again before each: the handler that was called last may have blocked for longer than a lease.
      while (this.#stopping === undefined && !this.#pauses.inDoubt(Date.now())) {
        const held = this.#hands.next()
        if (held === undefined) return
        this.#process(held)
      }
    } finally {
      this.#pumping = false
    }
  }

  /** Runs a delivery in a fiber of its own; settling needs none. */
  #process(held: Held): void {
    const fiber = Effect.runFork(this.#executor.execute(held))
    // `execute` never fails: what went wrong is in its settlement.
    fiber.addObserver((exit) => this.#executed(held, Exit.isSuccess(exit) ? exit.value : undefined))
  }

  #executed(held: Held, settlement: Settlement | undefined): void {
    this.#watch.remove(held)
    this.#hands.handlerEnded(held)
    const { leave } = held
    const pending = held.run?.pending
    if (pending === undefined) leave?.()
    else {
      if (leave !== undefined) void pending.then(leave, leave)
      // At a hand-back the handler was told to stop this very moment.
      if (held.run?.stop !== "hand-back")
        this.#options.log.warn(
          "a handler goes on after its job was decided, and keeps its slot until it stops: let it heed job.signal",
          {
            job: held.id,
            task: held.run?.record.name,
          },
        )
    }
    this.#pump()
    if (settlement === undefined) {
      if (held.run?.stop === "superseded") this.#refused(held, undefined)
      this.#hands.drop(held)
    } else void this.#settle(held, settlement).finally(() => this.#hands.drop(held))
  }

  async #settle(held: Held, settlement: Settlement): Promise<void> {
    const settling = await this.#settler.settle(settlement, this.#end.signal, held.refused)
    if (settling === "superseded" && settlement.record !== undefined) this.#refused(held, settlement.record)
    if (settling !== "settled") return
    if (settlement.then.kind === "release") this.#observers.handedBack(held)
    else this.#observers.settled(held, settlement)
  }

  /** What it has done came too late: another delivery, or a cancellation, has the job. */
  #refused(held: Held, record: JobRecord | undefined): void {
    this.#options.log.debug("an outcome was refused: another delivery, or a cancellation, has the job", {
      job: held.id,
    })
    this.#observers.refused(held, record)
  }

  /** A handler is about to be called. */
  #started(held: Held): void {
    this.#watch.add(held)
    const { run, delivery } = held
    if (run === undefined) return
    this.#observers.started(held, run)
    // A handler in a process of its own does not block this one.
    if (run.method.isolation === "process") return
    const { token, fence } = delivery
    this.#leases.calling({
      token,
      fence,
      id: run.posting.id,
      hardAt: run.hardAt,
      hardSeconds: (run.hardAt - run.startedAt) / 1000,
    })
  }

  #release(held: Held): void {
    const settlement: Settlement = { token: held.delivery.token, then: { kind: "release", delay: 0 } }
    void this.#settle(held, settlement).finally(() => this.#hands.drop(held))
  }

  /** After a pause as long as a lease (the process was frozen): asks which waiting deliveries are still ours. */
  async #resume(): Promise<void> {
    const waiting = this.#hands.waiting
    const kept = await this.#options.board.queue.extend(waiting.map((held) => held.delivery.token)).catch(() => [])
    // Where the transport cannot tell, running them is the lesser evil: the fence refuses what is not ours.
    for (const [at, held] of waiting.entries()) if (kept[at] === false) this.#lost(held)
  }

  /** Its lease lapsed, or somebody else decided: it is not ours to settle. */
  #lost(held: Held): void {
    if (this.#hands.unbuffer(held)) this.#hands.drop(held)
    else held.end("superseded")
  }

  #cancelled(payload: Uint8Array): void {
    const news = cancellationOf(payload)
    if (news === undefined) return
    const { id, run, terminate } = news
    // Late news of an earlier run must not take the task of this one off the queue.
    const meant = [...this.#hands.held.values()].filter(
      (held) => held.id === id && (run === undefined || held.jobRun === run),
    )
    // First, so that the run is not waited for as one that may still heed its signal.
    if (terminate && meant.length > 0) this.#processes.kill(id)
    for (const held of meant) {
      if (this.#hands.unbuffer(held)) {
        // Its record says cancelled already: only the task is left to take off the queue.
        void this.#settler
          .settle({ token: held.delivery.token, then: { kind: "ack" } }, this.#end.signal)
          .finally(() => this.#hands.drop(held))
      } else held.end("cancelled")
    }
  }
}

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
