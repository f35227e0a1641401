/** Tasks in numbers, over a range and the range before it. Pure. */
import type { RecentAttempts } from "../jobs/commands/plan.ts"
import { refuseCursor } from "../options/refuse.ts"
import { compact } from "../protocol/compact.ts"
import { Bin, type FailureSlot, RETENTION_MS, type SlotCell } from "./entries.ts"
import { percentilesOf, sumOf } from "./histogram.ts"
import type { Slot } from "./reading.ts"
import type { TaskNumbers, TaskStats } from "./schema.ts"
import { binsOf, wholeOf } from "./series.ts"
import { MINUTE_MS } from "./tally.ts"

export const TASK_SORTS = ["failed", "rate", "wait", "run"] as const
const SPARK_POINTS = 30

export interface TasksQuery {
  /** Milliseconds. */
  readonly range: number
  readonly sort?: (typeof TASK_SORTS)[number] | undefined
  readonly limit: number
  /** The task that ended the page before. */
  readonly after?: string | undefined
}

const attempts = (bin: Bin): number => bin.ended + bin.retried

const numbersOf = (bin: Bin, minutes: number): TaskNumbers => {
  const failed = bin.failed + bin.retried
  const [wait, run] = [percentilesOf(bin.waited), percentilesOf(bin.ran)]
  return {
    perMinute: Math.round((attempts(bin) / minutes) * 100) / 100,
    failed,
    failRate: Math.round((failed / Math.max(failed + bin.succeeded, 1)) * 10_000) / 10_000,
    ...compact({ wait, run }),
  }
}

const SORTS: Readonly<Record<(typeof TASK_SORTS)[number], (stats: TaskStats) => number>> = {
  failed: ({ failed }) => failed,
  rate: ({ perMinute }) => perMinute,
  wait: ({ wait }) => wait?.p95 ?? 0,
  run: ({ run }) => run?.p95 ?? 0,
}

/** The tasks of a range that ends now, in milliseconds since the epoch. Fails with `invalid-input` for another `after`. */
export const tasksOf = (
  slots: ReadonlyArray<Slot>,
  { range, sort = "rate", limit, after }: TasksQuery,
  now: number,
): { readonly tasks: ReadonlyArray<TaskStats>; readonly next?: string } => {
  const byTask = ({ task }: SlotCell) => task
  const minutes = range / MINUTE_MS
  const points = binsOf(slots, { from: now - range, step: range / SPARK_POINTS, points: SPARK_POINTS }, {}, byTask)
  const before = binsOf(slots, { from: now - 2 * range, step: range, points: 1 }, {}, byTask)
  const queues = binsOf(slots, { from: now - range, step: range, points: 1 }, {}, ({ task, queue }) =>
    JSON.stringify([task, queue]),
  )
  const main = new Map<string, { readonly queue: string; readonly count: number }>()
  for (const [key, bins] of queues) {
    const [task, queue]: [string, string] = JSON.parse(key)
    const count = attempts(wholeOf(bins))
    if (count > (main.get(task)?.count ?? -1)) main.set(task, { queue, count })
  }
  const whole = new Map([...points].map(([task, bins]): [string, Bin] => [task, wholeOf(bins)]))
  const ran = [...whole.values()].reduce((sum, bin) => sum + sumOf(bin.ran), 0)
  const all = [...whole]
    .filter(([, bin]) => attempts(bin) > 0)
    .map(([task, bin]): TaskStats => {
      const earlier = wholeOf(before.get(task) ?? [])
      return {
        task,
        queue: main.get(task)?.queue ?? "",
        ...numbersOf(bin, minutes),
        share: ran === 0 ? 0 : Math.round((sumOf(bin.ran) / ran) * 1_000) / 1_000,
        ...(attempts(earlier) === 0 || 2 * range > RETENTION_MS ? {} : { before: numbersOf(earlier, minutes) }),
        spark: (points.get(task) ?? []).map(attempts),
      }
    })
    .sort((a, b) => SORTS[sort](b) - SORTS[sort](a) || (a.task < b.task ? -1 : 1))
  const last = after === undefined ? -1 : all.findIndex(({ task }) => task === after)
  if (after !== undefined && last < 0) return refuseCursor("cursor")
  const tasks = all.slice(last + 1, last + 1 + limit)
  const end = tasks.at(-1)
  return { tasks, ...(end !== undefined && last + 1 + limit < all.length ? { next: end.task } : {}) }
}

/** How far back attempts count as recent, in milliseconds, and how many of them are enough. */
export const RECENT_MS = 60 * MINUTE_MS
const ENOUGH = 30

/**
 * The last attempts of some tasks, up to `now`, in milliseconds since the epoch: as few whole minutes as hold enough of
 * them.
 */
export const recentOf = (
  slots: ReadonlyArray<Slot>,
  failures: ReadonlyArray<FailureSlot>,
  tasks: ReadonlyArray<string>,
  now: number,
): ReadonlyMap<string, RecentAttempts> => {
  const points = RECENT_MS / MINUTE_MS
  const from = (Math.floor(now / MINUTE_MS) + 1) * MINUTE_MS - RECENT_MS
  const counted = binsOf(slots, { from, step: MINUTE_MS, points }, {}, ({ task }) => task)
  return new Map(
    tasks.flatMap((task): ReadonlyArray<[string, RecentAttempts]> => {
      const bins = counted.get(task)
      if (bins === undefined) return []
      const all = new Bin()
      let since = now
      for (const [back, bin] of [...bins].reverse().entries()) {
        if (attempts(all) >= ENOUGH) break
        all.add(bin)
        since = from + (points - 1 - back) * MINUTE_MS
      }
      const causes = failures.flatMap((slot) => slot.causes)
      const met = causes.filter(({ tasks: of, last }) => last >= since && of.includes(task))
      return [
        [
          task,
          {
            attempts: attempts(all),
            failed: all.failed + all.retried,
            causes: new Set(met.map(({ fingerprint }) => fingerprint)),
            ...(all.started === 0 ? {} : { ran: sumOf(all.ran) / all.started / 1_000 }),
          },
        ],
      ]
    }),
  )
}
