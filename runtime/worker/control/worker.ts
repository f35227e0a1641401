/** The interface of a running worker, for the service that runs it and for remote control. */
import * as Result from "effect/Result"
import type { WorkerDescription } from "../../cluster/directory.ts"
import type { EventSender } from "../../cluster/events.ts"
import type { Postponement } from "../../cluster/postponements.ts"
import { CallboardError } from "../../errors.ts"
import type { Log } from "../../log/log.ts"
import { type Autoscale, MAX_HANDLERS, parseAutoscale } from "../../options/autoscale.ts"
import { checkTimeLimit } from "../../options/duration.ts"
import { wholeNumber } from "../../options/fields.ts"
import { type RateInput, rateOf } from "../../options/limit.ts"
import { compact } from "../../protocol/compact.ts"
import { checkQueueName } from "../../protocol/name.ts"
import type { TransportError } from "../../transport/mod.ts"
import type { Dispatcher } from "../dispatcher.ts"
import type { DeliveryBuffer } from "../fetch/delivery-buffer.ts"
import type { PoolSize } from "../fetch/pool-size.ts"
import type { QueueSubscription } from "../fetch/queue-subscription.ts"
import type { TimeLimits } from "../run/method-settings.ts"
import type { StopReason } from "../stop-condition.ts"
import type { WorkerCounts } from "../telemetry/counts.ts"
import { jobsIn, type WorkerJobs, type WorkerSnapshot } from "./snapshot.ts"

/** Load of a worker. */
export interface WorkerLoad {
  /** Deliveries that it has, including running ones. */
  readonly inFlight: number
  /** Taken slots, including those of handlers that still run although their job was decided. */
  readonly running: number
  readonly concurrency: number
}

/** Result of a stop. */
export interface StopReport {
  /** Jobs whose handlers ended within the grace. */
  readonly finished: number
  /** Tasks that were given back, to run on another worker. */
  readonly handedBack: number
  /** Handlers that ignored their signal and still run. */
  readonly stuck: number
  /**
   * Tasks that could be neither settled nor given back, because the transport did not accept it. They are delivered
   * again when their leases expire.
   */
  readonly lost: number
}

export interface Worker {
  readonly name: string
  /** The queues that it pulls from, in order of preference. */
  readonly queues: ReadonlyArray<string>
  /** The queues that it does not pull from now, in words with the reason; empty if there are none. */
  readonly leftOut: string
  /** Whether it consumes now. */
  readonly listening: boolean
  /** Whether it takes no tasks because handlers that go on after their jobs were decided hold all of its slots. */
  readonly isStuck: boolean
  /** Resolves with the error if the worker gives up by itself. */
  readonly failed: Promise<TransportError>
  /** Resolves with the reason when the worker has nothing more to do and is to be stopped. */
  readonly done: Promise<StopReason>
  readonly load: WorkerLoad
  describe(): WorkerDescription
  /** The jobs and tasks that it has. */
  inspect(): WorkerJobs
  /** Tasks that it gave back because they could not run now: that of one job, or the latest, at most 1,000. */
  postpone(id?: string): ReadonlyArray<Postponement>
  /**
   * Changes the concurrency (1–10,000); running handlers go on. With `autoscale`, bounds that exclude the new value are
   * widened. Fails with `CallboardError` `invalid-input`.
   */
  resize(concurrency: number): void
  /**
   * Changes the bounds of autoscaling; null: the concurrency stays as it is. Fails with `CallboardError`
   * `invalid-input`.
   */
  autoscale(bounds: Autoscale | null): void
  /**
   * Adds a queue. False if it is there already. Fails with `CallboardError` `invalid-input` for an invalid queue name.
   */
  addQueue(queue: string): boolean
  /** Removes a queue and gives back its waiting tasks. False if it is not there. */
  removeQueue(queue: string): boolean
  /**
   * Changes the time limits of a method for runs that begin from now on. False if the method is not served here. Fails
   * with `CallboardError` `invalid-input`.
   */
  limitTime(task: string, limits: TimeLimits): boolean
  /**
   * Replaces the `rate` of a method on this worker until it stops; null: no rate. Limits across all workers stay. False
   * if the method is not served here. Fails with `CallboardError` `invalid-input` for an invalid rate.
   */
  rateLimit(task: string, rate: RateInput | null): boolean
  /** Turns task events on or off. False if that changes nothing. */
  events(on: boolean): boolean
  /**
   * Stops softly: running handlers get the grace. `now` gives everything back at once; a second call with `now` ends
   * the grace.
   */
  stop(options?: { readonly now?: boolean }): Promise<StopReport>
}

export interface RunningWorkerOptions {
  readonly name: string
  readonly failed: Promise<TransportError>
  readonly done: Promise<StopReason>
  readonly snapshot: WorkerSnapshot
  readonly subscription: QueueSubscription
  readonly buffer: DeliveryBuffer
  readonly log: Log
  readonly size: PoolSize
  readonly counts: WorkerCounts
  readonly events: EventSender
  readonly dispatcher: Dispatcher
  /** Ends the grace of handlers. */
  readonly hurry: () => void
  /** Releases all parts of the worker, its deliveries first. */
  readonly close: () => Promise<void>
}

/** Largest number of deferred tasks in one list. */
const MAX_POSTPONED = 1_000

/** Jobs that one line of the log names. */
const MAX_NAMED = 100

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

  get leftOut(): string {
    return this.#options.subscription.leftOut
  }

  get listening(): boolean {
    const { snapshot, subscription } = this.#options
    return snapshot.isListening && !subscription.isStuck
  }

  get isStuck(): boolean {
    return this.#options.subscription.isStuck
  }

  get load(): WorkerLoad {
    const { held, running, stuck, concurrency } = this.#options.buffer
    return { inFlight: held.size, running: running + stuck, concurrency }
  }

  describe(): WorkerDescription {
    return this.#options.snapshot.describe()
  }

  inspect(): WorkerJobs {
    return jobsIn(this.#options.buffer)
  }

  postpone(id?: string): ReadonlyArray<Postponement> {
    return this.#options.dispatcher.notes(id, MAX_POSTPONED)
  }

  resize(concurrency: number): void {
    wholeNumber("concurrency", concurrency, { min: 1, max: MAX_HANDLERS })
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
    if (removed) dispatcher.handBack((active) => active.delivery.queue === queue)
    return removed
  }

  limitTime(task: string, limits: TimeLimits): boolean {
    const { hardMs, softMs } = limits
    checkTimeLimit(
      { ...compact({ hardMs }), ...(typeof softMs === "number" ? { softMs } : {}) },
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
    const { counts, buffer, log, close } = this.#options
    const { processed, handedBackTasks, lostTasks } = counts
    await close()
    const left = buffer.held.values()
    if (left.length > 0)
      log.error("some tasks could neither be settled nor handed back in time; they will be delivered again", {
        jobs: left.slice(0, MAX_NAMED).map(({ id }) => id ?? null),
      })
    return {
      finished: counts.processed - processed,
      handedBack: counts.handedBackTasks - handedBackTasks,
      stuck: buffer.stuck,
      lost: counts.lostTasks - lostTasks + buffer.held.size,
    }
  }
}

const invalid = (field: string, why: string): CallboardError =>
  new CallboardError("invalid-input", `${field}: ${why}`, { field })
