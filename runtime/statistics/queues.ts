/** How a queue does: the workers that serve it, how much comes and goes. Pure: counts and clock come from outside. */
import type { WorkerDescription } from "../cluster/directory.ts"
import { compact } from "../protocol/compact.ts"
import { type Bin, type DepthSample, sampleOf } from "./entries.ts"
import type { QueueDetails, QueueStats } from "./schema.ts"
import { MINUTE_MS } from "./tally.ts"

/** When the queue was paused or limited, and the name of the token that did it. */
interface Change {
  readonly at: string
  readonly by?: string
}

/** What is known of the queues besides what waits in them now. */
export interface QueueFacts {
  readonly paused: ReadonlyMap<string, Change>
  readonly limits: ReadonlyMap<string, Change>
  readonly workers: ReadonlyArray<Pick<WorkerDescription, "queues" | "concurrency">>
  /** Counts of the last minutes by queue, and how many minutes these are. */
  readonly counted: ReadonlyMap<string, Bin>
  readonly minutes: number
  /** Depths of the last minutes, oldest first. */
  readonly samples: ReadonlyArray<DepthSample>
  /** Milliseconds since the epoch. */
  readonly now: number
}

/** Over how many minutes rates are averaged. */
export const RATE_MINUTES = 5
/** A depth that changes by less than this part is steady. */
const STEADY = 0.05
const MIN_CHANGE = 5

export const queueDetails = (queue: QueueStats, facts: QueueFacts): QueueDetails => {
  const { paused, limits, workers } = facts
  const pause = paused.get(queue.name)
  const limit = limits.get(queue.name)
  const serving = workers.filter(({ queues }) => queues.includes(queue.name))
  return {
    ...queue,
    ...(pause === undefined ? {} : { pausedSince: pause.at, ...compact({ pausedBy: pause.by }) }),
    ...(limit === undefined ? {} : { limitedSince: limit.at, ...compact({ limitedBy: limit.by }) }),
    ...flowOf(queue, facts),
    handlers: serving.reduce((sum, { concurrency }) => sum + concurrency, 0),
    workers: serving.length,
  }
}

const rounded = (value: number): number => Math.round(value * 10) / 10

const flowOf = (
  { name, depth, scheduled, running }: QueueStats,
  { counted, minutes, samples, now }: QueueFacts,
): Pick<QueueDetails, "perMinute" | "trend" | "emptyAt"> => {
  const [sample] = samples
  const was = sample === undefined ? undefined : sampleOf(sample, name)
  if (minutes <= 0 || sample === undefined || was === undefined) return {}
  const bin = counted.get(name)
  const out = bin === undefined ? 0 : (bin.ended + bin.retried) / minutes
  const [, wasQueued, wasScheduled, wasStarted] = was
  const passed = Math.max((now - sample.at) / MINUTE_MS, 0.5)
  const change = depth + scheduled + running - (wasQueued + wasScheduled + wasStarted)
  const perMinute = { in: rounded(Math.max(0, out + change / passed)), out: rounded(out) }
  const grown = depth - wasQueued
  const isSteady = Math.abs(grown) < Math.max(MIN_CHANGE, STEADY * Math.max(depth, wasQueued))
  const trend = depth === 0 ? "empty" : isSteady ? "steady" : grown > 0 ? "growing" : "draining"
  const left = trend === "draining" ? (depth / -grown) * passed * MINUTE_MS : undefined
  return {
    perMinute,
    trend,
    ...(left === undefined ? {} : { emptyAt: new Date(Math.ceil((now + left) / 1_000) * 1_000).toISOString() }),
  }
}
