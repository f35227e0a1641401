/**
 * Dispatches a worker's deliveries, from the pull to the settlement: they wait in the buffer, run, and are settled. No
 * handler starts before the dispatcher is opened, or after it is closed.
 */
import { AsyncLocalStorage } from "node:async_hooks"
import * as Exit from "effect/Exit"
import * as Result from "effect/Result"
import { Batcher } from "../async/batcher.ts"
import { type Clock, systemClock } from "../async/clock.ts"
import { isEffect, runEffect } from "../async/maybe-effect.ts"
import type { WorkerDescription } from "../cluster/directory.ts"
import type { EventSender } from "../cluster/events.ts"
import type { Postponement } from "../cluster/postponements.ts"
import type { Connectivity } from "../connection/connectivity.ts"
import type { Cancellation } from "../jobs/commands/cancel.ts"
import type { Rate } from "../options/limit.ts"
import type { Claim, ClaimAnswer, JobDelivery, Settlement } from "../transport/job-store/transport.ts"
import { type ActiveDelivery, type HandlerRun, jobFields } from "./active-delivery.ts"
import { type ActorPool, nameOf } from "./actors/actor-pool.ts"
import type { DeliveryBuffer } from "./fetch/delivery-buffer.ts"
import type { QueueSubscription } from "./fetch/queue-subscription.ts"
import type { ProcessPool } from "./isolation/process-pool.ts"
import { keepLeases, type LeasedRuns, type LeaseKeeper, type Stallable, StallWatch } from "./leases/lease-keeper.ts"
import type { ListedRun, RunDetails } from "./leases/lease-protocol.ts"
import { type Admission, type LimitedDeliveries, Limiter, type PostponedTask } from "./limits/limiter.ts"
import { Holders, type OwnEntry } from "./limits/permits.ts"
import { Postponements } from "./limits/postponements.ts"
import type { Dependents } from "./maintenance/dependents.ts"
import type { WorkerOptions } from "./options.ts"
import { copiesIn, findSameTask, parseDelivery } from "./parsed-delivery.ts"
import { isOurs } from "./run/claim.ts"
import { OutcomeDecider } from "./run/decide.ts"
import type { EarlyAcks } from "./run/early-acks.ts"
import { MethodSettingsCache, type TimeLimits } from "./run/method-settings.ts"
import { Preparation, type PreparationOptions } from "./run/prepare.ts"
import { type RunParts, recover, type Slots, startRun } from "./run/run.ts"
import { RunWatch } from "./run/run-watch.ts"
import { DeliveryEnder } from "./run/settle.ts"
import { SettlementStore } from "./run/settlement-store.ts"
import type { Observers } from "./telemetry/observer.ts"

export interface DispatcherOptions {
  readonly worker: WorkerOptions
  readonly pool: ActorPool
  /** Processes of isolated handlers; the dispatcher ends them. */
  readonly processes: ProcessPool
  readonly buffer: DeliveryBuffer
  readonly observers: Observers
  readonly connectivity: Connectivity
  /** Sends the events of handlers. */
  readonly events: EventSender
  readonly early: EarlyAcks
  readonly entry: OwnEntry
  /** Names the worker where it holds permits. */
  readonly holder: string
  /** Releases jobs that depend on jobs which end here. */
  readonly dependents: Dependents
  /** The other workers, which may run a redelivered job, or serve a task that this worker does not. */
  readonly peers: PreparationOptions["peers"]
  /** Whether a task is revoked. */
  readonly isRevoked: PreparationOptions["isRevoked"]
  /** Whether the meta data of a job was changed before its first attempt. */
  readonly isChanged: PreparationOptions["isChanged"]
  readonly subscription: Pick<QueueSubscription, "allows" | "setFull">
}

/** Whether the run of a delivery has begun, and its handler may still run. */
const isRunning = ({ fiber, phase, run }: ActiveDelivery): boolean =>
  fiber !== undefined && (phase === "running" || run?.pending !== undefined)

/** Delay for a redelivered task that this worker has not finished with yet. */
const REDELIVERY_MS = 1_000

export class Dispatcher implements Slots, LeasedRuns, LimitedDeliveries, Stallable {
  /** Tasks that were given back because they could not run, with the reasons. */
  readonly postponements: Postponements
  readonly #options: DispatcherOptions
  readonly #clock: Clock
  readonly #buffer: DeliveryBuffer
  readonly #observers: Observers
  readonly #watch: RunWatch
  readonly #settings: MethodSettingsCache
  readonly #run: RunParts
  readonly #processes: ProcessPool
  readonly #ender: DeliveryEnder
  readonly #leases: LeaseKeeper
  readonly #stalls: StallWatch
  readonly #limiter: Limiter
  /**
   * Calls something in the context in which the worker was made. A slot may become free in the context of a request that cancels a
   * job, or of a handler, whose `AsyncLocalStorage` the next job must not see.
   */
  readonly #within = AsyncLocalStorage.snapshot()
  #pumping = false
  #opened = false
  #closed = false

  constructor(options: DispatcherOptions) {
    const { worker, pool, processes, buffer, observers } = options
    const { connection, client, log, leaseMs, clock = systemClock } = worker
    const { jobs } = connection
    this.#options = options
    this.#clock = clock
    this.#buffer = buffer
    this.#observers = observers
    buffer.onFree = () => this.pump()
    const { early, dependents, connectivity } = options
    const { external } = worker
    this.#settings = new MethodSettingsCache(worker.keep)
    const decider = new OutcomeDecider(pool, this.#settings, external, connection.transport.capabilities.maxTask)
    const store = new SettlementStore(jobs, log, connectivity)
    this.#ender = new DeliveryEnder({ jobs, store, decider, buffer, early, observers, dependents, external, log })
    const { held } = buffer
    const thread = worker.leaseThread === undefined ? {} : { thread: worker.leaseThread }
    const leases = keepLeases({ worker: worker.name, jobs, held, lease: leaseMs, log, runs: this, ...thread })
    this.#leases = leases
    this.#watch = new RunWatch({ held, jobs, leases, slots: this, external, clock, log })
    this.#processes = processes
    const stalls = new StallWatch(leaseMs, this, clock)
    this.#stalls = stalls
    this.postponements = new Postponements(connection.store, log)
    this.#limiter = new Limiter({
      connection,
      connectivity,
      log,
      pool,
      bodies: worker,
      settings: this.#settings,
      clock,
      enabled: worker.rateLimits,
      holders: new Holders(connection.store, options.holder, options.entry, leaseMs),
      buffer,
      deliveries: this,
      postponements: this.postponements,
      subscription: options.subscription,
      isRevoked: options.isRevoked,
    })
    const preparing: PreparationOptions = {
      pool,
      clock,
      claims: new Batcher<Claim, ClaimAnswer>((claims) => jobs.claim(claims)),
      client,
      store: connection.store,
      connectivity,
      stalls,
      isStopping: () => this.#closed,
      jobs,
      observers,
      events: options.events,
      log,
      worker: worker.name,
      version: worker.version,
      keep: worker.keep,
      lostCap: worker.lostCap,
      unknownGraceMs: worker.unknownGraceMs,
      maxBody: worker.maxBody,
      external,
      languages: worker.languages,
      isRevoked: options.isRevoked,
      isChanged: options.isChanged,
      peers: options.peers,
      dependents,
      postponements: this.postponements,
    }
    const preparation = new Preparation(preparing, this.#settings, decider)
    this.#run = { preparation, decider, processes, early, store, ender: this.#ender, slots: this, log }
  }

  /** Accepts pulled deliveries. */
  accept(pulled: ReadonlyArray<JobDelivery>): void {
    if (pulled.length === 0) return
    const copies = copiesIn(pulled)
    if (copies.length > 0) {
      // A broker may deliver two copies of a task together: the second finds the first among those that are here.
      this.accept(pulled.filter((each) => !copies.includes(each)))
      this.accept(copies)
      return
    }
    const deliveries = pulled
      .filter((delivery) => !this.#isAlreadyHeld(delivery))
      .map((delivery) => this.postponements.markFresh(delivery))
    this.#observers.received(deliveries)
    this.#buffer.add(deliveries)
    this.#leases.added(deliveries.map((delivery) => delivery.token))
    // Their queue may have been paused, or the worker stopped, since the pull began.
    this.handBack((active) => this.#closed || !this.#options.subscription.allows(active.delivery.queue))
    // A pull that was cut short, since a queue was paused, may bring what the pull after it was sent for as well.
    this.#handBackEach(this.#buffer.takeBeyondMaxJobs())
    this.pump()
    // Tasks that waited for a limit may have started while these deliveries were on their way, so that they exceed the
    // capacity.
    this.handBackSurplus()
  }

  /** Gives back waiting tasks for which there is no place in this worker any more, which does not count as an attempt. */
  handBackSurplus(): void {
    this.#handBackEach(this.#buffer.takeSurplus())
  }

  #handBackEach(waiting: ReadonlyArray<ActiveDelivery>): void {
    for (const active of waiting) this.#ender.handBack(active)
  }

  /** Whether a delivery is a redelivery of a task that this worker still has. It is handled here then. */
  #isAlreadyHeld(delivery: JobDelivery): boolean {
    const before = delivery.fresh ? undefined : findSameTask(this.#buffer.held.values(), delivery)
    // The record of a task that was acked early shows that, so that the claim finds it and the task is removed.
    if (before === undefined || before.offQueue) return false
    // The old lease has expired, or the task would not have come again. A task that has not started simply continues
    // with the new delivery.
    if (this.#buffer.unbuffer(before) || this.#takeFromLimit(before)) {
      this.#ender.dropUnstarted(before)
      return false
    }
    void this.#redelivered(before, this.#buffer.receive(delivery))
    return true
  }

  /**
   * A task is redelivered while its job runs here: the run continues with the new delivery, whose lease is extended and
   * which is settled at the end. That is no new attempt, and no claim is written. While it cannot be verified that no
   * other delivery has the job, or the outcome is being stored, the task is given back for a moment.
   */
  async #redelivered(before: ActiveDelivery, redelivery: ActiveDelivery): Promise<void> {
    this.#leases.added([redelivery.delivery.token])
    const ours = await isOurs(this.#options.worker.connection.jobs, before)
    if (ours === false) before.end("superseded")
    // Meanwhile its task may have been acked early, and its job be listed with the token that it has.
    const runs = before.phase === "running" && before.run !== undefined && before.stop === undefined && !before.offQueue
    if (ours && runs && before.delivery.fence < redelivery.delivery.fence) this.#buffer.adopt(before, redelivery)
    else this.#ender.handBack(redelivery, REDELIVERY_MS)
  }

  /** Allows handlers to start. */
  open(): void {
    this.#opened = true
    this.pump()
  }

  /** Keeps further handlers from starting. */
  close(): void {
    this.#closed = true
  }

  /** Gives back waiting tasks, which does not count as an attempt: all, or those that match. Returns their number. */
  handBack(matches?: (active: ActiveDelivery) => boolean): number {
    const limited = this.#limiter.waiting.filter((active) => (matches?.(active) ?? true) && this.#takeFromLimit(active))
    const waiting = [...this.#buffer.takeBuffered(matches), ...limited]
    this.#handBackEach(waiting)
    return waiting.length
  }

  /**
   * Tells all running handlers to stop, and gives their tasks back, uncounted, where the tasks are still queued.
   * Returns their number.
   */
  interrupt(): number {
    // The handlers are counted first, because most deliveries are being settled already when `end` returns.
    const running = this.#buffer.held
      .values()
      .filter(({ phase, stop, canGoBack }) => phase === "running" && stop === undefined && canGoBack).length
    for (const active of this.#buffer.held.values()) active.end("hand-back")
    return running
  }

  /** Notes how the worker describes itself, for while a handler blocks it. */
  described(worker: WorkerDescription): void {
    this.#leases.described(worker)
  }

  /** Ends the dispatcher: nothing is settled, extended or watched any more. */
  async end(): Promise<void> {
    await this.#processes.close()
    await this.#limiter.close()
    this.#run.store.stop()
    this.#leases.stop()
    this.#stalls.stop()
    this.#watch.stop()
  }

  /** Why tasks that came here do not run: the task of one job, or as many as `max`. */
  notes(id: string | undefined, max: number): ReadonlyArray<Postponement> {
    const waiting = this.#limiter.notes(id, max)
    return [...this.postponements.list(id, max), ...waiting].slice(-max)
  }

  /** How many tasks were given back with a delay and are away now, by queue. */
  postponedByQueue(): ReadonlyMap<string, number> {
    return this.postponements.byQueue(this.#clock.now())
  }

  /** Called when a lost connection is back. */
  reconnected(): void {
    this.#limiter.reconnected()
  }

  /**
   * Changes the time limits of a method on this worker, for runs that begin from now on. False if the method is not
   * served here.
   */
  limitTime(task: string, limits: TimeLimits): boolean {
    const target = this.#options.pool.resolve(task, null)
    if (target.found) this.#settings.limitTime(target.method, limits)
    return target.found
  }

  /** Replaces the rate of a method on this worker; null: no rate. False if the method is not served here. */
  limitRate(task: string, rate: Rate | null): boolean {
    const target = this.#options.pool.resolve(task, null)
    if (target.found) this.#limiter.setRate(nameOf(target), rate)
    return target.found
  }

  /** Replaces the limits of queues: how many of their jobs may run at a time on all workers, by queue. */
  limitQueues(limits: ReadonlyMap<string, number>): void {
    this.#limiter.limitQueues(limits)
  }

  /** Starts handlers while there are free slots and tasks that may run. */
  pump(): void {
    // A handler that ends at once calls this method again. The running loop then uses its slot, so that the stack does
    // not grow with each task.
    if (this.#pumping || !this.#opened) return
    this.#pumping = true
    try {
      // Checked before each handler, because the previous one may have blocked this thread for longer than a lease.
      while (!this.#closed && !this.#stalls.leasesInDoubt()) {
        const ready = this.#buffer.hasSlot ? this.#limiter.firstReady() : undefined
        const active = this.#buffer.next(ready)
        if (active === undefined) {
          this.#limiter.scheduleNext(this.#buffer.hasSlot)
          return
        }
        this.#within(this.#start, active, active === ready)
      }
    } finally {
      this.#pumping = false
    }
  }

  /** Begins the run of a delivery that has a slot, unless a limit holds its task up. `hasWaited`: its limit lets it start. */
  readonly #start = (active: ActiveDelivery, hasWaited: boolean): void => {
    const limiter = this.#limiter
    if (hasWaited) startRun(this.#run, active, limiter.grant(active))
    else if (limiter.concerns(active.delivery.queue)) this.#ask(active)
    else startRun(this.#run, active)
  }

  /** Asks the limits of a task before its run begins. */
  #ask(active: ActiveDelivery): void {
    try {
      const parsed = parseDelivery(active.delivery)
      const asked = Result.isFailure(parsed) ? undefined : this.#limiter.ask(active, parsed.success)
      if (asked === undefined) startRun(this.#run, active, Result.getOrUndefined(parsed))
      else runEffect(isEffect(asked) ? asked : Exit.succeed(asked), (exit) => this.#asked(active, exit))
    } catch (thrown) {
      recover(this.#run, active, Exit.die(thrown))
    }
  }

  #asked(active: ActiveDelivery, exit: Exit.Exit<Admission>): void {
    if (Exit.isFailure(exit)) recover(this.#run, active, exit)
    else if (exit.value.start === "now") startRun(this.#run, active, exit.value)
    else this.#waitForLimit(active, exit.value)
    this.pump()
  }

  handlerEnded(active: ActiveDelivery): void {
    try {
      this.#handlerEnded(active)
      this.pump()
    } catch (cause) {
      // The outcome is stored even if something else fails.
      this.#ender.fault(active, cause)
    }
  }

  #handlerEnded(active: ActiveDelivery): void {
    this.#buffer.handlerEnded(active)
    if (active.run !== undefined) this.#watch.ended(active.run)
    const pending = active.run?.pending
    if (pending === undefined) active.release()
    else {
      const release = (): void => {
        active.release()
        this.pump()
      }
      void pending.then(release, release)
      // At a hand-back the signal of the handler fired only just now, so there is nothing to warn about.
      if (active.run?.stop !== "hand-back")
        this.#options.worker.log.warn(
          "a handler keeps running after its job has ended, and occupies its slot until it stops: make it stop on job.signal",
          active.run === undefined ? { job: active.id } : jobFields(active.run.record, active.run.method),
        )
    }
  }

  /** Makes a task that may not start yet wait for its limit, without a slot, or postpones it. */
  #waitForLimit(active: ActiveDelivery, admission: Admission): void {
    if (active.stop !== undefined || this.#closed || !this.#options.subscription.allows(active.delivery.queue)) {
      this.#buffer.handlerEnded(active)
      if (active.stop === "superseded") this.#ender.dropUnstarted(active)
      else if (active.stop === "cancelled") this.#ender.ack(active)
      else this.#ender.handBack(active)
      return
    }
    // The task may have been postponed before; it waits here now.
    if (active.id !== undefined) this.postponements.forget(active.id)
    const postponed = this.#limiter.enqueue(active, admission)
    this.#buffer.waitForLimit(active)
    if (postponed === undefined) return
    this.#buffer.stopWaiting(postponed.active, "settling")
    this.#ender.end(postponed.active, this.#postpone(postponed))
  }

  runningIn(queue: string): ReadonlyArray<ActiveDelivery> {
    return this.#buffer.held.values().filter((active) => active.delivery.queue === queue && isRunning(active))
  }

  stopWaiting(active: ActiveDelivery): void {
    this.#buffer.stopWaiting(active, "buffered")
    this.pump()
  }

  /** Takes a delivery out of the limiter's queue. False if it is not there. */
  #takeFromLimit(active: ActiveDelivery): boolean {
    if (!this.#limiter.remove(active)) return false
    this.#buffer.stopWaiting(active, "settling")
    return true
  }

  #postpone({ active, limit, postponeUntil, reason, detail }: PostponedTask): Settlement {
    const delayMs = postponeUntil - performance.now()
    const { delivery, id = "" } = active
    const { token, queue } = delivery
    const until = Math.round(this.#clock.now() + delayMs)
    this.postponements.noteLimited({ id, queue, until, reason, detail }, delivery, limit)
    return { token, then: { kind: "hand-back", delay: delayMs } }
  }

  runsLong(active: ActiveDelivery): void {
    this.#buffer.runsLong(active)
    this.handBackSurplus()
  }

  handlerStarts(active: ActiveDelivery): void {
    if (this.#buffer.isExpectedLong(active)) this.runsLong(active)
    const { run } = active
    if (run === undefined) return
    this.#watch.began(run)
    this.postponements.forget(run.posting.id)
    this.#observers.started(active, run)
    // What is stored about a run its lease thread must know as well.
    if (run.claimed) this.#leases.list()
    // An isolated handler does not block this process.
    if (run.method.isolation === "process") return
    this.#leases.calling(this.#detailsOf(active, run))
  }

  #detailsOf({ delivery: { token, fence }, offQueue }: ActiveDelivery, run: HandlerRun): RunDetails {
    return {
      token,
      fence,
      id: run.posting.id,
      startedAt: run.startedAt,
      hardSeconds: run.hardMs / 1000,
      rejects: run.method.acks?.onTimeout === "reject",
      keepMs: this.#settings.of(run.method).keep.failureMs,
      once: offQueue || run.method.onLost === "fail",
    }
  }

  /** The runs whose handlers were called and have not ended. */
  running(): ReadonlyArray<ListedRun> {
    return this.#buffer.held.values().flatMap((active) => {
      const { run } = active
      if (run?.isWatched !== true) return []
      return { ...this.#detailsOf(active, run), inline: run.method.isolation !== "process" }
    })
  }

  /** These runs were told of as started in the place of this thread. */
  reported(tokens: ReadonlyArray<string>): void {
    for (const { delivery, run } of this.#buffer.held.values())
      if (run !== undefined && tokens.includes(delivery.token)) run.reported = true
  }

  /**
   * Called after the process was frozen for as long as a lease: asks which waiting deliveries still belong to this
   * worker.
   */
  async resume(): Promise<void> {
    await this.#limiter.resume()
    const waiting = [...this.#buffer.waiting, ...this.#limiter.waiting]
    const kept = await this.#options.worker.connection.jobs
      .extend(waiting.map((active) => active.delivery.token))
      .catch(() => [])
    // If the transport cannot tell, they are run: the fence refuses the outcome of a delivery that does not belong to
    // this worker any more.
    for (const [at, active] of waiting.entries()) if (kept[at] === false) this.leaseLost(active)
  }

  /**
   * Handles a lost lease of a delivery. A task that has not started is dropped. A run goes on until another delivery or a decision
   * is known to have the job, because until then its outcome counts, and the task may come back to this worker.
   */
  leaseLost(active: ActiveDelivery): void {
    if (this.#buffer.unbuffer(active) || this.#takeFromLimit(active)) this.#ender.dropUnstarted(active)
    else if (active.run === undefined) active.end("superseded")
    else
      void isOurs(this.#options.worker.connection.jobs, active).then((ours) => {
        if (ours === false) active.end("superseded")
      })
  }

  /** Applies a cancellation. */
  cancelled({ id, run, terminate, reverting }: Cancellation): void {
    this.postponements.forgetFirsts()
    // A late cancellation of an earlier run must not remove the task of this one.
    const matches = this.#buffer.held
      .values()
      .filter((active) => active.id === id && (run === undefined || active.jobRun === run))
    if (reverting) {
      for (const active of matches) active.revert()
      return
    }
    // The process is killed first, so that the run is not given time to heed its signal.
    if (terminate && matches.length > 0) this.#processes.kill(id)
    for (const active of matches) {
      active.killed = terminate && active.run?.method.isolation === "process"
      active.end("cancelled")
      if (this.#buffer.unbuffer(active) || this.#takeFromLimit(active)) this.#ender.ack(active)
    }
  }
}
