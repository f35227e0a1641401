/** The metrics of a worker: counters rise with each event, everything else is read at the scrape. */
import { Counter, Gauge, Histogram, type Registry } from "prom-client"
import type { JobRecord } from "../protocol/record.ts"
import type { JobDelivery, Settlement } from "../transport/job-store/transport.ts"
import type { ActiveDelivery, HandlerRun, StepChange } from "../worker/active-delivery.ts"
import type { WorkerLoad } from "../worker/control/worker.ts"
import {
  OUTCOMES,
  type OutcomeName,
  outcomeNameOf,
  type TaskNames,
  type WorkerObserver,
} from "../worker/telemetry/observer.ts"

/** Upper bounds of buckets, in seconds: from the wait in an empty queue to the default hard limit of a handler. */
const BUCKETS = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1_800]

/** Label of tasks that this worker does not serve: a name that a submitter chose must not become a label. */
const UNKNOWN = "(unknown)"

/** The counters of one task, looked up once. */
interface TaskMetrics {
  readonly outcomes: ReadonlyMap<OutcomeName, Counter.Internal>
  readonly runTime: Histogram.Internal<"task">
  readonly waitTime: Histogram.Internal<"task">
}

export class WorkerMetrics implements WorkerObserver {
  readonly #names: TaskNames
  readonly #tasks = new Map<string | undefined, TaskMetrics>()
  readonly #steps: Counter<"task" | "outcome">
  readonly #stepTime: Histogram<"task">
  readonly #redeliveries: Counter
  readonly #handedBack: Counter
  readonly #superseded: Counter
  readonly #unsettled: Counter

  /** `load` is asked at each scrape. */
  constructor(registry: Registry, names: TaskNames, load: () => WorkerLoad | undefined) {
    this.#names = names
    const registers = [registry]
    const labelNames = ["task"] as const
    const counter = (name: string, help: string) => new Counter({ name, help, registers })
    const jobs = new Counter({
      name: "callboard_jobs_total",
      help: "Tasks that this worker settled, by outcome; retried, repeated, suspended and forwarded tasks continue",
      labelNames: ["task", "outcome"],
      registers,
    })
    const runTime = new Histogram({
      name: "callboard_job_run_seconds",
      help: "Time from the start of an attempt to its outcome",
      labelNames,
      buckets: BUCKETS,
      registers,
    })
    const waitTime = new Histogram({
      name: "callboard_job_wait_seconds",
      help: "Time that a due task had waited when its attempt started",
      labelNames,
      buckets: BUCKETS,
      registers,
    })
    // Most tasks have no durable steps, so these have no labels from the start.
    this.#steps = new Counter({
      name: "callboard_steps_total",
      help: "Durable steps that ended here, by outcome",
      labelNames: ["task", "outcome"],
      registers,
    })
    this.#stepTime = new Histogram({
      name: "callboard_step_run_seconds",
      help: "Duration of a durable step, or its revert, including retries",
      labelNames,
      buckets: BUCKETS,
      registers,
    })
    for (const name of [...names.all, undefined]) {
      const task = name ?? UNKNOWN
      const outcomeOf = (outcome: OutcomeName): Counter.Internal => {
        const made = jobs.labels({ task, outcome })
        // Present from the start with 0, so that Prometheus can compute a rate of the first increment.
        made.inc(0)
        return made
      }
      this.#tasks.set(name, {
        outcomes: new Map(OUTCOMES.map((outcome) => [outcome, outcomeOf(outcome)])),
        runTime: runTime.labels({ task }),
        waitTime: waitTime.labels({ task }),
      })
    }
    this.#redeliveries = counter(
      "callboard_redeliveries_total",
      "Deliveries of tasks that had been delivered before: handed back by a worker or the transport, or lost with their worker",
    )
    this.#handedBack = counter("callboard_handed_back_total", "Tasks handed back, uncounted, to run later or elsewhere")
    this.#superseded = counter(
      "callboard_superseded_total",
      "Outcomes that were refused because another delivery or a cancellation had taken over the job",
    )
    this.#unsettled = counter(
      "callboard_unsettled_total",
      "Deliveries whose end could not be stored; they are delivered again",
    )
    const gauge = (name: string, help: string, valueOf: (load: WorkerLoad) => number) =>
      new Gauge({
        name: `callboard_worker_${name}`,
        help,
        registers,
        collect() {
          const now = load()
          if (now !== undefined) this.set(valueOf(now))
        },
      })
    gauge("in_flight", "Tasks held by this worker, including waiting ones", ({ inFlight }) => inFlight)
    gauge("running", "Running handlers of this worker", ({ running }) => running)
    gauge("concurrency", "Maximum number of concurrent handlers of this worker", ({ concurrency }) => concurrency)
  }

  received(deliveries: ReadonlyArray<JobDelivery>): void {
    for (const delivery of deliveries) if (delivery.deliveries > 1) this.#redeliveries.inc()
  }

  started(held: ActiveDelivery, run: HandlerRun): void {
    const waited = waitedMs(run.record)
    if (waited !== undefined) this.#of(held)?.waitTime.observe(waited / 1000)
  }

  step(held: ActiveDelivery, change: StepChange): void {
    if (!("took" in change)) return
    const task = this.#names.of(held, undefined) ?? UNKNOWN
    this.#steps.inc({ task, outcome: change.state })
    this.#stepTime.observe({ task }, change.took / 1_000)
  }

  settled(held: ActiveDelivery, settlement: Settlement): void {
    const outcome = outcomeNameOf(held, settlement)
    if (outcome === undefined) return
    const { run } = held
    const { record } = settlement
    const task = this.#of(held, record)
    task?.outcomes.get(outcome)?.inc()
    if (run === undefined) return
    const endedAt = record?.timeline.at(-1)?.at ?? Date.now()
    task?.runTime.observe(Math.max(0, endedAt - run.startedAt) / 1000)
  }

  handedBack(): void {
    this.#handedBack.inc()
  }

  refused(): void {
    this.#superseded.inc()
  }

  unsettled(): void {
    this.#unsettled.inc()
  }

  #of(held: ActiveDelivery, record?: JobRecord): TaskMetrics | undefined {
    return this.#tasks.get(this.#names.of(held, record))
  }
}

/**
 * How long a task had waited, from its due time to its start. Unknown after a worker died with the task, because the time at
 * which it began to wait again is not recorded.
 */
const waitedMs = ({ timeline, startedAt }: JobRecord): number | undefined => {
  const before = timeline.at(-2)
  if (startedAt === undefined || (before?.state !== "queued" && before?.state !== "scheduled")) return undefined
  // Clocks of several machines differ, so the difference may be negative: then it counts as 0.
  return Math.max(0, startedAt - Math.max(before.at, before.due ?? 0))
}
