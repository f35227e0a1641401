import { expect, test } from "vitest"
import { localTime } from "../../../../runtime/cli/format.ts"
import { jobFacts } from "../../../../runtime/cli/job-facts.ts"
import { Job } from "../../../../runtime/jobs/responses.ts"
import type { JobView } from "../../../../runtime/jobs/view.ts"

const at = (minute: number): string => new Date(Date.UTC(2026, 0, 1, 8, minute)).toISOString()

const EVERYTHING: { readonly [Field in keyof Required<JobView>]: Exclude<JobView[Field], undefined> } = {
  id: "job-1",
  task: "orders",
  meth: "total",
  name: "orders.total",
  queue: "default",
  priority: 4,
  front: true,
  state: "failed",
  celeryState: "FAILURE",
  run: 2,
  attempts: 3,
  retries: 1,
  progress: { fraction: 0.5, detail: { line: 7 }, at: at(5) },
  times: {
    submitted: at(0),
    due: at(1),
    enqueued: at(2),
    expires: at(59),
    started: at(3),
    ended: at(6),
    modified: at(7),
    keptUntil: at(8),
  },
  durations: { waited: 60, ran: 180, total: 360 },
  repeat: { times: 5, done: 2, left: 3 },
  timeLimit: { hard: null, soft: 30 },
  result: null,
  error: { name: "Bad", message: "no stock", reason: "handler", errors: [{ name: "Worse", message: "none at all" }] },
  fingerprint: "abc",
  dead: "too many losses",
  reverting: "failed",
  reverted: true,
  unreverted: ["pay"],
  waits: { until: at(9), signals: ["approved"], jobs: ["call-1"] },
  signals: [{ name: "hurry", at: at(4) }],
  worker: "one",
  parentId: "parent-1",
  rootId: "root-1",
  group: "night",
  after: { ids: ["a", "b"], allowFailure: true, waiting: ["b"] },
  chord: { size: 2, waiting: true },
  description: "the total of a cart",
  details: { cart: 1 },
  book: { name: "ledger", uuid: "u-1" },
  sender: "shop",
  meta: { tenant: "t" },
  input: { items: ["tea"] },
  headers: { trace: "x" },
  ttl: 60,
  resultTtl: -1,
  failureTtl: 120,
  transitions: [],
}

test("each field of a job has its row, its heading or its part of another row", () => {
  expect(Object.keys(EVERYTHING).sort()).toEqual(Object.keys(Job.fields).sort())
  expect(jobFacts(EVERYTHING, { position: 3 })).toEqual([
    ["queue", "default, priority front"],
    ["before it", "3"],
    ["submitted", localTime(at(0))],
    ["due", localTime(at(1))],
    ["enqueued", localTime(at(2))],
    ["expires", localTime(at(59))],
    ["started", `${localTime(at(3))}, waited 1 min`],
    ["ended", `${localTime(at(6))}, took 3 min`],
    ["modified", localTime(at(7))],
    ["kept until", localTime(at(8))],
    ["time limit", "none, soft 30 s"],
    ["ttl", "1 min"],
    ["result ttl", "indefinitely"],
    ["failure ttl", "2 min"],
    ["attempts", "3, 1 retried, run 2"],
    ["repeat", "2 of 5, 3 left"],
    ["worker", "one"],
    ["sender", "shop"],
    ["parent", "parent-1"],
    ["root", "root-1"],
    ["group", "night"],
    ["after", "a, b (failures allowed)"],
    ["waits for", "b"],
    ["waits until", localTime(at(9))],
    ["waits for signal", "approved"],
    ["waits for job", "call-1"],
    ["signals", "hurry"],
    ["chord", "2 members, not all ended"],
    ["description", "the total of a cart"],
    ["details", '{"cart":1}'],
    ["book", "ledger u-1"],
    ["headers", '{"trace":"x"}'],
    ["input", '{"items":["tea"]}'],
    ["meta", '{"tenant":"t"}'],
    ["progress", '50 % {"line":7}'],
    ["dead", "too many losses"],
    ["error", "Bad: no stock (handler)"],
    ["", "Worse: none at all"],
    ["result", "null"],
  ])
})

test("what is not known has no row", () => {
  const { id, task, meth, name, queue, priority, celeryState, transitions } = EVERYTHING
  const job: JobView = {
    ...{ id, task, meth, name, queue, priority, celeryState, transitions },
    ...{ state: "queued", run: 1, attempts: 0, retries: 0, rootId: id },
    times: { submitted: at(0), enqueued: at(0) },
  }
  expect(jobFacts(job, null)).toEqual([
    ["queue", "default, priority 4"],
    ["submitted", localTime(at(0))],
    ["attempts", "0"],
  ])
})
