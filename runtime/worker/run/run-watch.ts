/**
 * Watches all runs of a worker: enforces time limits, and reports runs that last longer than a moment. All runs share
 * one timer, which ends at its next tick after the last of them.
 */
import { type Clock, systemClock } from "../../async/clock.ts"
import type { Log } from "../../log/log.ts"
import type { Progress } from "../../protocol/record.ts"
import type { Jobs, Report, Settlement } from "../../transport/job-store/transport.ts"
import type { ActiveDelivery, HandlerRun, HeldDeliveries } from "../active-delivery.ts"

/** Interval of the timer, and so the precision of time limits. */
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

export class RunWatch {
  readonly #held: Pick<HeldDeliveries, "values">
  readonly #jobs: Jobs
  readonly #log: Log
  #timer: ReturnType<typeof setInterval> | undefined
  #reporting = false
  /** How many runs were reported. */
  #startsReported = 0
  /** How many runs are watched. */
  #running = 0
  readonly #reported = new WeakMap<HandlerRun, Reported>()

  readonly #onDeadline: (at: number) => void
  readonly #onLong: (active: ActiveDelivery) => void
  readonly #onProgress: (run: HandlerRun, progress: Progress) => void
  readonly #onReported: () => void
  readonly #clock: Clock
  #deadline = Number.POSITIVE_INFINITY

  /**
   * `held`: the deliveries of the worker. `onDeadline` is called with the earliest hard limit of all runs, by the monotonic
   * clock, whenever it changes; `onLong` with each run that has lasted for long, `onProgress` whenever progress is about to
   * be stored, and `onReported` when runs are about to be reported as started.
   */
  constructor(
    held: Pick<HeldDeliveries, "values">,
    jobs: Jobs,
    log: Log,
    onDeadline: (at: number) => void,
    onLong: (active: ActiveDelivery) => void,
    onProgress: (run: HandlerRun, progress: Progress) => void,
    onReported: () => void,
    clock: Clock = systemClock,
  ) {
    this.#clock = clock
    this.#held = held
    this.#jobs = jobs
    this.#log = log
    this.#onDeadline = onDeadline
    this.#onLong = onLong
    this.#onProgress = onProgress
    this.#onReported = onReported
  }

  /** Called when the handler of a run is about to be called. */
  began(run: HandlerRun): void {
    run.isWatched = true
    this.#running++
    if (run.hardAt < this.#deadline) this.#setDeadline(run.hardAt)
    this.#timer ??= setInterval(() => this.#tick(this.#clock.monotonic()), TICK_MS)
  }

  /** Called when a run has ended, also if its handler was not called. */
  ended(run: HandlerRun): void {
    if (!run.isWatched) return
    run.isWatched = false
    this.#running--
    // The timer ends with its next tick: starting one for each handler would cost more than the handler.
    if (this.#running === 0) this.#setDeadline(Number.POSITIVE_INFINITY)
    else if (run.hardAt <= this.#deadline) this.#tellNext()
  }

  /** Tells the earliest limit of the runs that are left. One that is far away is left to the next tick, since this looks at all runs. */
  #tellNext(): void {
    const now = this.#clock.monotonic()
    if (this.#deadline - now > NEAR_MS) return
    this.#setDeadline(earliestLimit(this.#watched(), now))
  }

  #watched(): ReadonlyArray<ActiveDelivery> {
    return this.#held.values().filter(({ run }) => run?.isWatched)
  }

  stop(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
    this.#setDeadline(Number.POSITIVE_INFINITY)
  }

  #setDeadline(at: number): void {
    if (at === this.#deadline) return
    this.#deadline = at
    this.#onDeadline(at)
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
      if (now >= run.softAt) run.warn()
      if (now >= run.hardAt) {
        active.end("timeout")
        continue
      }
      if (!active.isLong && run.isLong) this.#onLong(active)
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
    if (this.#startsReported > before) this.#onReported()
    this.#reporting = true
    const trying = (task: Promise<unknown>): Promise<void> =>
      task.then(
        () => undefined,
        (cause: unknown) => this.#log.debug("progress could not be reported", { cause: String(cause) }),
      )
    const told = reports.length === 0 ? undefined : trying(this.#jobs.report(reports))
    const stored = settlements.length === 0 ? undefined : trying(this.#jobs.settle(settlements))
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
    if (run.progress !== undefined && run.progress !== last?.progress) this.#onProgress(run, run.progress)
    const record = run.progress === undefined ? run.record : { ...run.record, progress: run.progress }
    return { token: active.delivery.token, record }
  }
}

/** The earliest hard limit that is not over. */
const earliestLimit = (inFlights: ReadonlyArray<ActiveDelivery>, now: number): number =>
  inFlights.reduce(
    (earliest, { run }) => (run !== undefined && run.hardAt > now ? Math.min(earliest, run.hardAt) : earliest),
    Number.POSITIVE_INFINITY,
  )
