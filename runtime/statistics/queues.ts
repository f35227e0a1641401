/** One queue in numbers: the same names in code, over HTTP and on the command line. Pure: counts and clock come from outside. */
import type { WorkerDescription } from "../cluster/directory.ts"
import type { QueueDepth } from "../transport/optional.ts"
import type { Bin, DepthSample } from "./kept.ts"
import { MINUTE_MS } from "./tally.ts"

export interface QueueStats {
  readonly name: string
  /** Whether the queue is paused: it takes tasks and gives none out. */
  readonly paused: boolean
  /** Since when, as ISO 8601, and the name of the token that paused it, where it had one. */
  readonly pausedSince?: string
  readonly pausedBy?: string
  /** Tasks that are due and wait. */
  readonly depth: number
  /** Tasks that are not due yet. */
  readonly scheduled: number
  /** Tasks that workers have taken and not settled. */
  readonly inFlight: number
  /**
   * When the oldest waiting task was submitted: ISO 8601, in UTC. Absent where none waits, or the transport cannot
   * tell.
   */
  readonly oldest?: string
  /** How long the oldest waiting task has waited, in seconds. Absent like `oldest`. */
  readonly oldestAge?: number
  /** Tasks that came and went, a minute, over the last five. Absent where no worker has told of it. */
  readonly perMinute?: { readonly in: number; readonly out: number }
  /** What becomes of it, in a word. Absent where that is not known yet. */
  readonly trend?: "empty" | "steady" | "growing" | "draining"
  /** When nothing will wait any more, if it goes on so: ISO 8601. */
  readonly emptyAt?: string
  /** Handlers and workers that take from it. */
  readonly handlers: number
  readonly workers: number
}

/** What is known of the queues besides what waits in them now. */
export interface QueueFacts {
  readonly listed: ReadonlyArray<string>
  readonly paused: ReadonlyMap<string, { readonly at: string; readonly by?: string }>
  readonly workers: ReadonlyArray<Pick<WorkerDescription, "queues" | "concurrency">>
  /** What was counted by queue in the last minutes, and in how many. */
  readonly counted: ReadonlyMap<string, Bin>
  readonly minutes: number
  /** Depths of the last minutes, oldest first. */
  readonly samples: ReadonlyArray<DepthSample>
  /** Milliseconds since the epoch. */
  readonly now: number
}

/** Over how many minutes rates are told. */
export const RATE_MINUTES = 5
/** A change of the depth by less than this part is none. */
const STEADY = 0.05
const LEAST_CHANGE = 5

const isEmpty = ({ ready, scheduled, held }: QueueDepth): boolean => ready + scheduled + held === 0

/** The queues that hold something, and those that are listed. */
export const queueStats = (counts: ReadonlyArray<QueueDepth>, facts: QueueFacts): ReadonlyArray<QueueStats> => {
  const byName = new Map(facts.listed.map((queue): [string, QueueDepth] => [queue, { queue, ...NOTHING }]))
  for (const each of counts) if (!isEmpty(each)) byName.set(each.queue, each)
  return [...byName.values()].map((depth) => statsOf(depth, facts))
}

const statsOf = (depth: QueueDepth, facts: QueueFacts): QueueStats => {
  const { queue: name, ready, scheduled, held, oldest } = depth
  const { paused, workers, now } = facts
  const pause = paused.get(name)
  const serving = workers.filter(({ queues }) => queues.includes(name))
  return {
    name,
    paused: pause !== undefined,
    ...(pause === undefined
      ? {}
      : { pausedSince: pause.at, ...(pause.by === undefined ? {} : { pausedBy: pause.by }) }),
    depth: ready,
    scheduled,
    inFlight: held,
    ...(oldest === undefined
      ? {}
      : { oldest: new Date(oldest).toISOString(), oldestAge: Math.max(now - oldest, 0) / 1000 }),
    ...flowOf(depth, facts),
    handlers: serving.reduce((sum, { concurrency }) => sum + concurrency, 0),
    workers: serving.length,
  }
}

const rounded = (value: number): number => Math.round(value * 10) / 10

const flowOf = (
  { queue, ready, scheduled, held }: QueueDepth,
  { counted, minutes, samples, now }: QueueFacts,
): Pick<QueueStats, "perMinute" | "trend" | "emptyAt"> => {
  const [sample] = samples
  if (minutes <= 0 || sample === undefined) return {}
  const bin = counted.get(queue)
  const out = bin === undefined ? 0 : (bin.ended + bin.retried) / minutes
  const [, wasReady = 0, wasScheduled = 0, wasHeld = 0] = sample.queues.find(([name]) => name === queue) ?? []
  const passed = Math.max((now - sample.at) / MINUTE_MS, 0.5)
  const change = ready + scheduled + held - (wasReady + wasScheduled + wasHeld)
  const perMinute = { in: rounded(Math.max(0, out + change / passed)), out: rounded(out) }
  const readyChange = ready - wasReady
  const isSteady = Math.abs(readyChange) < Math.max(LEAST_CHANGE, STEADY * Math.max(ready, wasReady))
  const trend = ready === 0 ? "empty" : isSteady ? "steady" : readyChange > 0 ? "growing" : "draining"
  const left = trend === "draining" ? (ready / -readyChange) * passed * MINUTE_MS : undefined
  return {
    perMinute,
    trend,
    ...(left === undefined ? {} : { emptyAt: new Date(Math.ceil((now + left) / 1_000) * 1_000).toISOString() }),
  }
}

const NOTHING = { ready: 0, scheduled: 0, held: 0 }
