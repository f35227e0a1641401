/**
 * Decides why a job waits. Pure: facts in, causes out, in the order in which they hold a job up: decisions of people (a paused
 * queue), then whether workers are there, then whether they serve the actor, then the position in the queue.
 */

import type { AppliedOptions, WorkerDescription } from "../../cluster/directory.ts"
import type { Postponement } from "../../cluster/postponements.ts"
import { shellWord } from "../../log/shell-word.ts"
import { NO_LIMIT_MS, spoken } from "../../options/duration.ts"
import { compact, ifGiven } from "../../protocol/compact.ts"
import { isObject } from "../../protocol/guards.ts"
import type { JobError, JobRecord } from "../../protocol/record.ts"
import { isTerminal, type State } from "../../protocol/state.ts"
import { didYouMean } from "../../protocol/suggest.ts"
import { isExpired } from "../../protocol/time.ts"
import { isSuspended } from "../../protocol/waits.ts"
import { MAX_PARENTS_SHOWN, type WaitCause, type WaitFacts } from "./cause.ts"

/** Never empty. */
export const causesOf = (facts: WaitFacts): ReadonlyArray<WaitCause> => {
  const { record } = facts
  if (isTerminal(record.state)) return [ended(facts, blockedBy(facts, record.id))]
  const running = runningOn(facts)
  if (running !== undefined) return [running]
  if (isExpired(record.expiresAt, facts.now) && record.state !== "started" && !record.reverts) return [overdue(record)]
  const later = deferred(facts) ?? suspended(facts) ?? timed(facts)
  const obstacles = obstaclesOf(facts)
  if (later !== undefined) return [later, ...obstacles]
  const causes = [...withNotes(obstacles, facts), ...turn(facts)]
  return causes.length > 0 ? causes : [nothingKnown(facts)]
}

const iso = (ms: number): string => new Date(ms).toISOString()

/** A moment, with how far it is where that is near. */
const when = (at: number, now: number): string => {
  const seconds = Math.max(0, Math.round((at - now) / 100) / 10)
  return seconds < 600 ? `in ${seconds} s` : `at ${iso(at)}`
}

const names = (workers: ReadonlyArray<{ readonly name: string }>): ReadonlyArray<string> =>
  workers.map(({ name }) => name)

/** A list in words, cut where it would be long. */
const listed = (words: ReadonlyArray<string>, max = 5): string =>
  words.length <= max ? words.join(", ") : `${words.slice(0, max).join(", ")} and ${words.length - max} more`

/** The worker whose thread this job blocks. */
const blockedBy = ({ workers }: WaitFacts, id: string): WorkerDescription | undefined =>
  workers?.find(({ blocked }) => blocked?.job === id)

const secondsSince = (since: string | undefined, now: number): string =>
  `${Math.max(0, Math.round((now - Date.parse(since ?? "")) / 1000))} s`

/** What ends a handler that blocks its worker. */
const ending = (id: string): string => `to restart that worker: callboard cancel ${shellWord(id)} --terminate`

/** The options of the job's method that hold now. */
const optionsOf = ({ actors, actor, method }: WaitFacts): AppliedOptions | undefined =>
  actors?.find(({ name }) => name === actor)?.methods.find(({ name }) => name === method)?.options

/** Who set an option, in words: `actor mail`, `method mail.send`, `variable CALLBOARD_TIME_LIMIT`. */
const setBy = ({ actor, method }: WaitFacts, from: string): string =>
  from === "actor" ? `actor ${actor}` : from === "method" ? `method ${actor}.${method}` : from

const timeLimitOf = (facts: WaitFacts): string => {
  const { hard: own } = facts.record.timeLimit ?? {}
  const held = optionsOf(facts)?.timeLimit
  const by = own === undefined ? held && setBy(facts, held.from) : "the job"
  const seconds = own ?? held?.value.hard
  if (by === undefined || seconds === undefined) return ""
  const ms = seconds === null ? NO_LIMIT_MS : seconds * 1_000
  return `; time limit ${ms >= NO_LIMIT_MS ? "none" : spoken(ms)} (${by})`
}

/** The options by which a job has failed: of failures that the retry policy decides about. */
const decidedBy = (facts: WaitFacts): string => {
  const { state, error } = facts.record
  const held = optionsOf(facts)
  if (state !== "failed" || error === undefined || held === undefined) return ""
  const { onLost } = held
  switch (error.reason) {
    case "timeout":
      return timeLimitOf(facts) + retriesOf(facts, held, error)
    case "worker-lost":
      return onLost.value === "fail"
        ? `; onLost "fail" (${setBy(facts, onLost.from)})${retriesOf(facts, held, error)}`
        : ""
    case "handler":
    case "process-died":
      return retriesOf(facts, held, error)
    default:
      return ""
  }
}

const retriesOf = (facts: WaitFacts, { retry }: AppliedOptions, { name }: JobError): string => {
  const { record } = facts
  const own = maxRetriesOf(record)
  const max = own ?? retry.value.max
  const by = own === undefined ? setBy(facts, retry.from) : "the job"
  if (record.retries < max) return `; the retry policy (${by}) does not retry ${name}`
  // A handler may have requested retries that no policy has.
  if (record.retries > max) return ""
  return max === 0 ? `; no retries (${by})` : `; after ${max === 1 ? "1 retry" : `${max} retries`} (${by})`
}

const ended = (facts: WaitFacts, worker: WorkerDescription | undefined): WaitCause => {
  const { record, now } = facts
  const { id, state, endedAt, error, dead, timeline, terminated } = record
  const reason = dead ?? error?.reason ?? timeline.at(-1)?.reason
  const why = error === undefined ? (reason ?? "") : `${error.name}: ${error.message}`
  const goesOn =
    worker === undefined
      ? ""
      : `; its handler has been blocking ${worker.name} for ${secondsSince(worker.blocked?.since, now)} and cannot be interrupted: ${terminated ? "the process of that worker is about to exit" : ending(id)}`
  const again = state === "succeeded" ? "" : `; to run it again: callboard retry ${shellWord(id)}`
  return {
    code: "ended",
    message: `it is not waiting: it has ${state === "succeeded" || state === "failed" || state === "expired" ? state : `been ${state}`}${why === "" ? "" : ` (${why})`}${decidedBy(facts)}${goesOn}${again}`,
    state,
    ...compact({ workers: worker && [worker.name], since: ifGiven(endedAt, iso), reason }),
  }
}

const runningOn = (facts: WaitFacts): WaitCause | undefined => {
  const { record, workers } = facts
  for (const worker of workers ?? []) {
    const job = worker.jobs?.find(({ id }) => id === record.id)
    if (job !== undefined) return running(facts, worker, Date.parse(job.startedAt), job.attempt, job.step)
  }
  if (record.state !== "started") return undefined
  const { worker, startedAt = record.submittedAt, attempt } = record
  const alive = workers?.find(({ name }) => name === worker)
  // One that was killed is started again under its name.
  const isRestarted =
    alive !== undefined && Date.parse(alive.startedAt) > (record.startedAt ?? Number.POSITIVE_INFINITY)
  if (worker !== undefined && workers !== undefined && (alive === undefined || isRestarted)) {
    return {
      code: "worker-lost",
      message: isRestarted
        ? `worker ${worker}, which ran it, exited and was restarted: a worker takes the job when the lease expires`
        : `worker ${worker}, which ran it, is no longer alive: another worker takes the job when the lease expires`,
      workers: [worker],
      since: iso(startedAt),
      attempt,
    }
  }
  return running(facts, alive ?? (worker === undefined ? undefined : { name: worker }), startedAt, attempt)
}

/** That this job, or another one, blocks the worker on which it runs. */
const blocking = ({ name, blocked }: Pick<WorkerDescription, "name" | "blocked">, id: string, now: number): string => {
  if (blocked === undefined) return ""
  const { since, job } = blocked
  const span = secondsSince(since, now)
  if (job === id)
    return `, and has been blocking ${name} for ${span}: nothing else runs there until the handler yields; ${ending(id)}`
  return `; the handler of ${job === undefined ? "another job" : `job ${job}`} has been blocking ${name} for ${span}, so this job makes no progress`
}

const reverting = ({ reverting }: JobRecord): string =>
  reverting === undefined
    ? ""
    : `; its steps are being reverted because it ${reverting.why === "failed" ? "has failed" : "was cancelled"}`

const running = (
  facts: WaitFacts,
  worker: Pick<WorkerDescription, "name" | "blocked"> | undefined,
  since: number,
  attempt: number,
  step?: string,
): WaitCause => ({
  code: "running",
  message: `it is not waiting: attempt ${attempt} has been running${worker === undefined ? "" : ` on ${worker.name}`} for ${Math.max(0, Math.round((facts.now - since) / 1000))} s${step === undefined ? "" : `, in step ${step}`}${timeLimitOf(facts)}${reverting(facts.record)}${worker === undefined ? "" : blocking(worker, facts.record.id, facts.now)}`,
  since: iso(since),
  attempt,
  ...compact({ workers: worker && [worker.name] }),
})

const overdue = ({ expiresAt = 0 }: JobRecord): WaitCause => ({
  code: "overdue",
  message: `it expired at ${iso(expiresAt)}: it will not start, unless a worker picked it up just before and has not reported yet`,
  since: iso(expiresAt),
})

/** It waits for other jobs. */
const deferred = ({ record, parents = [] }: WaitFacts): WaitCause | undefined => {
  const { id, state, after, chord } = record
  if (state !== "deferred") return undefined
  if (chord?.waiting && after?.waiting === undefined) {
    return {
      code: "waiting-for-jobs",
      message: `waiting for the ${chord.size === 1 ? "member" : `${chord.size} members`} of its group to end; to list them: callboard jobs --root ${shellWord(record.rootId ?? id)}`,
      jobs: chord.size,
    }
  }
  const { waiting = [], allowFailure = false } = after ?? {}
  const shown = parents.length === 0 ? waiting.map((parent) => ({ id: parent })) : parents
  const stuck = parents.find((parent) => isStuck(parent.state, allowFailure))
  const jobs = waiting.length
  const goal = allowFailure ? "end" : "succeed"
  const instead =
    stuck?.state === "cancelled"
      ? `to start ${id} without it: callboard cancel ${shellWord(stuck.id)} --release`
      : `to give up ${id}: callboard cancel ${shellWord(id)}`
  const way =
    stuck === undefined
      ? ""
      : `; ${stuck.id} will not ${goal} unless it runs again: callboard retry ${shellWord(stuck.id)}; or ${instead}`
  return {
    code: "waiting-for-jobs",
    message: `waiting for ${jobs === 1 ? "another job" : `${jobs} other jobs`} to ${goal}: ${listed(shown.map(inWords))}${way}`,
    jobs,
    waiting: shown.slice(0, MAX_PARENTS_SHOWN),
  }
}

/** Its handler waits: for jobs that it has called, for a signal, or for a time. */
const suspended = ({ record, parents = [], now }: WaitFacts): WaitCause | undefined => {
  const { id, waits, dueAt } = record
  if (waits === undefined || !isSuspended(record) || dueAt === undefined || dueAt <= now) return undefined
  const { until, signals = [], jobs = [] } = waits
  const time = when(until, now)
  if (jobs.length > 0) {
    const shown = parents.length === 0 ? jobs.map((job) => ({ id: job })) : parents
    return {
      code: "waiting-for-jobs",
      message: `its handler waits for ${jobs.length === 1 ? "a job" : `${jobs.length} jobs`} that it has called: ${listed(shown.map(inWords))}`,
      jobs: jobs.length,
      waiting: shown.slice(0, MAX_PARENTS_SHOWN),
    }
  }
  const [signal] = signals
  return signal === undefined
    ? { code: "sleeping", message: `its handler sleeps and continues ${time}`, until: iso(until) }
    : {
        code: "waiting-for-signal",
        message: `its handler waits for the signal ${listed(signals)}, and looks again ${time}; to send it: callboard signal ${shellWord(id)} ${shellWord(signal)}`,
        until: iso(until),
      }
}

/** Whether a parent has ended otherwise than is waited for, so that only a person can help. */
const isStuck = (state: State | undefined, allowFailure: boolean): boolean =>
  state === "cancelled" || (!allowFailure && (state === "failed" || state === "expired"))

const inWords = ({ id, state }: { readonly id: string; readonly state?: State }): string =>
  state === undefined ? id : `${id} (${state})`

/** It waits for its time. */
const timed = (facts: WaitFacts): WaitCause | undefined => {
  const { record, now } = facts
  const { state, dueAt, error, attempt, timeline } = record
  if (state !== "scheduled" || dueAt === undefined || dueAt <= now) return undefined
  const until = iso(dueAt)
  if (timeline.at(-1)?.reason !== "retry")
    return { code: "scheduled", message: `not due yet: it is scheduled to start ${when(dueAt, now)} (${until})`, until }
  const own = maxRetriesOf(record)
  const held = optionsOf(facts)?.retry
  // A handler may request retries that no policy has.
  const retries = own ?? (held?.value.max === 0 ? undefined : held?.value.max)
  const attempts = retries === undefined ? undefined : retries + 1
  const by =
    own !== undefined
      ? " (the job)"
      : retries === undefined || held === undefined
        ? ""
        : ` (${setBy(facts, held.from)})`
  const what = error === undefined ? "failed" : `failed with ${error.name}: ${error.message}`
  const of = attempts === undefined ? "" : ` of ${attempts}${by}`
  return {
    code: "retrying",
    message: `attempt ${attempt}${of} ${what}; the next attempt is due ${when(dueAt, now)}`,
    until,
    attempt,
    ...compact({ attempts, reason: error?.reason }),
  }
}

/** The number of retries that the task itself names. That of its method is not in the record. */
const maxRetriesOf = ({ message }: JobRecord): number | undefined => {
  const own = message?.headers["callboard"]
  const retry = isObject(own) && "retry" in own ? own.retry : undefined
  const max = isObject(retry) && "max" in retry ? retry.max : undefined
  return typeof max === "number" ? max : undefined
}

/** What holds up every task of this queue and actor, at any position in the queue. */
const obstaclesOf = (facts: WaitFacts): ReadonlyArray<WaitCause> => {
  const { queue } = facts.record
  const paused: ReadonlyArray<WaitCause> = facts.paused?.includes(queue)
    ? [
        {
          code: "queue-paused",
          message: `queue ${queue} is paused; to resume it: callboard resume ${shellWord(queue)}`,
          queue,
        },
      ]
    : []
  return [...paused, ...missingWorkers(facts)]
}

const missingWorkers = (facts: WaitFacts): ReadonlyArray<WaitCause> => {
  const { record, actor } = facts
  const { queue } = record
  const alive = facts.workers?.filter(({ state }) => state !== "stopping")
  // Nothing is known about workers.
  if (alive === undefined) return []
  const listeners = alive.filter(({ queues }) => queues.includes(queue))
  const start = `start one: callboard worker -Q ${shellWord(queue)}`
  const noWorker = (message: string): WaitCause => ({ code: "no-worker", message, queue })
  if (alive.length === 0) return [noWorker(`no worker is running; ${start}`)]
  const nobodyListens = noWorker(
    `no worker consumes queue ${queue} (consumed queues: ${listed([...new Set(alive.flatMap(({ queues }) => queues))])}); ${start}`,
  )
  const serving = servingOf(facts, alive)
  if (serving.length === 0) return [unknownActor(facts, alive), ...(listeners.length === 0 ? [nobodyListens] : [])]
  if (listeners.length === 0) return [nobodyListens]
  const able = listeners.filter((worker) => serving.includes(worker))
  if (able.length === 0) {
    const elsewhere = listed(serving.map(({ name, queues }) => `${name} (${listed(queues)})`))
    return [
      {
        code: "actor-elsewhere",
        message: `actor ${actor} is served only by ${elsewhere}, which do not consume queue ${queue}; to add the queue to one: callboard control add-consumer ${shellWord(queue)} --workers ${shellWord(serving[0]?.name ?? "")}`,
        queue,
        actor,
        workers: names(serving),
      },
    ]
  }
  return idle(facts, able)
}

/** Workers that serve the job's actor and method. */
const servingOf = ({ actor, method, actors }: WaitFacts, workers: ReadonlyArray<WorkerDescription>) => {
  const known = actors?.find(({ name }) => name === actor)
  const hasMethod = known === undefined || known.methods.some(({ name }) => name === method)
  return hasMethod ? workers.filter((worker) => worker.actors.includes(actor)) : []
}

const unknownActor = ({ actor, method, actors }: WaitFacts, workers: ReadonlyArray<WorkerDescription>): WaitCause => {
  const served = [...new Set(workers.flatMap((worker) => worker.actors))].sort()
  const known = served.includes(actor) ? actors?.find(({ name }) => name === actor) : undefined
  const methods = known?.methods.map(({ name }) => name) ?? []
  const message =
    known === undefined
      ? `no worker serves actor ${actor}${didYouMean(actor, served)}: start one that does (served actors: ${listed(served) || "none"})`
      : `actor ${actor} has no method ${method}${didYouMean(method, methods)}: its methods are ${listed(methods)}`
  return { code: "unknown-actor", message, actor }
}

/** Why none of the workers that could run the job does. Empty while one of them works. */
const idle = ({ suspended, actor, record: { queue }, now }: WaitFacts, able: ReadonlyArray<WorkerDescription>) => {
  const blocked = able.filter((worker) => worker.blocked !== undefined)
  const isSuspended = ({ name, blocked }: WorkerDescription) =>
    blocked === undefined && suspended?.includes(name) === true
  const troubleOf = ({ unhealthy }: WorkerDescription) => unhealthy?.find((each) => each.actor === actor)
  const isStarting = ({ state }: WorkerDescription) => state === "starting"
  const stuck = able.filter((worker) => !isSuspended(worker) && worker.state === "stuck")
  const asleep = able.filter(isSuspended)
  const sick = able.filter(
    (worker) => ![...asleep, ...blocked, ...stuck].includes(worker) && troubleOf(worker) !== undefined,
  )
  const starting = able.filter(
    (worker) => !isSuspended(worker) && troubleOf(worker) === undefined && isStarting(worker),
  )
  if (blocked.length + asleep.length + stuck.length + sick.length + starting.length < able.length) return []
  const causes: Array<WaitCause> = []
  if (blocked.length > 0) causes.push(blockedCause(blocked, queue, now))
  const trouble = sick[0] === undefined ? undefined : troubleOf(sick[0])
  if (asleep.length > 0) {
    const one = asleep.length === 1 ? ` ${shellWord(asleep[0]?.name ?? "")}` : ""
    causes.push({
      code: "workers-suspended",
      message: `${listed(names(asleep))}: suspended; to continue: callboard unsuspend${one}`,
      queue,
      workers: names(asleep),
    })
  }
  if (stuck.length > 0) {
    causes.push({
      code: "workers-stuck",
      message: `${listed(names(stuck))}: stuck, because handlers that kept running after their jobs ended occupy all slots. Make the handlers stop on job.signal. The process of such a worker exits after a while and must be restarted`,
      queue,
      workers: names(stuck),
    })
  }
  if (trouble !== undefined) {
    causes.push({
      code: "actor-unhealthy",
      message: `actor ${actor} is ${trouble.condition} on ${listed(names(sick))}: ${trouble.reason}; its tasks wait until a restart succeeds`,
      actor,
      workers: names(sick),
      reason: trouble.reason,
    })
  }
  if (starting.length > 0) {
    causes.push({
      code: "workers-starting",
      message: `${listed(names(starting))}: not pulling tasks yet, because it is starting or has lost its transport`,
      queue,
      workers: names(starting),
    })
  }
  return causes
}

const blockedCause = (workers: ReadonlyArray<WorkerDescription>, queue: string, now: number): WaitCause => {
  const jobs = workers.flatMap(({ name: worker, blocked, jobs = [] }) =>
    jobs.flatMap(({ id, name, startedAt }) =>
      blocked?.job === undefined || id === blocked.job ? { id, name, worker, since: startedAt } : [],
    ),
  )
  const told = workers.map(({ name, blocked }) => {
    const job = jobs.find(({ id }) => id === blocked?.job)
    return `${name} has been blocked for ${secondsSince(blocked?.since, now)} by ${job === undefined ? "a handler" : `${job.name} (${job.id})`}`
  })
  const [first] = workers.flatMap(({ blocked }) => blocked?.job ?? [])
  return {
    code: "workers-blocked",
    message: `${listed(told)}: the handler does not yield, so nothing else runs there; run it in a separate process (isolation)${first === undefined ? "" : `, or ${ending(first)}`}`,
    queue,
    workers: names(workers),
    running: jobs.slice(0, 100),
  }
}

/** A note whose `until` is this long past does not explain why the job waits now. */
const LATE_MS = 3_000

const notesOf = ({ postponements = [], now }: WaitFacts) =>
  postponements.filter(({ until }) => until + LATE_MS >= now).sort((a, b) => b.until - a.until)

/** Adds the note of the worker that handed the job back: to the cause with the same code, or as a cause of its own. */
const withNotes = (obstacles: ReadonlyArray<WaitCause>, facts: WaitFacts): ReadonlyArray<WaitCause> => {
  const [note] = notesOf(facts)
  if (note === undefined) return obstacles
  const until = iso(note.until)
  if (!obstacles.some(({ code }) => code === note.reason)) return [...obstacles, noteCause(note, facts)]
  return obstacles.map((cause) => (cause.code === note.reason ? { ...cause, until } : cause))
}

const noteCause = (note: NonNullable<WaitFacts["postponements"]>[number], facts: WaitFacts): WaitCause => {
  const { reason, worker, until, detail, waits = false } = note
  const { actor, now, record } = facts
  const method = `${actor}.${facts.method}`
  const again = waits
    ? `worker ${worker} holds it and starts it when the limit allows`
    : `it is delivered again ${when(until, now)}`
  const atLatest = waits ? again : `${again} at the latest`
  const advice: Readonly<Record<Postponement["reason"], string>> = {
    "unknown-actor": `worker ${worker} took it but does not serve it: ${detail}; ${again}. Workers that share a queue must serve the same actors`,
    unsupported: `worker ${worker} took it but does not support its headers: ${detail}; ${again}. Start workers of a version that supports them, or submit the task without them`,
    "actor-unhealthy": `worker ${worker} took it while actor ${actor} was not ready: ${detail}; ${again}`,
    "rate-limit": `${method} is at its rate limit (${detail}): ${again}`,
    "concurrency-limit": `${method} is at its concurrency limit (${detail}): ${atLatest}`,
    "tenant-limit": `waiting for the limit of its tenant (${method}: ${detail}): ${atLatest}`,
    "queue-limit": `queue ${record.queue} is at its limit (${detail}): ${atLatest}`,
    suspect: `${detail}: jobs that may have killed their worker run one at a time on ${worker}; ${again}`,
  }
  return { code: reason, message: advice[reason], actor, workers: [worker], until: iso(until), reason: detail }
}

/** Causes by the position in the queue: the jobs before it, and workers without a free handler. */
const turn = (facts: WaitFacts): ReadonlyArray<WaitCause> => {
  const { record, workers = [], reservedBy = [], position, maxInFlight } = facts
  const { queue } = record
  const able = servingOf(facts, workers).filter(({ queues, state }) => queues.includes(queue) && state !== "stopping")
  const [holder] = reservedBy
  if (holder !== undefined) return [reserved(holder, workers, facts)]
  // A job that was handed back for a while has no position in the queue meanwhile.
  if (notesOf(facts).length > 0) return []
  const causes: Array<WaitCause> = []
  const { ahead = 0, more = false } = position?.inQueue ?? {}
  const limit = maxInFlight !== undefined && runningOf(queue, workers) >= maxInFlight ? maxInFlight : undefined
  if (ahead > 0) causes.push(behind(queue, ahead, more, limit))
  const active = able.filter(({ name }) => facts.suspended?.includes(name) !== true)
  if (active.length > 0 && active.every(isFull)) causes.push(full(queue, active))
  // Workers pull no more of a queue that is at its limit.
  if (limit !== undefined && position?.inQueue !== undefined) causes.push(limited(queue, limit))
  return causes
}

/** By `room`, where the worker reports it: tasks that wait for a limit are in flight but take no room. */
const isFull = ({ inFlight, capacity = Number.POSITIVE_INFINITY, room }: WorkerDescription): boolean =>
  room === undefined ? inFlight >= capacity : room === 0

/** How many handlers run tasks of a queue. */
const runningOf = (queue: string, workers: ReadonlyArray<WorkerDescription>): number =>
  workers.reduce((sum, { byQueue }) => sum + (byQueue?.[queue]?.running ?? 0), 0)

const limited = (queue: string, maxInFlight: number): WaitCause => ({
  code: "queue-limit",
  message: `queue ${queue} is at its limit: ${maxInFlight} of its jobs run at a time across all workers; ${raise(queue)}`,
  queue,
})

const raise = (queue: string): string => `to change that: callboard queue ${shellWord(queue)} --max-in-flight COUNT`

const behind = (queue: string, ahead: number, more: boolean, maxInFlight: number | undefined): WaitCause => {
  const count = `${more ? "at least " : ""}${ahead.toLocaleString("en")}`
  const one = ahead === 1
  const advice =
    maxInFlight === undefined
      ? "to start it sooner, add workers or raise their concurrency (callboard control pool-grow)"
      : `${maxInFlight} of them run at a time across all workers; ${raise(queue)}`
  return {
    code: "behind",
    message: `${count} ${one ? "job is" : "jobs are"} ahead of it in queue ${queue}: ${advice}`,
    queue,
    jobs: ahead,
    ...(more ? { atLeast: true } : {}),
  }
}

const runningIn = (workers: ReadonlyArray<WorkerDescription>) =>
  workers
    .flatMap(({ name: worker, jobs = [] }) =>
      jobs.map(({ id, name, startedAt }) => ({ id, name, worker, since: startedAt })),
    )
    .sort((a, b) => (a.since < b.since ? -1 : 1))
    .slice(0, 100)

const longest = (running: ReturnType<typeof runningIn>, now: number): string => {
  const [oldest] = running
  if (oldest === undefined) return "no job is reported as running"
  const seconds = Math.max(0, Math.round((now - Date.parse(oldest.since)) / 1000))
  return `${oldest.name} for ${seconds} s (${oldest.id})${running.length > 1 ? ` and ${running.length - 1} more` : ""}`
}

const reserved = (holder: string, workers: ReadonlyArray<WorkerDescription>, { now }: WaitFacts): WaitCause => {
  const running = runningIn(workers.filter(({ name }) => name === holder))
  return {
    code: "reserved",
    message: `worker ${holder} holds it until a handler is free; running there: ${longest(running, now)}. To raise its concurrency: callboard control pool-grow 1 --workers ${shellWord(holder)}`,
    workers: [holder],
    running,
  }
}

const full = (queue: string, workers: ReadonlyArray<WorkerDescription>): WaitCause => {
  const held = workers.reduce((sum, { inFlight }) => sum + inFlight, 0)
  return {
    code: "prefetch-full",
    message: `all workers of queue ${queue} (${listed(names(workers))}) are busy with ${held} tasks: start more workers, or raise their concurrency: callboard control pool-grow 1`,
    queue,
    workers: names(workers),
    running: runningIn(workers),
  }
}

/** The cause where nothing that is known holds the job up. */
const nothingKnown = ({ record, workers, position }: WaitFacts): WaitCause => {
  const { queue } = record
  if (workers === undefined) {
    return { code: "unclear", message: "the cause is unknown because the store did not answer; ask again", queue }
  }
  if (position !== undefined && position.inQueue === undefined) {
    return {
      code: "in-hand",
      message:
        "it was just delivered to a worker, or was handed back and is delivered again soon; if that worker has died, another one takes it when the lease expires",
      queue,
    }
  }
  return { code: "next", message: "nothing delays it: it is about to start", queue }
}
