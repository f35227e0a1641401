/**
 * The metrics of several processes as one. Counters and histograms of a process that has ended stay in the sum, so that
 * it never falls: Prometheus would take that for a restart. Its gauges end with it.
 */
import { Result, Schema } from "effect"
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

/** What one process has counted, as prom-client tells it. */
type Families = ReadonlyArray<typeof FamilySchema.Type>

const FamiliesSchema = Schema.Array(FamilySchema)
const decodeText = Schema.decodeUnknownResult(Schema.fromJsonString(FamiliesSchema))
const decode = Schema.decodeUnknownSync(FamiliesSchema)

/** How many processes there are of a pool. */
export interface PoolCount {
  readonly alive: number
  readonly ready: number
}

/** What the processes of one member have counted, one after the other. */
interface PoolMember {
  /** What the one that is there said last: when it is too busy to answer, it has done that much at least. */
  live: Families
  /** The sum of those that have ended. */
  past: Families
}

export class PoolMetrics implements MetricsText {
  readonly #members: ReadonlyArray<PoolMember>
  readonly #own = new Registry()
  readonly #restarts: Counter
  readonly #refresh: () => Promise<void>

  /**
   * `count`: how many members. `ask` is called at each scrape, and lets the processes {@link tell}; resolves with how
   * many there are.
   */
  constructor(count: number, ask: () => Promise<PoolCount>) {
    this.#members = Array.from({ length: count }, () => ({ live: [], past: [] }))
    const registers = [this.#own]
    const alive = new Gauge({ name: "callboard_pool_processes", help: "Worker processes that are alive", registers })
    const ready = new Gauge({ name: "callboard_pool_ready", help: "Worker processes that consume", registers })
    this.#restarts = new Counter({
      name: "callboard_pool_restarts_total",
      help: "Times that a worker process was killed and started again",
      registers,
    })
    this.#refresh = async () => {
      const count = await ask()
      alive.set(count.alive)
      ready.set(count.ready)
    }
  }

  /** The process of a member, counted from 0, has said what it counted; what cannot be read was not said. */
  tell(at: number, text: string): void {
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
    // By member first, in their order: added up in another, sums of fractions might fall in their last digit.
    return AggregatorRegistry.aggregate([...this.#members.map(total), own]).metrics()
  }
}

const total = ({ past, live }: PoolMember): Families =>
  decode(AggregatorRegistry.aggregate([past, live]).getMetricsAsArray())
