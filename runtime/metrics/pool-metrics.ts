/**
 * The metrics of the processes of a pool, summed. Counters and histograms of a process that has ended stay in the sum, so that
 * the sum never falls, which Prometheus would take for a restart. Gauges of an ended process are dropped.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { AggregatorRegistry, Counter, Gauge, Registry } from "prom-client"
import type { MetricsText } from "./metrics.ts"

const FamilySchema = Schema.Struct({
  name: Schema.String,
  help: Schema.String,
  type: Schema.Literals(["counter", "gauge", "histogram"]),
  aggregator: Schema.Literals(["sum", "min", "max"]),
  values: Schema.Array(
    Schema.Struct({
      value: Schema.Finite,
      labels: Schema.Record(Schema.String, Schema.Union([Schema.String, Schema.Finite])),
      /** Of a histogram: which of its series. */
      metricName: Schema.optional(Schema.String),
    }),
  ),
})

/** The metrics of one process, as prom-client's `getMetricsAsJSON` gives them. */
type Families = ReadonlyArray<typeof FamilySchema.Type>

const FamiliesSchema = Schema.Array(FamilySchema)
const decodeText = Schema.decodeUnknownResult(Schema.fromJsonString(FamiliesSchema))
const decode = Schema.decodeUnknownSync(FamiliesSchema)

/** How many processes there are of a pool. */
export interface PoolCount {
  readonly alive: number
  readonly ready: number
}

/** A place in the pool: the metrics of its current process and of those before. */
interface PoolMember {
  /** The last report of the current process, which stands also while that process is too busy to answer. */
  live: Families
  /** The sum of the processes that have ended. */
  past: Families
}

export class PoolMetrics implements MetricsText {
  readonly #members: ReadonlyArray<PoolMember>
  readonly #own = new Registry()
  readonly #restarts: Counter
  readonly #refresh: () => Promise<void>

  /**
   * `count`: number of members. `ask` is called at each scrape: it passes the reports of the processes to {@link report}, and
   * resolves with how many processes are alive and ready.
   */
  constructor(count: number, ask: () => Promise<PoolCount>) {
    this.#members = Array.from({ length: count }, () => ({ live: [], past: [] }))
    const registers = [this.#own]
    const alive = new Gauge({ name: "callboard_pool_processes", help: "Running worker processes", registers })
    const ready = new Gauge({ name: "callboard_pool_ready", help: "Worker processes that consume", registers })
    this.#restarts = new Counter({
      name: "callboard_pool_restarts_total",
      help: "Number of times that a worker process was killed and restarted",
      registers,
    })
    this.#refresh = async () => {
      const count = await ask()
      alive.set(count.alive)
      ready.set(count.ready)
    }
  }

  /** Takes a report of the process of a member, counted from 0. A report that cannot be parsed is ignored. */
  report(at: number, text: string): void {
    const decoded = decodeText(text)
    const member = this.#members[at]
    if (Result.isSuccess(decoded) && member !== undefined) member.live = decoded.success
  }

  /** The process of a member has ended. */
  end(at: number): void {
    const member = this.#members[at]
    if (member === undefined) return
    member.past = total({ ...member, live: member.live.filter(({ type }) => type !== "gauge") })
    member.live = []
  }

  restarted(): void {
    this.#restarts.inc()
  }

  async text(): Promise<string> {
    await this.#refresh()
    const own = await this.#own.getMetricsAsJSON()
    // Summed in a fixed order: in another order the last digit of a sum of fractions might fall.
    return AggregatorRegistry.aggregate([...this.#members.map(total), own]).metrics()
  }
}

const total = ({ past, live }: PoolMember): Families =>
  decode(AggregatorRegistry.aggregate([past, live]).getMetricsAsArray())
