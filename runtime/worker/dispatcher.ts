/**
 * What happens to deliveries in a worker, from the pull to the settlement: they wait in its hands, run in fibers of their
 * own, and are settled. Nothing starts before it is opened, or after it is closed.
 */
import { Effect, Exit } from "effect"
import { Batcher } from "../async/batcher.ts"
import { type Clock, systemClock } from "../async/clock.ts"
import { type Deferral, Deferrals } from "../cluster/deferrals.ts"
import type { EventSender } from "../cluster/events.ts"
import type { Connectivity } from "../connection/connectivity.ts"
import { jobError } from "../jobs/outcome/job-error.ts"
import type { Rate } from "../options/rate.ts"
import type { JobRecord } from "../protocol/record.ts"
import { isTerminal } from "../protocol/state.ts"
import type { AttemptEnd, AttemptStart, JobDelivery, StartAnswer } from "../transport/lift/transport.ts"
import { type ActorPool, nameOf } from "./actors/actor-pool.ts"
import type { Cancellation } from "./attempt/cancellation.ts"
import { samePosting } from "./attempt/intake.ts"
import type { TimeLimits } from "./attempt/method-plan.ts"
import { RunWatch } from "./attempt/run-watch.ts"
import type { Held } from "./delivery/delivery.ts"
import { jobFields } from "./delivery/job-fields.ts"
import { Executor, type ExecutorOptions } from "./executor.ts"
import type { Hands } from "./fetch/buffer.ts"
import type { ProcessPool } from "./isolation/process-pool.ts"
import { keepLeases, type LeaseKeeper } from "./leases/lease-keeper.ts"
import { PauseWatch } from "./leases/pause-watch.ts"
import { DeferralNotes, DeferralNotes, Untouched } from "./limits/deferral-notes.ts"
import { Limiter, type Refusal } from "./limits/limiter.ts"
import type { Dependents } from "./maintenance/dependents.ts"
import type { WorkerOptions } from "./options.ts"
import type { EarlyAcks } from "./settle/early-acks.ts"
import { Settler, type Settling } from "./settle/settler.ts"
import type { Observers } from "./telemetry/observer.ts"

export interface FlowOptions {
  readonly worker: WorkerOptions
  readonly pool: ActorPool
  /** Processes of isolated handlers; ended with the flow. */
  readonly processes: ProcessPool
  readonly hands: Hands
  readonly observers: Observers
  readonly connectivity: Connectivity
  /** Tells the events of handlers. */
  readonly events: EventSender
  readonly early: EarlyAcks
  /** Moves on those that wait for jobs which end here. */
  readonly dependents: Dependents
  /** How long a job that comes again is to be left alone. */
  readonly holdOffMs: ExecutorOptions["holdOffMs"]
  /** Whether a task falls under a revocation. */
  readonly isRevoked: ExecutorOptions["isRevoked"]
  /** Whether tasks of a queue may start now. */
  readonly allows: (queue: string) => boolean
}

/** How long a task goes back for that this worker has not done with. */
const AGAIN_MS = 1_000

export class Flow {
  /** What was handed back because it could not run, and why. */
  readonly deferrals = new Deferrals()
  readonly #options: FlowOptions
  readonly #clock: Clock
  readonly #hands: Hands
  readonly #observers: Observers
  readonly #watch: RunWatch
  readonly #executor: Executor
  readonly #processes: ProcessPool
  readonly #settler: Settler
  readonly #leases: LeaseKeeper
  readonly #pauses: PauseWatch
  readonly #limiter: Limiter
  readonly #deferralNotes: DeferralNotes
  readonly #untouched = new Untouched()
  readonly #end = new AbortController()
  #pumping = false
  #opened = false
  #closed = false

  constructor(options: FlowOptions) {
    const { worker, pool, processes, hands, observers } = options
    const { connection, client, log, leaseMs, clock = systemClock } = worker
    const { jobs } = connection
    this.#options = options
    this.#clock = clock
    this.#hands = hands
    this.#observers = observers
    hands.onFree = () => this.#pump()
    this.#settler = new Settler(jobs, log, options.connectivity)
    this.#watch = new RunWatch(jobs, log, (at) => this.#leases.deadline(at), clock)
    this.#processes = processes
    this.#pauses = new PauseWatch(
      leaseMs,
      () => this.#resume(),
      () => this.#pump(),
      clock,
    )
    this.#limiter = new Limiter({
      store: connection.store,
      broadcast: connection.broadcast,
      log,
      enabled: worker.rateLimits,
      leaseMs,
      isConnected: () => options.connectivity.connected,
      handlers: () => hands.concurrency,
      places: () => hands.places,
      onHolding: (key, ttlMs) => this.#leases.keepAlive(key, ttlMs),
      onReady: () => this.#pump(),
      isOver: ({ task }) =>
        task !== undefined && ((task.expires !== null && task.expires <= clock.now()) || options.isRevoked(task)),
      onOver: (held) => {
        hands.waited(held, "buffered")
        this.#pump()
      },
    })
    this.#deferralNotes = new DeferralNotes(connection.store, log)
    this.#executor = new Executor({
      pool,
      limiter: this.#limiter,
      clock,
      processes,
      claims: new Batcher<AttemptStart, StartAnswer>((claims) => jobs.begin(claims)),
      client,
      events: options.events,
      log,
      worker: worker.name,
      keep: worker.keep,
      lostCap: worker.lostCap,
      unknownGraceMs: worker.unknownGraceMs,
      maxBody: worker.maxBody,
      languages: worker.languages,
      isRevoked: options.isRevoked,
      holdOffMs: options.holdOffMs,
      take: (held, record) =>
        options.early.take(held, record, (settlement) => this.#settler.settle(settlement, this.#end.signal)),
      onFinished: (record) => options.dependents.stored(record),
      onRun: (held) => this.#started(held),
      onDeferral: (deferral) => this.deferrals.note(deferral),
      putOff: (refusal) => {
        hands.putOff()
        return this.#putOff(refusal)
      },
    })
    this.#leases = keepLeases({
      jobs,
      held: hands.held,
      lease: leaseMs,
      log,
      onLost: (held) => this.#lost(held),
      ...(worker.leaseThread === undefined ? {} : { thread: worker.leaseThread }),
    })
  }

  /** Takes what was pulled. */
  accept(pulled: ReadonlyArray<JobDelivery>): void {
    if (pulled.length === 0) return
    const deliveries = pulled
      .filter((delivery) => !this.#isInHand(delivery))
      .map((delivery) => this.#untouched.recognise(delivery))
    this.#observers.received(deliveries)
    this.#hands.add(deliveries)
    this.#leases.added(deliveries.map((delivery) => delivery.token))
    // Pulled before somebody said that they must not start.
    this.handBack((held) => this.#closed || !this.#options.allows(held.delivery.queue))
    this.#pump()
    // Some that waited for a limit were let in while these were on their way: for so many there is no place any more.
    for (const held of this.#hands.takeSurplus()) this.#release(held)
  }

  /** Whether a task comes again that this worker has not done with, and is looked after as such. */
  #isInHand(delivery: JobDelivery): boolean {
    const before = delivery.fresh ? undefined : samePosting(this.#hands.held.values(), delivery)
    // Of one that was taken off its queue the record says so: the claim finds that, and the task goes.
    if (before === undefined || before.offQueue) return false
    // Its lease is over, or it would not have come again. What only waits may as well begin with the new one.
    if (this.#hands.unbuffer(before) || this.#unwait(before)) {
      this.#forget(before)
      return false
    }
    void this.#again(before, this.#hands.receive(delivery))
    return true
  }

  /**
   * A task comes again while its job runs here: the run goes on with the new delivery, whose lease is kept and which its
   * outcome takes off the queue. It is no attempt, and nothing is claimed. While that cannot be known, or the run has ended
   * and its outcome is being stored, the task goes back for a moment.
   */
  async #again(before: Held, again: Held): Promise<void> {
    this.#leases.added([again.delivery.token])
    const isOurs = await this.#isOurs(before)
    if (isOurs === false) before.end("superseded")
    const runs = before.phase === "running" && before.run !== undefined && before.stop === undefined
    if (isOurs && runs && before.delivery.fence < again.delivery.fence) this.#hands.adopt(before, again)
    else this.#release(again, AGAIN_MS)
  }

  /** From now on handlers may start. */
  open(): void {
    this.#opened = true
    this.#pump()
  }

  /** From now on none does. */
  close(): void {
    this.#closed = true
  }

  /** Gives back, uncounted, what waits here; returns how many. */
  handBack(meant?: (held: Held) => boolean): number {
    const limited = this.#limiter.waiting.filter((held) => (meant?.(held) ?? true) && this.#unwait(held))
    const waiting = [...this.#hands.takeBuffered(meant), ...limited]
    for (const held of waiting) this.#release(held)
    return waiting.length
  }

  /** Tells the handlers that run to stop now, and gives their tasks back, uncounted, where those are still in their queue; returns how many. */
  interrupt(): number {
    // Before they are told: most are settling already when `end` returns.
    const running = [...this.#hands.held.values()].filter(
      ({ phase, stop, offQueue }) => phase === "running" && stop === undefined && !offQueue,
    ).length
    for (const held of this.#hands.held.values()) held.end("hand-back")
    return running
  }

  /** The end: nothing is settled, extended or watched any more. */
  async end(): Promise<void> {
    await this.#processes.close()
    await this.#limiter.close()
    this.#end.abort()
    this.#leases.stop()
    this.#pauses.stop()
    this.#watch.stop()
  }

  /** Until when tasks of some queues may come that others have put off, in milliseconds since the epoch. Fails as the store does. */
  async othersComeUntil(queues: ReadonlyArray<string>): Promise<number> {
    return queues.length === 0 ? 0 : this.#deferralNotes.until(queues)
  }

  /** What holds tasks up that came here: of one job, or of as many as are asked for. */
  notes(id: string | undefined, most: number): ReadonlyArray<Deferral> {
    const waiting = this.#limiter.notes(id, most)
    return [...this.deferrals.list(id, most), ...waiting].slice(-most)
  }

  /** The transport was lost, and is back. */
  reconnected(): void {
    this.#limiter.reconnected()
  }

  /** Changes the time limits of a method on this worker, for runs that begin from now on. False if nobody here serves it. */
  limitTime(task: string, limits: TimeLimits): boolean {
    return this.#executor.limitTime(task, limits)
  }

  /** Replaces the rate of a method on this worker; null: none any more. False if nobody here serves it. */
  limitRate(task: string, rate: Rate | null): boolean {
    const target = this.#options.pool.resolve(task, null)
    if (target.found) this.#limiter.setRate(nameOf(target), rate)
    return target.found
  }

  /** Starts handlers while there are slots and tasks. */
  #pump(): void {
    // A handler that ends at once leads back here: the loop goes on with its slot, instead of one deeper for each task.
    if (this.#pumping || !this.#opened) return
    this.#pumping = true
    try {
      // In doubt again before each: the handler that was called last may have blocked for longer than a lease.
      while (!this.#closed && !this.#pauses.inDoubt()) {
        const ready = this.#hands.hasSlot ? this.#limiter.ready() : undefined
        const held = this.#hands.next(ready)
        if (held === undefined) {
          this.#limiter.rest(this.#hands.hasSlot)
          return
        }
        if (held === ready) this.#limiter.letIn(held)
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

  #executed(held: Held, settlement: AttemptEnd | undefined): void {
    try {
      this.#watch.remove(held)
      if (held.mustWait) {
        this.#wait(held)
        this.#pump()
        return
      }
      this.#left(held)
      this.#pump()
    } catch (cause) {
      // Whatever else is amiss, the outcome is stored.
      this.#tellFault(held, cause)
    }
    if (settlement === undefined) {
      if (held.run?.stop === "superseded") this.#refused(held, undefined)
      this.#hands.drop(held)
    } else void this.#settle(held, settlement).finally(() => this.#hands.drop(held))
  }

  /** The handler of a delivery is over, or was never called. */
  #left(held: Held): void {
    this.#hands.handlerEnded(held)
    const { leave } = held
    const pending = held.run?.pending
    if (pending === undefined) leave?.()
    else {
      if (leave !== undefined) void pending.then(leave, leave)
      // At a hand-back the handler was told to stop this very moment.
      if (held.run?.stop !== "hand-back")
        this.#options.worker.log.warn(
          "a handler goes on after its job was decided, and keeps its slot until it stops: let it heed job.signal",
          held.run === undefined ? { job: held.id } : jobFields(held.run.record, held.run.method),
        )
    }
  }

  /** It may not start yet: it waits for its limit, without a handler. */
  #wait(held: Held): void {
    held.mustWait = false
    if (held.stop !== undefined || this.#closed || !this.#options.allows(held.delivery.queue)) {
      this.#hands.handlerEnded(held)
      if (held.stop === "superseded") this.#forget(held)
      else if (held.stop === "cancelled") this.#ack(held)
      else this.#release(held)
      return
    }
    // It was put off before, perhaps: now it is here.
    if (held.id !== undefined) this.deferrals.forget(held.id)
    const refusal = this.#limiter.wait(held)
    this.#hands.wait(held)
    if (refusal === undefined) return
    this.#hands.waited(refusal.held, "settling")
    const { held: last } = refusal
    void this.#settle(last, this.#putOff(refusal)).finally(() => this.#hands.drop(last))
  }

  /** Takes one delivery out of the room; false if it is not there. */
  #unwait(held: Held): boolean {
    if (!this.#limiter.leave(held)) return false
    this.#hands.waited(held, "settling")
    return true
  }

  #putOff({ held, delayMs, reason, detail }: Refusal): AttemptEnd {
    const { token, queue } = held.delivery
    const until = Math.round(this.#clock.now() + delayMs)
    this.deferrals.note({ id: held.id ?? "", queue, until, reason, detail })
    this.#deferralNotes.note(queue, until)
    this.#untouched.note(held.delivery)
    return { token, then: { kind: "release", delay: delayMs } }
  }

  #tellFault(held: Held, cause: unknown): void {
    this.#options.worker.log.error("a fault beside the outcome of a task", {
      job: held.id,
      cause: jobError(cause).message,
    })
  }

  /** Stores how a delivery ended, and does what follows from that here. Never rejects. */
  async #settle(held: Held, settlement: AttemptEnd): Promise<void> {
    try {
      this.#settled(held, settlement, await this.#store(held, settlement))
    } catch (cause) {
      this.#tellFault(held, cause)
    }
  }

  async #store(held: Held, settlement: AttemptEnd): Promise<Settling> {
    if (held.telling !== undefined) await held.telling
    try {
      return await this.#settler.settle(settlement, this.#end.signal, held.refused)
    } catch (cause) {
      const failed = this.#executor.faulted(held, cause)
      if (failed === undefined) throw cause
      return this.#settler.settle(failed, this.#end.signal)
    }
  }

  #settled(held: Held, settlement: AttemptEnd, stored: Settling): void {
    // What could not be stored, or is no outcome, leaves a job that nobody else ends: it stays on the list.
    if (held.offQueue && stored !== "lost" && settlement.then.kind === "ack")
      this.#options.early.done(held.delivery.token)
    if (typeof stored === "object" && stored.record !== undefined) this.#options.dependents.stored(stored.record)
    if (stored === "superseded" && settlement.record !== undefined) this.#refused(held, settlement.record)
    else if (stored === "superseded" || stored === "lost") this.#observers.unsettled(held, stored)
    else if (stored.then.kind === "release") {
      this.#hands.handedBack()
      this.#observers.handedBack(held)
    } else this.#observers.settled(held, stored)
  }

  /** What it has done came too late: another delivery, or a cancellation, has the job. */
  #refused(held: Held, record: JobRecord | undefined): void {
    this.#options.worker.log.debug("an outcome was refused: another delivery, or a cancellation, has the job", {
      job: held.id,
    })
    this.#observers.refused(held, record)
  }

  /** A handler is about to be called. */
  #started(held: Held): void {
    this.#watch.add(held)
    const { run, delivery } = held
    if (run === undefined) return
    this.deferrals.forget(run.posting.id)
    this.#observers.started(held, run)
    // A handler in a process of its own does not block this one.
    if (run.method.isolation === "process") return
    const { token, fence } = delivery
    this.#leases.calling({
      token,
      fence,
      id: run.posting.id,
      startedAt: run.startedAt,
      hardSeconds: run.hardMs / 1000,
      rejects: run.method.acks?.onTimeout === "reject",
      keepMs: this.#options.worker.connection.keepFailed(run.task.task, run.task.meth),
    })
  }

  #release(held: Held, delay = 0): void {
    const settlement: AttemptEnd = { token: held.delivery.token, then: { kind: "release", delay } }
    void this.#settle(held, settlement).finally(() => this.#hands.drop(held))
  }

  /** After a pause as long as a lease (the process was frozen): asks which waiting deliveries are still ours. */
  async #resume(): Promise<void> {
    await this.#limiter.resume()
    const waiting = [...this.#hands.waiting, ...this.#limiter.waiting]
    const kept = await this.#options.worker.connection.jobs
      .extend(waiting.map((held) => held.delivery.token))
      .catch(() => [])
    // Where the transport cannot tell, running them is the lesser evil: the fence refuses what is not ours.
    for (const [at, held] of waiting.entries()) if (kept[at] === false) this.#lost(held)
  }

  /**
   * Its lease is over. What has not begun is dropped. What runs goes on until another delivery or a decision from outside is known
   * to have the job: its task may come back to this worker, and until another one claims the job, its outcome counts.
   */
  #lost(held: Held): void {
    if (this.#hands.unbuffer(held) || this.#unwait(held)) this.#forget(held)
    else if (held.run === undefined) held.end("superseded")
    else
      void this.#isOurs(held).then((isOurs) => {
        if (isOurs === false) held.end("superseded")
      })
  }

  /** Whether nobody else has claimed or decided the job of a delivery; `undefined` while that cannot be asked. Never rejects. */
  async #isOurs(held: Held): Promise<boolean | undefined> {
    try {
      const found = await this.#options.worker.connection.jobs.find(held.id ?? "")
      if (found === undefined) return true
      const { run, state, fence } = found.record
      return run < held.jobRun || (run === held.jobRun && !isTerminal(state) && fence <= held.delivery.fence)
    } catch {
      return undefined
    }
  }

  /** It never ran here, and is not ours any more: it is none of those that may come. */
  #forget(held: Held): void {
    this.#hands.handedBack()
    this.#hands.drop(held)
  }

  /** Somebody cancelled a job. */
  cancelled({ id, run, terminate }: Cancellation): void {
    this.#untouched.forget()
    // Late news of an earlier run must not take the task of this one off the queue.
    const meant = [...this.#hands.held.values()].filter(
      (held) => held.id === id && (run === undefined || held.jobRun === run),
    )
    // First, so that the run is not waited for as one that may still heed its signal.
    if (terminate && meant.length > 0) this.#processes.kill(id)
    for (const held of meant) {
      held.killed = terminate && held.run?.method.isolation === "process"
      held.end("cancelled")
      if (this.#hands.unbuffer(held) || this.#unwait(held)) this.#ack(held)
    }
  }

  /** Its record says cancelled already: only the task is left to take off the queue. */
  #ack(held: Held): void {
    const settlement: AttemptEnd = { token: held.delivery.token, then: { kind: "ack" } }
    void this.#settle(held, settlement).finally(() => this.#hands.drop(held))
  }
}
