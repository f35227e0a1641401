/** What a worker is to those who hold it: the service that runs it, and remote control. */
import type { WorkerDescription } from "../../cluster/directory.ts"
import type { PutOff } from "../../cluster/put-offs.ts"
import type { Autoscale } from "../../options/autoscale.ts"
import type { RateInput } from "../../options/rate.ts"
import type { TransportError } from "../../transport/mod.ts"
import type { TimeLimits } from "../attempt/method-plan.ts"
import type { EndReason } from "../ending.ts"

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
