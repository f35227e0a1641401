/**
 * Finds what is wrong, by rules over what is known of queues, workers and schedules: each finding comes with evidence
 * and, where there is one, the action that helps. Pure. Without a finding everything is healthy.
 */
import type { WorkerDescription } from "../cluster/directory.ts"
import { compact } from "../protocol/compact.ts"
import { type Bin, type DepthSample, sampleOf } from "./entries.ts"
import type { Finding, QueueDetails } from "./schema.ts"

/** The facts from which the rules find what is wrong. Times are milliseconds since the epoch. */
export interface Facts {
  readonly now: number
  readonly queues: ReadonlyArray<QueueDetails>
  /** What waited in the queues in the last {@link BEHIND_MS}, oldest first. */
  readonly samples: ReadonlyArray<DepthSample>
  readonly workers: ReadonlyArray<Pick<WorkerDescription, "name" | "queues" | "startedAt" | "blocked" | "jobs">>
  readonly lost: ReadonlyArray<{ readonly worker: string; readonly host: string; readonly at: number }>
  /** By task, of the last minutes. */
  readonly tasks: ReadonlyMap<string, Bin>
  readonly minutes: number
  /** By task, for each whole minute of at most the last hour, the present one last. */
  readonly perMinute: ReadonlyMap<string, ReadonlyArray<Bin>>
  readonly dead: ReadonlyArray<{ readonly endedAt: number; readonly reason: string }>
  /** There may be more dead letters than these. */
  readonly moreDead: boolean
  /** `due`: when the next one is to be posted, its part of the jitter included. */
  readonly schedules: ReadonlyArray<{ readonly name: string; readonly due: number }>
  /** When a worker last wrote what it had counted; 0 where none ever did. */
  readonly newest: number
}

const MINUTE_MS = 60_000
const NO_WORKER_SECONDS = 15
const BLOCKED_SECONDS = { warn: 10, bad: 60 }
const PAUSED_MS = 10 * MINUTE_MS
const BEHIND_SECONDS = { warn: 5 * 60, bad: 30 * 60 }
export const BEHIND_MS = BEHIND_SECONDS.bad * 1_000 + MINUTE_MS
const DEAD_MS = 60 * MINUTE_MS
const OVERDUE_MS = MINUTE_MS
const FAILING = { min: 5, warn: 0.2, bad: 0.5 }
/** Age from which counts say nothing about the present, in milliseconds: workers write every ten seconds. */
const STALE_MS = MINUTE_MS

/** Most findings, and most of one kind: the first ones of a list that is sorted by weight. */
const MOST = 20
const MAX_OF_A_KIND = 5

/** Findings, the worst first. What is stale gives none. */
export const findingsOf = (facts: Facts): ReadonlyArray<Finding> => {
  if (isStale(facts)) return []
  const found = RULES.flatMap((rule) => rule(facts).slice(0, MAX_OF_A_KIND))
  return [
    ...found.filter(({ severity }) => severity === "bad"),
    ...found.filter(({ severity }) => severity === "warn"),
  ].slice(0, MOST)
}

/** Whether workers live, and have for long enough, but what they write does not arrive. */
const isStale = ({ now, workers, newest }: Pick<Facts, "now" | "workers" | "newest">): boolean =>
  now - newest > STALE_MS && workers.some(({ startedAt }) => now - Date.parse(startedAt) > STALE_MS)

type Rule = (facts: Facts) => ReadonlyArray<Finding>

const iso = (ms: number): string => new Date(ms).toISOString()
const of = (count: number, one: string, many = `${one}s`): string => `${count} ${count === 1 ? one : many}`
const ago = (seconds: number): string =>
  seconds < 90
    ? of(Math.round(seconds), "second")
    : seconds < 5_400
      ? of(Math.round(seconds / 60), "minute")
      : of(Math.round(seconds / 3_600), "hour")
const queueHref = (name: string): string => `/queues/${encodeURIComponent(name)}`

const noWorker: Rule = ({ queues, now }) =>
  queues
    .filter(
      // The tasks of a lost worker come back when their leases expire: until then nobody knows how old they are.
      ({ workers, paused, depth, running, inFlight, oldestAge = NO_WORKER_SECONDS }) =>
        workers === 0 && !paused && depth + running > inFlight && oldestAge >= NO_WORKER_SECONDS,
    )
    .sort((a, b) => b.depth - a.depth)
    .map(({ name, depth, oldest, oldestAge = 0 }) => ({
      code: "no-worker",
      severity: "bad",
      title: `No worker consumes ${name}`,
      detail: `${of(depth, "task waits", "tasks wait")}, the oldest for ${ago(oldestAge)}. Start a worker for this queue, or move the tasks.`,
      since: oldest ?? iso(now),
      evidence: { queue: name, waiting: depth },
      href: queueHref(name),
    }))

const workerLost: Rule = ({ lost, workers }) =>
  lost.map(({ worker, host, at }) => ({
    code: "worker-lost",
    severity: workers.length === 0 ? "bad" : "warn",
    title: `Worker ${worker} was lost`,
    detail: `It was last seen on ${host} and did not shut down gracefully. Another worker takes over its jobs when their leases expire.`,
    since: iso(at),
    evidence: { worker, host, workersLeft: workers.length },
    href: "/workers",
  }))

const workerBlocked: Rule = ({ workers, now }) =>
  workers
    .flatMap(({ name, blocked, jobs }): ReadonlyArray<Finding> => {
      if (blocked === undefined) return []
      const { since, job } = blocked
      const seconds = (now - Date.parse(since)) / 1_000
      if (!(seconds >= BLOCKED_SECONDS.warn)) return []
      const task = jobs?.find(({ id }) => id === job)?.name ?? "A handler"
      const instead =
        job === undefined ? "" : ` Cancel job ${job} with terminate: the process exits and must be restarted.`
      return [
        {
          code: "worker-blocked",
          severity: seconds >= BLOCKED_SECONDS.bad ? "bad" : "warn",
          title: `Worker ${name} is blocked`,
          detail: `${task} has not yielded for ${ago(seconds)}: nothing else runs there.${instead}`,
          since,
          evidence: { worker: name, ...compact({ job }) },
          href: `/workers/${encodeURIComponent(name)}`,
        },
      ]
    })
    .sort((a, b) => (a.since < b.since ? -1 : 1))

const pausedLong: Rule = ({ queues, now }) =>
  queues.flatMap(({ name, paused, pausedSince, pausedBy, depth, scheduled }): ReadonlyArray<Finding> => {
    if (!paused || pausedSince === undefined || depth + scheduled === 0) return []
    const seconds = (now - Date.parse(pausedSince)) / 1_000
    // The comparison is written so that a time that cannot be parsed gives no finding.
    if (!(seconds * 1_000 >= PAUSED_MS)) return []
    const by = pausedBy === undefined ? "" : ` by ${pausedBy}`
    return [
      {
        code: "paused-long",
        severity: "warn",
        title: `${name} is paused`,
        detail: `For ${ago(seconds)}${by}; ${of(depth, "task waits", "tasks wait")}.`,
        since: pausedSince,
        evidence: { queue: name, waiting: depth, scheduled },
        href: queueHref(name),
        action: { label: `Resume ${name}`, method: "POST", href: `/v1${queueHref(name)}/resume` },
      },
    ]
  })

/**
 * For how many seconds something has waited in a queue, at most as long as the queue holds anything. The age of the
 * oldest task alone would count a job that was submitted long ago, and became due, or is tried again, just now.
 */
const waitedSeconds = ({ name, oldestAge = 0 }: QueueDetails, { samples, now }: Facts): number => {
  const empty = samples.findLast((sample) => sampleOf(sample, name)?.[1] === 0)
  return empty === undefined ? oldestAge : Math.min(oldestAge, Math.max(now - empty.at, 0) / 1_000)
}

const fallingBehind: Rule = (facts) =>
  facts.queues
    .map((queue) => ({ ...queue, oldestAge: waitedSeconds(queue, facts) }))
    .filter(
      ({ paused, workers, trend, oldestAge }) =>
        !paused && workers > 0 && trend !== "draining" && oldestAge >= BEHIND_SECONDS.warn,
    )
    .sort((a, b) => b.oldestAge - a.oldestAge)
    .map(({ name, depth, handlers, perMinute, oldestAge }) => ({
      code: "falling-behind",
      severity: oldestAge >= BEHIND_SECONDS.bad ? "bad" : "warn",
      title: `${name} falls behind`,
      detail: `The oldest of ${of(depth, "task")} has waited for ${ago(oldestAge)}${perMinute === undefined ? "" : `; ${perMinute.in}/min arrive and ${perMinute.out}/min are done`}.`,
      since: iso(facts.now - oldestAge * 1_000),
      evidence: { queue: name, waiting: depth, oldestSeconds: Math.round(oldestAge), handlers, ...perMinute },
      href: queueHref(name),
    }))

const deadNew: Rule = ({ dead, moreDead, now }) => {
  const recent = dead.filter(({ endedAt }) => endedAt > now - DEAD_MS && endedAt <= now + MINUTE_MS)
  if (recent.length === 0) return []
  const reasons = new Map<string, number>()
  for (const { reason } of recent) reasons.set(reason, (reasons.get(reason) ?? 0) + 1)
  const [top] = [...reasons].sort((a, b) => b[1] - a[1])
  const count = `${moreDead && recent.length === dead.length ? "over " : ""}${of(recent.length, "job")}`
  return [
    {
      code: "dead-new",
      severity: "warn",
      title: `${count} dead-lettered in the last hour`,
      detail: `Most frequent reason: ${top?.[0] ?? "unknown"}. They are kept and can run again.`,
      since: iso(Math.min(...recent.map(({ endedAt }) => endedAt))),
      evidence: { count: recent.length, ...Object.fromEntries([...reasons].slice(0, 5)) },
      href: "/dead",
    },
  ]
}

const overdue: Rule = ({ schedules, now }) =>
  schedules
    .filter(({ due }) => due < now - OVERDUE_MS)
    .sort((a, b) => a.due - b.due)
    .map(({ name, due }) => ({
      code: "overdue",
      severity: "warn",
      title: `Schedule ${name} did not run`,
      detail: `It was due ${ago((now - due) / 1_000)} ago. Workers run the schedules: check that one is running and can reach the transport.`,
      since: iso(due),
      evidence: { schedule: name },
      href: "/schedules",
    }))

const failuresIn = (bin: Bin) => {
  const failed = bin.failed + bin.retried
  const all = failed + bin.succeeded
  return { failed, all, share: failed / Math.max(all, 1) }
}

/** When the first of the minutes began since which a task fails: minutes without attempts say nothing. */
const failingSince = (task: string, { perMinute, minutes, now }: Facts): number => {
  const bins = perMinute.get(task) ?? []
  const healthy = bins.findLastIndex((bin) => failuresIn(bin).share < FAILING.warn && failuresIn(bin).all > 0)
  const first = bins.findIndex((bin, at) => at > healthy && failuresIn(bin).failed > 0)
  return first < 0 ? now - minutes * MINUTE_MS : Math.floor(now / MINUTE_MS - (bins.length - 1 - first)) * MINUTE_MS
}

const failing: Rule = (facts) =>
  [...facts.tasks]
    .map(([task, bin]) => ({ task, ...failuresIn(bin) }))
    .filter(({ failed, share }) => failed >= FAILING.min && share >= FAILING.warn)
    .sort((a, b) => b.failed - a.failed)
    .map(({ task, failed, all, share }) => ({
      code: "failing",
      severity: share >= FAILING.bad ? "bad" : "warn",
      title: `${task} fails`,
      detail: `${failed} of ${of(all, "attempt")} in the last ${facts.minutes === 1 ? "minute" : `${facts.minutes} minutes`}, ${Math.round(share * 100)} %.`,
      since: iso(failingSince(task, facts)),
      evidence: { task, failed, attempts: all },
      href: `/errors?task=${encodeURIComponent(task)}`,
    }))

const RULES: ReadonlyArray<Rule> = [
  noWorker,
  failing,
  fallingBehind,
  workerBlocked,
  workerLost,
  deadNew,
  pausedLong,
  overdue,
]

/** The findings in one sentence. */
export const verdictOf = (
  facts: Pick<Facts, "now" | "workers" | "newest">,
  findings: ReadonlyArray<Finding>,
): string => {
  const [worst, ...others] = findings
  if (worst === undefined)
    return isStale(facts)
      ? "Unknown: workers are running, but their reports are over a minute old."
      : "Everything is fine."
  return others.length === 0
    ? `${worst.title}. Everything else is fine.`
    : `${worst.title}, and ${of(others.length, "more problem")}.`
}
