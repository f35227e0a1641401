/** What a worker is to those who hold it: the service that runs it, and remote control. */
import { Result } from "effect"
import type { Deferral } from "../../cluster/deferrals.ts"
import type { WorkerDescription } from "../../cluster/directory.ts"
import type { EventSender } from "../../cluster/events.ts"
import { CallboardError } from "../../errors.ts"
import { type Autoscale, isHandlerCount, MOST_HANDLERS, parseAutoscale } from "../../options/autoscale.ts"
import { type RateInput, rateOf } from "../../options/rate.ts"
import { checkTimeLimit } from "../../options/time-limit.ts"
import { checkQueueName } from "../../protocol/name.ts"
import type { TransportError } from "../../transport/mod.ts"
import type { TimeLimits } from "../attempt/method-settings.ts"
import type { Dispatcher } from "../dispatcher.ts"
import type { DeliveryBuffer } from "../fetch/delivery-buffer.ts"
import type { PoolSize } from "../fetch/pool-size.ts"
import type { QueueSubscription } from "../fetch/queue-subscription.ts"
import type { StopReason } from "../stop-condition.ts"
import type { Counts } from "../telemetry/counts.ts"
import { jobsIn, type WorkerJobs, type WorkerSnapshot } from "./snapshot.ts"

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

export interface Worker {
  readonly name: string
  /** The queues that it listens to, in order of preference. */
  readonly queues: ReadonlyArray<string>
  /** Whether it consumes now. */
  readonly listening: boolean
  /** Resolves, with the error, if it gives up by itself. */
  readonly failed: Promise<TransportError>
  /** Resolves, with the reason, when it has nothing more to do and wants to be stopped. */
  readonly done: Promise<StopReason>
  readonly load: WorkerLoad
  describe(): WorkerDescription
  /** What is in its hands. */
  inspect(): WorkerJobs
  /** What it handed back because it could not run it now: one job, or the latest, 1,000 at most. */
  putOff(id?: string): ReadonlyArray<Deferral>
  /**
   * Changes how many handlers run at a time, 1–10,000; what runs goes on. With `autoscale`, bounds that it lies outside of
   * move. Fails with `CallboardError` `invalid-input`.
   */
  resize(concurrency: number): void
  /**
   * Changes the bounds between which the concurrency follows what is held; null: it stays as it is. Fails with
   * `CallboardError` `invalid-input`.
   */
  autoscale(bounds: Autoscale | null): void
  /** Listens to one queue more. False if it does already. Fails with `CallboardError` `invalid-input` for what is no name of a queue. */
  addQueue(queue: string): boolean
  /** Does not listen to a queue any more; what waits here of it is handed back. False if it did not. */
  removeQueue(queue: string): boolean
  /**
   * Changes the time limits of a method for runs that begin from now on. False if nobody here serves it. Fails with
   * `CallboardError` `invalid-input`.
   */
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

export interface RunningWorkerOptions {
  readonly name: string
  readonly failed: Promise<TransportError>
  readonly done: Promise<StopReason>
  readonly snapshot: WorkerSnapshot
  readonly subscription: QueueSubscription
  readonly buffer: DeliveryBuffer
  readonly size: PoolSize
  readonly counts: Counts
  readonly events: EventSender
  readonly dispatcher: Dispatcher
  /** Ends the grace of handlers. */
  readonly hurry: () => void
  /** Lets go of everything that the worker consists of, what it holds first. */
  readonly close: () => Promise<void>
}

/** Tasks that were handed back and are named at a time. */
const MOST_PUT_OFF = 1_000

export class RunningWorker implements Worker {
  readonly name: string
  readonly failed: Promise<TransportError>
  readonly done: Promise<StopReason>
  readonly #options: RunningWorkerOptions
  #stopping: Promise<StopReport> | undefined

  constructor(options: RunningWorkerOptions) {
    this.name = options.name
    this.failed = options.failed
    this.done = options.done
    this.#options = options
  }

  get queues(): ReadonlyArray<string> {
    return this.#options.subscription.listed
  }

  get listening(): boolean {
    return this.#options.snapshot.isListening
  }

  get load(): WorkerLoad {
    const { inFlight, running, stuck, concurrency } = this.#options.buffer
    return { inFlight: inFlight.size, running: running + stuck, concurrency }
  }

  describe(): WorkerDescription {
    return this.#options.snapshot.describe()
  }

  inspect(): WorkerJobs {
    return jobsIn(this.#options.buffer)
  }

  putOff(id?: string): ReadonlyArray<Deferral> {
    return this.#options.dispatcher.notes(id, MOST_PUT_OFF)
  }

  resize(concurrency: number): void {
    if (!isHandlerCount(concurrency)) throw invalid("concurrency", `must be a whole number from 1 to ${MOST_HANDLERS}`)
    this.#options.size.set(concurrency)
  }

  autoscale(bounds: Autoscale | null): void {
    const parsed = bounds === null ? Result.succeed(null) : parseAutoscale(bounds)
    if (Result.isFailure(parsed)) throw invalid("autoscale", parsed.failure)
    this.#options.size.autoscale(parsed.success)
  }

  addQueue(queue: string): boolean {
    const checked = checkQueueName(queue)
    if (Result.isFailure(checked)) throw invalid("queue", checked.failure.message)
    return this.#options.subscription.add(queue)
  }

  removeQueue(queue: string): boolean {
    const { subscription, dispatcher } = this.#options
    const removed = subscription.remove(queue)
    if (removed) dispatcher.handBack((inFlight) => inFlight.delivery.queue === queue)
    return removed
  }

  limitTime(task: string, limits: TimeLimits): boolean {
    const { hardMs, softMs } = limits
    checkTimeLimit(
      { ...(hardMs === undefined ? {} : { hardMs }), ...(typeof softMs === "number" ? { softMs } : {}) },
      { hard: "hardMs", soft: "softMs" },
    )
    return this.#options.dispatcher.limitTime(task, limits)
  }

  rateLimit(task: string, rate: RateInput | null): boolean {
    return this.#options.dispatcher.limitRate(task, rate === null ? null : rateOf("rate", rate))
  }

  events(on: boolean): boolean {
    const { events } = this.#options
    const changed = events.enabled !== on
    events.enabled = on
    return changed
  }

  stop(options: { readonly now?: boolean } = {}): Promise<StopReport> {
    if (options.now) this.#options.hurry()
    this.#stopping ??= this.#stop()
    return this.#stopping
  }

  async #stop(): Promise<StopReport> {
    const { counts, buffer, close } = this.#options
    const { processed, handedBackTasks, lostTasks } = counts
    await close()
    return {
      finished: counts.processed - processed,
      handedBack: counts.handedBackTasks - handedBackTasks,
      stuck: buffer.stuck,
      lost: counts.lostTasks - lostTasks + buffer.inFlight.size,
    }
  }
}

const invalid = (field: string, why: string): CallboardError =>
  new CallboardError("invalid-input", `${field}: ${why}`, { field })
