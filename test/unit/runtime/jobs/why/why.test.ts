/** The order of causes when several hold, and causes that no test can bring about with a real board. Pure: facts in, causes out. */
import type { WorkerDescription } from "callboard"
import { describe, expect, test } from "vitest"
import type { AppliedOptions } from "../../../../../runtime/cluster/directory.ts"
import type { WaitFacts } from "../../../../../runtime/jobs/why/cause.ts"
import { causesOf } from "../../../../../runtime/jobs/why/causes.ts"
import type { JobRecord } from "../../../../../runtime/protocol/record.ts"

const NOW = Date.parse("2026-01-01T12:00:00Z")

const record: JobRecord = {
  id: "job",
  task: "mail.send",
  meth: null,
  name: "mail.send",
  queue: "post",
  priority: 4,
  state: "queued",
  run: 1,
  attempt: 0,
  retries: 0,
  fence: "",
  submittedAt: NOW - 60_000,
  timeline: [{ n: 1, run: 1, at: NOW - 60_000, state: "queued" }],
}

const worker = (change: Partial<WorkerDescription> = {}): WorkerDescription => ({
  name: "w1",
  pid: 1,
  host: "here",
  version: "0",
  queues: ["post"],
  actors: ["mail"],
  concurrency: 1,
  state: "idle",
  running: [],
  inFlight: 0,
  capacity: 4,
  room: 4,
  processed: 0,
  failed: 0,
  startedAt: new Date(NOW).toISOString(),
  heartbeatAt: new Date(NOW).toISOString(),
  ...change,
})

const facts = (change: Partial<WaitFacts> = {}): WaitFacts => ({
  now: NOW,
  record,
  actor: "mail",
  method: "send",
  paused: [],
  suspended: [],
  workers: [worker()],
  actors: [{ name: "mail", queue: "post", methods: [{ name: "send" }] }],
  position: { inQueue: { ahead: 0 } },
  ...change,
})

test("ids in commands are words of a shell, whatever they hold", () => {
  const id = "x; rm -rf ~"
  const [ended] = causesOf(facts({ record: { ...record, id, state: "failed" } }))
  expect(ended?.message).toMatch(/callboard retry 'x; rm -rf ~'$/)
})

const since = new Date(NOW - 9_000).toISOString()
const spin = { name: "spin.spin", queue: "post", attempt: 1, startedAt: new Date(NOW - 10_000).toISOString() }
const blocked: Partial<WorkerDescription> = {
  state: "blocked",
  blocked: { since, job: "spins" },
  running: ["spins", "job"],
  jobs: [
    { id: "spins", ...spin },
    { id: "other", ...spin },
  ],
}
const { room: _room, capacity: _capacity, ...old } = worker({ inFlight: 4 })
const full = { inFlight: 4, room: 0 }
const sick = { unhealthy: [{ actor: "mail", condition: "unhealthy", reason: "away" }] }
const busy = (running: number, queue = "post") => worker({ byQueue: { [queue]: { running, acked: 0, postponed: 0 } } })
const note = (
  reason: "unknown-actor" | "actor-unhealthy" | "rate-limit" | "tenant-limit" | "queue-limit",
  until = NOW + 2_000,
) => ({
  id: "job",
  worker: "w1",
  reason,
  until,
  detail: "so it is",
})
const scheduled: JobRecord = { ...record, state: "scheduled", dueAt: NOW + 5_000 }

const table: ReadonlyArray<readonly [string, Partial<WaitFacts>, ReadonlyArray<string>]> = [
  ["nothing", {}, ["next"]],
  [
    "paused, nobody listens, others before it",
    { paused: ["post"], workers: [worker({ queues: ["x"] })], position: { inQueue: { ahead: 2 } } },
    ["queue-paused", "no-worker", "behind"],
  ],
  ["another queue is paused", { paused: ["other"] }, ["next"]],
  ["nobody is alive: who serves it is no question", { workers: [] }, ["no-worker"]],
  ["the only worker stops", { workers: [worker({ state: "stopping" })] }, ["no-worker"]],
  ["suspended and full", { suspended: ["w1"], workers: [worker(full)] }, ["workers-suspended"]],
  ["one of two is suspended", { suspended: ["w1"], workers: [worker(), worker({ name: "w2" })] }, ["next"]],
  [
    "one is suspended, the other is full",
    { suspended: ["w1"], workers: [worker(), worker({ name: "w2", ...full })] },
    ["prefetch-full"],
  ],
  [
    "one is suspended, the other's actor is down, the third starts",
    {
      suspended: ["w1"],
      workers: [worker(sick), worker({ name: "w2", ...sick }), worker({ name: "w3", state: "starting" })],
    },
    ["workers-suspended", "actor-unhealthy", "workers-starting"],
  ],
  [
    "one is stuck, the other starts",
    { workers: [worker({ state: "stuck" }), worker({ name: "w2", state: "starting" })] },
    ["workers-stuck", "workers-starting"],
  ],
  [
    "one is blocked, the other is stuck",
    { workers: [worker(blocked), worker({ name: "w2", state: "stuck" })] },
    ["workers-blocked", "workers-stuck"],
  ],
  ["one is blocked, by whom is not known", { workers: [worker({ blocked: { since } })] }, ["workers-blocked"]],
  ["one that is blocked is suspended, too", { suspended: ["w1"], workers: [worker(blocked)] }, ["workers-blocked"]],
  ["one of two is blocked", { workers: [worker(blocked), worker({ name: "w2" })] }, ["next"]],
  ["one of two is stuck", { workers: [worker({ state: "stuck" }), worker({ name: "w2" })] }, ["next"]],
  [
    "one who does not serve it has room, and is not meant",
    { workers: [worker(full), worker({ name: "w2", actors: ["x"] })] },
    ["prefetch-full"],
  ],
  ["one of two is full", { workers: [worker(full), worker({ name: "w2" })] }, ["next"]],
  ["some room, and not enough to pull", { workers: [worker({ inFlight: 3, room: 0 })] }, ["prefetch-full"]],
  ["a worker of an older version does not tell its room", { workers: [old] }, ["next"]],
  [
    "reserved in one that is full",
    { workers: [worker(full)], reservedBy: ["w1"], position: { inQueue: undefined } },
    ["reserved"],
  ],
  [
    "before it in a full worker",
    { workers: [worker(full)], position: { inQueue: { ahead: 7 } } },
    ["behind", "prefetch-full"],
  ],
  ["a rate", { postponements: [note("rate-limit")], position: { inQueue: { ahead: 7 } } }, ["rate-limit"]],
  ["a tenant's limit", { postponements: [note("tenant-limit")], workers: [worker(full)] }, ["tenant-limit"]],
  ["its queue's limit, in a worker", { maxInFlight: 2, postponements: [note("queue-limit")] }, ["queue-limit"]],
  ["its queue is at its limit", { maxInFlight: 3, workers: [busy(1), busy(2)] }, ["queue-limit"]],
  [
    "its queue is at its limit, others before it",
    { maxInFlight: 2, workers: [busy(2)], position: { inQueue: { ahead: 7 } } },
    ["behind", "queue-limit"],
  ],
  ["its queue has a limit, and more may run", { maxInFlight: 3, workers: [busy(2)] }, ["next"]],
  ["its queue has a limit, and another is busy", { maxInFlight: 3, workers: [busy(9, "other")] }, ["next"]],
  ["its queue has no limit", { workers: [busy(9)], position: { inQueue: { ahead: 7 } } }, ["behind"]],
  ["a note that is over", { postponements: [note("rate-limit", NOW - 60_000)] }, ["next"]],
  ["unknown to one who shares the queue", { postponements: [note("unknown-actor")] }, ["unknown-actor"]],
  ["not in the line, in nobody's hands", { position: { inQueue: undefined } }, ["in-hand"]],
  ["scheduled in a paused queue", { record: scheduled, paused: ["post"] }, ["scheduled", "queue-paused"]],
  ["it sleeps", { record: { ...scheduled, waits: { until: NOW + 5_000 } } }, ["sleeping"]],
  [
    "it waits for a signal in a paused queue",
    { record: { ...scheduled, waits: { until: NOW + 5_000, signals: ["go"] } }, paused: ["post"] },
    ["waiting-for-signal", "queue-paused"],
  ],
  [
    "it waits for a job that it has called",
    { record: { ...scheduled, waits: { until: NOW + 5_000, signals: ["go"], jobs: ["call-1"] } } },
    ["waiting-for-jobs"],
  ],
  ["it has slept", { record: { ...scheduled, dueAt: NOW - 1, waits: { until: NOW - 1 } } }, ["next"]],
  ["scheduled, others before it now", { record: scheduled, position: { inQueue: { ahead: 3 } } }, ["scheduled"]],
  ["its time to start is over", { record: { ...record, expiresAt: NOW }, paused: ["post"] }, ["overdue"]],
  ["its time to start is not over yet", { record: { ...record, expiresAt: NOW + 1 } }, ["next"]],
  ["scheduled, and due by now", { record: { ...scheduled, dueAt: NOW - 1 } }, ["next"]],
  [
    "it runs, although its record does not say so yet",
    {
      paused: ["post"],
      workers: [
        worker({
          jobs: [{ id: "job", name: "mail.send", queue: "post", attempt: 2, startedAt: new Date(NOW).toISOString() }],
        }),
      ],
    },
    ["running"],
  ],
  [
    "it runs on a worker that is alive",
    { record: { ...record, state: "started", worker: "w1", startedAt: NOW } },
    ["running"],
  ],
  [
    "it ran on a worker that was started again since",
    {
      record: { ...record, state: "started", worker: "w1", startedAt: NOW - 2_000 },
      workers: [worker({ startedAt: new Date(NOW - 1_000).toISOString() })],
    },
    ["worker-lost"],
  ],
  ["it ran on a worker that is not", { record: { ...record, state: "started", worker: "w9" } }, ["worker-lost"]],
  ["it ended, whatever else", { record: { ...record, state: "failed" }, paused: ["post"], workers: [] }, ["ended"]],
]

test.each(table)("%s", (_, change, codes) => {
  const causes = causesOf(facts(change))
  expect(causes.map(({ code }) => code)).toEqual(codes)
  for (const { message } of causes) expect(message).not.toMatch(/undefined|NaN/)
})

test("nobody could be asked", () => {
  const known = { now: NOW, record, actor: "mail", method: "send" }
  expect(causesOf(known).map(({ code }) => code)).toEqual(["unclear"])
  expect(causesOf({ ...known, paused: ["post"] }).map(({ code }) => code)).toEqual(["queue-paused"])
})

describe("what is told", () => {
  const only = (change: Partial<WaitFacts>) => causesOf(facts(change))[0]

  test("which job blocks a worker, to those behind it, beside it, and of itself, also when it was cancelled", () => {
    const workers = [worker({ ...blocked, startedAt: new Date(NOW - 60_000).toISOString() })]
    const end = "callboard cancel spins --terminate"
    expect(only({ workers })).toMatchObject({
      message: expect.stringMatching(
        /w1 has been blocked for 9 s by spin.spin \(spins\).*callboard cancel spins --terminate/,
      ),
      running: [{ id: "spins", name: "spin.spin", worker: "w1" }],
    })
    const started: JobRecord = { ...record, state: "started", worker: "w1", startedAt: NOW - 10_000 }
    expect(only({ workers, record: started })?.message).toMatch(/of job spins has been blocking w1 for 9 s/)
    const own: JobRecord = { ...started, id: "spins" }
    expect(only({ workers, record: own })?.message).toMatch(/has been blocking w1 for 9 s/)
    expect(only({ workers, record: own })?.message).toContain(end)
    const cancelled: JobRecord = { ...own, state: "cancelled" }
    expect(only({ workers, record: cancelled })).toMatchObject({
      workers: ["w1"],
      message: expect.stringContaining(end),
    })
    const terminated: JobRecord = { ...cancelled, terminated: true }
    expect(only({ workers, record: terminated })?.message).toMatch(/has been blocking w1.*about to exit/)
  })

  test("how far away a due time is", () => {
    expect(only({ record: scheduled })?.message).toMatch(/start in 5 s/)
    expect(only({ record: { ...scheduled, dueAt: NOW + 86_400_000 } })?.message).toMatch(/start at 2026-01-02T12:00/)
  })

  describe("the option that decided, and who set it", () => {
    const options = (change: Partial<AppliedOptions>): AppliedOptions => ({
      timeLimit: { value: { hard: 1_800 }, from: "default" },
      retry: { value: { max: 0 }, from: "default" },
      resultTtl: { value: 60, from: "default" },
      failureTtl: { value: 60, from: "default" },
      onLost: { value: "redeliver", from: "default" },
      ...change,
    })
    const served = (change: Partial<AppliedOptions> = {}) => ({
      actors: [{ name: "mail", queue: "post", methods: [{ name: "send", options: options(change) }] }],
    })
    const error = { name: "E", message: "no", reason: "handler" }
    const timeline: JobRecord["timeline"] = [{ n: 1, run: 1, at: NOW, state: "scheduled", reason: "retry" }]
    const retrying: JobRecord = { ...scheduled, attempt: 2, retries: 1, error, timeline }
    const asking = (retry: object): JobRecord => {
      const headers = { task: "mail.send", id: "job", callboard: { retry } }
      return {
        ...retrying,
        message: {
          headers,
          properties: { content_type: "application/json", content_encoding: "utf-8" },
          body: new Uint8Array(),
        },
      }
    }

    test("the number of attempts, which the task's own policy wins", () => {
      expect(only({ record: retrying })).toMatchObject({ code: "retrying", attempt: 2, reason: "handler" })
      expect(only({ record: retrying })).not.toHaveProperty("attempts")
      const held = served({ retry: { value: { max: 9 }, from: "actor" } })
      expect(only({ record: retrying, ...held })).toMatchObject({
        attempts: 10,
        message: "attempt 2 of 10 (actor mail) failed with E: no; the next attempt is due in 5 s",
      })
      expect(only({ record: asking({ max: 4 }), ...held })).toMatchObject({
        attempts: 5,
        message: expect.stringContaining("attempt 2 of 5 (the job) failed"),
      })
      // The handler requested a retry that no policy has.
      expect(only({ record: retrying, ...served() })).not.toHaveProperty("attempts")
    })

    test("the time limit of an attempt that runs", () => {
      const started: JobRecord = { ...record, state: "started", attempt: 1, worker: "w1", startedAt: NOW - 3_000 }
      const workers = [worker({ startedAt: new Date(NOW - 60_000).toISOString() })]
      const told = (change: Partial<AppliedOptions>, own?: { readonly hard?: number; readonly soft?: number }) =>
        only({ workers, record: own === undefined ? started : { ...started, timeLimit: own }, ...served(change) })
          ?.message
      const ran = "it is not waiting: attempt 1 has been running on w1 for 3 s"
      expect(only({ workers, record: started })?.message).toBe(ran)
      expect(told({})).toBe(`${ran}; time limit 30 minutes (default)`)
      expect(told({ timeLimit: { value: { hard: 30, soft: 20 }, from: "actor" } })).toBe(
        `${ran}; time limit 30 seconds (actor mail)`,
      )
      expect(told({ timeLimit: { value: { hard: null }, from: "method" } })).toBe(
        `${ran}; time limit none (method mail.send)`,
      )
      expect(told({ timeLimit: { value: { hard: 30 }, from: "flag --time-limit" } }, { hard: 5 })).toBe(
        `${ran}; time limit 5 seconds (the job)`,
      )
      expect(told({}, { soft: 5 })).toBe(`${ran}; time limit 30 minutes (default)`)
    })

    test.each<readonly [failed: object, held: Partial<AppliedOptions>, why: string]>([
      [{ error }, {}, "; no retries (default)"],
      [{ error }, { retry: { value: { max: 0 }, from: "method" } }, "; no retries (method mail.send)"],
      [{ error, retries: 1 }, { retry: { value: { max: 1 }, from: "service" } }, "; after 1 retry (service)"],
      [
        { error, retries: 3 },
        { retry: { value: { max: 3 }, from: "callboard.config.ts" } },
        "; after 3 retries (callboard.config.ts)",
      ],
      [
        { error },
        { retry: { value: { max: 3, on: ["Busy"] }, from: "actor" } },
        "; the retry policy (actor mail) does not retry E",
      ],
      // The handler requested them.
      [{ error, retries: 3 }, {}, ""],
      [
        { error: { ...error, reason: "timeout" } },
        { timeLimit: { value: { hard: 90 }, from: "variable CALLBOARD_TIME_LIMIT" } },
        "; time limit 90 seconds (variable CALLBOARD_TIME_LIMIT); no retries (default)",
      ],
      [
        { error: { ...error, reason: "worker-lost" } },
        { onLost: { value: "fail", from: "service" } },
        '; onLost "fail" (service); no retries (default)',
      ],
      [{ error: { ...error, reason: "worker-lost" } }, {}, ""],
      [{ error: { ...error, reason: "rejected" } }, {}, ""],
    ])("of a job that failed: %j, with %j", (failed, held, why) => {
      const change = { record: { ...record, state: "failed", attempt: 1, ...failed } as JobRecord, ...served(held) }
      expect(only(change)?.message).toBe(
        `it is not waiting: it has failed (E: no)${why}; to run it again: callboard retry job`,
      )
    })
  })

  test("how to change the limit of a queue", () => {
    const of = (change: Partial<WaitFacts>) => causesOf(facts({ maxInFlight: 2, workers: [busy(2)], ...change }))
    const remedy =
      "2 of its jobs run at a time across all workers; to change that: callboard queue post --max-in-flight COUNT"
    expect(of({})[0]).toMatchObject({ queue: "post", message: `queue post is at its limit: ${remedy}` })
    expect(of({ position: { inQueue: { ahead: 7 } } })[0]?.message).toBe(
      `7 jobs are ahead of it in queue post: ${remedy.replace("its jobs", "them")}`,
    )
    expect(of({ workers: [busy(1)], position: { inQueue: { ahead: 7 } } })[0]?.message).toContain("add workers")
  })

  test("more than are counted", () => {
    const cause = only({ position: { inQueue: { ahead: 1_000, more: true } } })
    expect(cause).toMatchObject({ code: "behind", jobs: 1_000, atLeast: true })
    expect(cause?.message).toMatch(/^at least 1,000 jobs are ahead of it/)
    expect(only({ position: { inQueue: { ahead: 1 } } })?.message).toMatch(/^1 job is ahead of it/)
  })
})
