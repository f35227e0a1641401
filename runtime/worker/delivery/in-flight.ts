/** One delivery while this worker holds it: from pull to settled. */

import type { Result } from "effect"
import type { ErasedMethod } from "../../actor/actor.ts"
import { type Clock, systemClock } from "../../async/clock.ts"
import type { Embed } from "../../protocol/body.ts"
import { OWN_HEADER, type Task } from "../../protocol/headers.ts"
import { type AddressedTask, isUndecodable } from "../../protocol/message.ts"
import { isId } from "../../protocol/name.ts"
import type { JobError, JobRecord, Progress } from "../../protocol/record.ts"
import type { Trace } from "../../tracing/context.ts"
import type { AttemptEnd, JobDelivery } from "../../transport/lift/transport.ts"
import { softLimit } from "./soft-limit.ts"

/** Why a run is ended from outside. */
export type InterruptReason = "timeout" | "cancelled" | "superseded" | "hand-back"

/** A delivery that is in this worker's hands. Mutable: the worker's own bookkeeping, shared by its parts. */
export class InFlight {
  /** Another one of the same task once its lease was over and the task came back to this worker. */
  delivery: JobDelivery
  /** Position of its queue in the worker's list. */
  readonly rank: number
  /** Level in its queue, where there may be fewer than a task can ask for; once its headers are read, what it asks for. */
  level: number
  phase: "buffered" | "waiting" | "running" | "settling" = "buffered"
  /** What it is for, where this worker serves that. */
  method: ErasedMethod | undefined
  /** Its task was taken off the queue, or is about to be: it has no lease that could be lost, and cannot be handed back. */
  offQueue = false
  /** What it last said of its progress is being stored. Never rejects. */
  progressStored: Promise<void> | undefined
  /** Set while its handler runs. */
  run: Run | undefined
  /** Whether its handler was called: whatever fails from then on must not make it run again. */
  called = false
  /** Set when it was decided from outside, also before the handler ran. */
  stop: InterruptReason | undefined
  /** Whether the process of its handler was killed because the job was cancelled. */
  killed = false
  /** Says that its handler has really ended, or was never called: it needs its actor's resources and limits no more. */
  release: (() => void) | undefined
  /** It may not start yet, and is to wait for its limit. */
  mustWait = false
  /** What its headers say, where that was read before it had to wait. */
  task: Task | undefined
  /** Gives back what its limit has let it have; set once it may start. */
  permit: (() => void) | undefined
  /** What its handler gets, where that was read before it had to wait. */
  input: InputRead | undefined
  /** What to settle instead of a result that the transport can never take. */
  refused: ((error: JobError) => AttemptEnd) | undefined

  constructor(delivery: JobDelivery, rank: number) {
    this.delivery = delivery
    this.rank = rank
    this.level = delivery.level
  }

  /** Adds to what happens at the end of its handler. */
  onRelease(release: () => void): void {
    const { release: before } = this
    this.release =
      before === undefined
        ? release
        : () => {
            release()
            before()
          }
  }

  /** Ends it from outside: its run, or, while it is only being prepared, what would become one. The first reason counts. */
  end(reason: InterruptReason): void {
    this.stop ??= reason
    this.run?.end(reason)
  }

  /** Number of its job's run, where the headers tell. */
  get jobRun(): number {
    const { message } = this.delivery
    const own = isUndecodable(message) ? undefined : message.headers[OWN_HEADER]
    const run = typeof own === "object" && own !== null && "run" in own ? own.run : undefined
    return typeof run === "number" ? run : 1
  }

  /** Id of its job where the headers tell one. */
  get id(): string | undefined {
    const { message } = this.delivery
    const id = isUndecodable(message) ? undefined : message.headers.id
    return typeof id === "string" && isId(id) ? id : undefined
  }
}

/** A task whose handler runs. */
export class Run {
  readonly posting: AddressedTask
  readonly task: Task
  readonly method: ErasedMethod
  /** What follows it. */
  readonly embed: Embed
  /** The record as it is now: started. */
  record: JobRecord
  /** Whether a claim was written, which a hand-back must close. */
  readonly claimed: boolean
  /** In milliseconds since the epoch. */
  startedAt: number
  /** The same moment, and the limits, by the clock that nobody sets. */
  beganAt: number
  hardAt: number
  softAt: number
  progress: Progress | undefined
  /** Whether anybody was told that it runs: a hand-back then says that it does not any more. */
  reported = false
  stop: InterruptReason | undefined
  /** What the handler's signal fired with at the soft limit. */
  softReason: DOMException | undefined
  /** Ends the wait for the handler: interrupts an Effect, lets go of a promise. */
  interrupt: (() => void) | undefined
  /** A promise of the handler that has not settled, whatever became of its fiber. */
  pending: Promise<unknown> | undefined
  /** Set where attempts are traced. */
  trace: Trace | undefined
  readonly clock: Clock
  #abort: AbortController | undefined
  /** Its limits while they are held. */
  #limits: { readonly hardMs: number; readonly softMs: number } | undefined

  constructor(fields: {
    readonly posting: AddressedTask
    readonly task: Task
    readonly method: ErasedMethod
    readonly embed: Embed
    readonly record: JobRecord
    readonly claimed: boolean
    readonly startedAt: number
    /** How long its handler may run. */
    readonly hardMs: number
    readonly softMs: number
    readonly clock?: Clock
  }) {
    this.clock = fields.clock ?? systemClock
    this.posting = fields.posting
    this.task = fields.task
    this.method = fields.method
    this.embed = fields.embed
    this.record = fields.record
    this.claimed = fields.claimed
    this.startedAt = fields.startedAt
    this.beganAt = this.clock.monotonic()
    this.hardAt = this.beganAt + fields.hardMs
    this.softAt = this.beganAt + fields.softMs
  }

  /** Ended from outside: what comes of its handler counts for nothing. */
  get isOver(): boolean {
    return this.stop !== undefined
  }

  /** How long its handler may run in all, in milliseconds. */
  get hardMs(): number {
    return between(this.beganAt, this.hardAt)
  }

  /** How long until its handler is told to stop, in milliseconds. */
  get #softMs(): number {
    return between(this.beganAt, this.softAt)
  }

  /** Made when it is first asked for: most handlers never look at it. */
  get signal(): AbortSignal {
    this.#abort ??= new AbortController()
    const reason = this.softReason ?? stopReason(this.stop)
    if (reason !== undefined) this.#abort.abort(reason)
    return this.#abort.signal
  }

  /** Stops the clock of its limits, while the process of its handler is not there yet. */
  hold(): void {
    if (this.#limits !== undefined) return
    this.#limits = { hardMs: this.hardMs, softMs: this.#softMs }
    this.hardAt = Number.POSITIVE_INFINITY
    this.softAt = Number.POSITIVE_INFINITY
  }

  /** The handler begins only now: its limits count from here. */
  begin(): void {
    if (this.#limits === undefined) return
    this.startedAt = this.clock.now()
    this.beganAt = this.clock.monotonic()
    this.hardAt = this.beganAt + this.#limits.hardMs
    this.softAt = this.beganAt + this.#limits.softMs
    this.#limits = undefined
  }

  /** The soft limit: tells the handler to stop; whether it does is its own affair. */
  warn(): void {
    if (this.softReason !== undefined) return
    this.softReason = softLimit(this.#softMs / 1000)
    this.#abort?.abort(this.softReason)
  }

  /** Ends the run from outside. The first reason counts. */
  end(reason: InterruptReason): void {
    if (this.stop !== undefined) return
    this.stop = reason
    this.#abort?.abort(stopReason(reason))
    this.interrupt?.()
  }
}

const STOPPED: Readonly<Record<InterruptReason, readonly [message: string, name: string]>> = {
  timeout: ["the hard time limit was reached", "TimeoutError"],
  cancelled: ["the job was cancelled", "AbortError"],
  superseded: ["another worker has the job", "AbortError"],
  "hand-back": ["the worker stops", "AbortError"],
}

const stopReason = (stop: InterruptReason | undefined): DOMException | undefined =>
  stop === undefined ? undefined : new DOMException(...STOPPED[stop])

/** Milliseconds to the microsecond: a sum of two times has an error behind that, which would be told with the limit. */
const between = (began: number, end: number): number => Math.round((end - began) * 1_000) / 1_000

/** Input and follow-ups of a task, or why it has none. */
export type InputRead = Result.Result<{ readonly embed: Embed; readonly input: unknown }, BadInput>

/** A task that is given up for what is in its body. */
export interface BadInput {
  readonly error: JobError
  /** What follows its failure. */
  readonly embed: Embed
  /** Why it is a dead letter, where it is one. */
  readonly dead?: string
}
