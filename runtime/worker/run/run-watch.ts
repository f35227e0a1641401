/**
 * Watches all runs of a worker: a run that lasts for a moment gets a fiber that waits for its time limits, and is reported. All
 * runs share one timer, which ends at its next tick after the last of them.
 */
import * as Effect from "effect/Effect"
import type { Clock } from "../../async/clock.ts"
import type { Log } from "../../log/log.ts"
import type { Progress } from "../../protocol/record.ts"
import type { Jobs, Report, Settlement } from "../../transport/job-store/transport.ts"
import { MAX_TIMER_MS } from "../../transport/timers.ts"
import type { ActiveDelivery, ExternalTasks, HandlerRun, HeldDeliveries } from "../active-delivery.ts"

/** Interval of the timer, and so the shortest time limit that is kept. */
const TICK_MS = 50
/** A run that ends sooner is never reported as started; its final record is enough. */
const MOMENT_MS = 150
/**
 * A limit within this time is taken back at once when its run ends: a handler that blocks the thread before the next tick would
 * be judged by it.
 */
const NEAR_MS = 60_000
/** Shortest time between two writes of a job's progress. */
const PROGRESS_MS = 250

/** What was last reported of a run. */
interface Reported {
  readonly at: number
  readonly progress: Progress | undefined
  readonly metaChanges: number
}

export interface WatchParts {
  /** The deliveries of the worker. */
  readonly held: Pick<HeldDeliveries, "values">
  readonly jobs: Pick<Jobs, "report" | "settle">
  readonly leases: {
    /** Called with the earliest hard limit of all runs, by the monotonic clock, whenever it changes. */
    deadline(at: number): void
    /** Called when runs are about to be reported as started. */
    list(): void
  }
  readonly slots: {
    /** Called with each run that has lasted for long. */
    runsLong(active: ActiveDelivery): void
  }
  /** Gets the progress of runs that is about to be stored. */
  readonly external: Pick<ExternalTasks, "progressed"> | undefined
  readonly clock: Clock
  readonly log: Log
}

export class RunWatch {
  readonly #parts: WatchParts
  #timer: ReturnType<typeof setInterval> | undefined
  #reporting = false
  /** How many runs were reported. */
  #startsReported = 0
  /** How many runs are watched. */
  #running = 0
  readonly #reported = new WeakMap<HandlerRun, Reported>()

  #deadline = Number.POSITIVE_INFINITY

  constructor(parts: WatchParts) {
    this.#parts = parts
  }

  /** Called when the handler of a run is about to be called. */
  began(run: HandlerRun): void {
    run.isWatched = true
    this.#running++
    if (run.hardAt < this.#deadline) this.#setDeadline(run.hardAt)
    this.#timer ??= setInterval(() => this.#tick(this.#parts.clock.monotonic()), TICK_MS)
  }

  /** Called when a run has ended, also if its handler was not called. */
  ended(run: HandlerRun): void {
    if (!run.isWatched) return
    run.isWatched = false
    run.unlimited()
    this.#running--
    // The timer ends with its next tick: starting one for each handler would cost more than the handler.
    if (this.#running === 0) this.#setDeadline(Number.POSITIVE_INFINITY)
    else if (run.hardAt <= this.#deadline) this.#tellNext()
  }

  /** Tells the earliest limit of the runs that are left. One that is far away is left to the next tick, since this looks at all runs. */
  #tellNext(): void {
    const now = this.#parts.clock.monotonic()
    if (this.#deadline - now > NEAR_MS) return
    this.#setDeadline(earliestLimit(this.#watched(), now))
  }

  #watched(): ReadonlyArray<ActiveDelivery> {
    return this.#parts.held.values().filter(({ run }) => run?.isWatched)
  }

  stop(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
    // A run that has not ended would keep the process alive until its limit.
    for (const { run } of this.#watched()) run?.unlimited()
    this.#setDeadline(Number.POSITIVE_INFINITY)
  }

  #setDeadline(at: number): void {
    if (at === this.#deadline) return
    this.#deadline = at
    this.#parts.leases.deadline(at)
  }

  #tick(now: number): void {
    const watched = this.#watched()
    this.#running = watched.length
    if (watched.length === 0) {
      this.stop()
      return
    }
    // This comes first: a run that ends below makes room for another one, which sets its own limit.
    this.#setDeadline(earliestLimit(watched, now))
    const reports: Array<Report> = []
    const offQueue: Array<ActiveDelivery> = []
    const settlements: Array<Settlement> = []
    const before = this.#startsReported
    for (const active of watched) {
      const { run } = active
      // A run may have ended with one before it.
      if (!run?.isWatched) continue
      // A run that ends before its first tick costs no fiber.
      run.limits ??= Effect.runFork(untilLimits(active, run))
      if (run.isOver) continue
      if (!active.isLong && run.isLong) this.#parts.slots.runsLong(active)
      const report = this.#reporting ? undefined : this.#reportOf(active, run, now)
      if (report === undefined) continue
      if (!active.offQueue) {
        reports.push(report)
        continue
      }
      // A report needs a task in a queue. For a job whose task was acked early, the record is stored with a settlement
      // instead.
      offQueue.push(active)
      settlements.push({ ...report, then: { kind: "ack" } })
    }
    if (reports.length + settlements.length === 0) return
    if (this.#startsReported > before) this.#parts.leases.list()
    this.#reporting = true
    const trying = (task: Promise<unknown>): Promise<void> =>
      task.then(
        () => undefined,
        (cause: unknown) => this.#parts.log.debug("progress could not be reported", { cause: String(cause) }),
      )
    const told = reports.length === 0 ? undefined : trying(this.#parts.jobs.report(reports))
    const stored = settlements.length === 0 ? undefined : trying(this.#parts.jobs.settle(settlements))
    // The outcome of a job waits for this write, so that an older progress never overwrites it.
    for (const active of offQueue) active.progressStored = stored
    void Promise.all([told, stored]).then(() => {
      this.#reporting = false
    })
  }

  #reportOf(active: ActiveDelivery, run: HandlerRun, now: number): Report | undefined {
    if (run.stop !== undefined) return undefined
    const last = this.#reported.get(run)
    const first = last === undefined && !active.offQueue && now - run.beganAt >= MOMENT_MS
    // Progress is compared by identity, because two reports may carry the same millisecond.
    const differs = run.progress !== last?.progress || run.metaChanges !== (last?.metaChanges ?? 0)
    const moved = differs && (last === undefined || now - last.at >= PROGRESS_MS)
    if (!first && !moved) return undefined
    this.#reported.set(run, { at: now, progress: run.progress, metaChanges: run.metaChanges })
    if (!run.reported) this.#startsReported++
    run.reported = true
    if (run.progress !== undefined && run.progress !== last?.progress)
      this.#parts.external?.progressed(run.task, run.posting, run.progress)
    const record = run.progress === undefined ? run.record : { ...run.record, progress: run.progress }
    return { token: active.delivery.token, record }
  }
}

/** Fires the signal of a run at its soft limit, and ends the run at its hard limit. */
const untilLimits = Effect.fnUntraced(function* (active: ActiveDelivery, run: HandlerRun): Effect.fn.Return<void> {
  if (run.softAt < run.hardAt) {
    yield* sleepUntil(run.softAt, run.clock)
    run.warn()
  }
  yield* sleepUntil(run.hardAt, run.clock)
  active.end("timeout")
})

/** Sleeps until a moment of the monotonic clock. */
const sleepUntil = Effect.fnUntraced(function* (at: number, clock: Clock): Effect.fn.Return<void> {
  for (let left = at - clock.monotonic(); left > 0; left = at - clock.monotonic())
    yield* Effect.sleep(Math.min(left, MAX_TIMER_MS))
})

/** The earliest hard limit that is not over. */
const earliestLimit = (inFlights: ReadonlyArray<ActiveDelivery>, now: number): number =>
  inFlights.reduce(
    (earliest, { run }) => (run !== undefined && run.hardAt > now ? Math.min(earliest, run.hardAt) : earliest),
    Number.POSITIVE_INFINITY,
  )
