/** What `/metrics` says of a worker equals what happened to its tasks, on every transport. */
import { type ActorDefinition, actor, Ignore, type Service } from "callboard"
import { describe, expect, test } from "vitest"
import * as z from "zod"
import { onEveryBoard } from "../../../scenarios/boards.ts"
import { eventually } from "../../../support/servers/process.ts"
import { start } from "../../../support/services.ts"
import { Exposition } from "./exposition.ts"

const HTTP = { http: { port: 0 } } as const
const WAIT = { timeout: 60 } as const

/** What the service's own `/metrics` says. */
const scrape = async ({ url }: Service): Promise<Exposition> => {
  const response = await fetch(`${url}/metrics`)
  expect({ status: response.status, type: response.headers.get("content-type") }).toEqual({
    status: 200,
    type: "text/plain; version=0.0.4; charset=utf-8",
  })
  return new Exposition(await response.text())
}

/** An actor that ends in many ways, and the jobs whose `hold` has begun. */
const mixed = (): { readonly mix: ActorDefinition; readonly held: ReadonlySet<string> } => {
  const held = new Set<string>()
  const mix = actor("mix", {
    methods: {
      works: () => "done",
      fails: () => {
        throw new TypeError("no")
      },
      flaky: {
        retry: { max: 1, interval: [0] },
        run: (_input: unknown, job) => {
          if (job.retries === 0) throw new Error("not yet")
          return job.attempt
        },
      },
      ignores: () => {
        throw new Ignore("never mind")
      },
      strict: { input: z.object({ n: z.number() }), run: ({ n }) => n },
      hold: async (_input: unknown, job) => {
        held.add(job.id)
        await new Promise((resolve) => job.signal.addEventListener("abort", resolve))
      },
    },
  })
  return { mix, held }
}

onEveryBoard((newBoard, transport) => {
  test("outcomes, run and wait times, hand-backs and redeliveries are those that happened", async () => {
    const { mix } = mixed()
    const service = await start([mix], { transport: newBoard(), unknownGrace: 0.3, ...HTTP })
    const { client } = service
    const each = (count: number, task: string, fields: object = {}) =>
      Array.from({ length: count }, () => ({ task, input: {}, ...fields }))
    const submitted = await client.submitMany(
      [
        ...each(5, "mix.works"),
        ...each(1, "mix.works", { repeat: { times: 2, interval: 0 } }),
        ...each(3, "mix.fails"),
        ...each(2, "mix.flaky"),
        ...each(2, "mix.ignores"),
        ...each(4, "mix.strict"),
        ...each(1, "mix.nowhere"),
        ...each(1, "elsewhere.works"),
      ],
      { lenient: true },
    )
    for (const receipt of submitted) {
      if (receipt instanceof Error) throw receipt
      await client.job(receipt.id).outcome(WAIT)
    }
    const after = await eventually(async () => {
      const now = await scrape(service)
      expect(now.of("callboard_jobs_total")).toEqual({
        "mix.works succeeded": 6,
        "mix.works repeated": 2,
        "mix.fails failed": 3,
        "mix.flaky retried": 2,
        "mix.flaky succeeded": 2,
        "mix.ignores succeeded": 2,
        "mix.strict failed": 4,
        "(unknown) failed": 2,
      })
      return now
    })
    const started = { "mix.works": 8, "mix.fails": 3, "mix.flaky": 4, "mix.ignores": 2 }
    expect(after.of("callboard_job_run_seconds_count")).toEqual(started)
    expect(after.of("callboard_job_wait_seconds_count")).toEqual(started)
    // Nothing took long, and no attempt's wait includes the one before it.
    for (const name of ["callboard_job_run_seconds_sum", "callboard_job_wait_seconds_sum"])
      for (const seconds of Object.values(after.of(name))) expect(seconds).toBeLessThan(30)
    // Tasks that no worker serves were given back at least once each, and what was given back came again.
    const handedBack = after.value("callboard_handed_back_total")
    expect(handedBack).toBeGreaterThanOrEqual(2)
    const redeliveries = after.value("callboard_redeliveries_total")
    // On nats the transport itself gives back what arrives beyond what the worker can hold, and that comes again, too.
    if (transport === "nats") expect(redeliveries).toBeGreaterThanOrEqual(handedBack ?? 0)
    else expect(redeliveries).toBe(handedBack)
    expect(after.value("callboard_superseded_total")).toBe(0)
    expect(after.value("callboard_unsettled_total")).toBe(0)
    await eventually(async () => expect((await scrape(service)).value("callboard_worker_in_flight")).toBe(0))
  })

  test("what runs and waits now, a cancellation, and the hand-back of a stop", async () => {
    const { mix, held } = mixed()
    const service = await start([mix], { transport: newBoard(), concurrency: 2, prefetch: 1, ...HTTP })
    const { client } = service
    const jobs = await Promise.all([1, 2, 3].map(() => client.submit("mix.hold")))
    await client.submit("mix.hold", { delay: "1 hour" })
    await eventually(() => expect(held.size).toBe(2))
    const busy = await eventually(async () => {
      const now = await scrape(service)
      expect(now.value("callboard_queue_depth", { queue: "default" })).toBe(1)
      return now
    })
    expect(busy.of("callboard_worker_running")).toEqual({ "": 2 })
    expect(busy.of("callboard_worker_in_flight")).toEqual({ "": 2 })
    expect(busy.of("callboard_worker_concurrency")).toEqual({ "": 2 })
    expect(busy.of("callboard_queue_in_flight")).toEqual({ default: 2 })
    expect(busy.of("callboard_queue_scheduled")).toEqual({ default: 1 })
    const age = busy.value("callboard_queue_oldest_age_seconds", { queue: "default" })
    expect(age).toBeGreaterThan(0)
    expect(age).toBeLessThan(30)
    expect(busy.of("callboard_transport_connected")).toEqual({ "": 1 })

    // The one that waits is first, and is taken off the queue without a worker.
    for (const job of jobs.sort((a, b) => Number(held.has(a.id)) - Number(held.has(b.id)))) await job.cancel()
    const after = await eventually(async () => {
      const now = await scrape(service)
      expect(now.of("callboard_jobs_total")).toEqual({ "mix.hold cancelled": 2 })
      return now
    })
    expect(after.of("callboard_job_run_seconds_count")).toEqual({ "mix.hold": 2 })

    const last = await client.submit("mix.hold")
    await eventually(() => expect(held.has(last.id)).toBe(true))
    await service.stop({ now: true })
    // Stopped, a process still knows what it did.
    const stopped = new Exposition((await service.metrics?.text()) ?? "")
    expect(stopped.of("callboard_handed_back_total")).toEqual({ "": 1 })
    expect(stopped.of("callboard_queue_depth")).toEqual({})
  })
})

test("10,000 hostile names make no label", async () => {
  const { mix } = mixed()
  const service = await start([mix], { unknownGrace: 0, ...HTTP })
  const before = await scrape(service)
  const hostile = [
    '"',
    "\n",
    "\\",
    '"} 1\ncallboard_jobs_total{task="x',
    "mix.works\n",
    "mix.",
    "constructor",
    "__proto__",
  ]
  const names = [...hostile, ...Array.from({ length: 10_000 }, (_, at) => `no-${at}.such-${at}`)]
  const tasks = names.map((task) => ({ task, shadow: `${task}-shadow` }))
  for (let from = 0; from < tasks.length; from += 1_000)
    for (const receipt of await service.client.submitMany(tasks.slice(from, from + 1_000), { lenient: true }))
      if (receipt instanceof Error) throw receipt
  const after = await eventually(
    async () => {
      const now = await scrape(service)
      expect(now.of("callboard_jobs_total")).toEqual({ "(unknown) failed": names.length })
      return now
    },
    { deadline: 60_000 },
  )
  const seriesOf = ({ all }: Exposition) => all.filter(({ name }) => !name.startsWith("callboard_queue")).length
  expect(seriesOf(after)).toBe(seriesOf(before))
})

test("a shadow is no label, an alias is the method that it stands for", async () => {
  const { mix } = mixed()
  const service = await start([mix], { taskNames: { "app.add": "mix.works", "app.check": "mix.strict" }, ...HTTP })
  const aliased = await service.client.submit("app.add", { shadow: "for people" })
  const checked = await service.client.submit("app.check")
  await Promise.all([aliased.outcome(WAIT), checked.outcome(WAIT)])
  await eventually(async () =>
    expect((await scrape(service)).of("callboard_jobs_total")).toEqual({
      "mix.works succeeded": 1,
      "mix.strict failed": 1,
    }),
  )
})

test("a success that cannot be stored is the failure that was stored in its place", async () => {
  const large = actor("large", { methods: { result: () => "x".repeat(20 * 1024 * 1024) } })
  const service = await start([large], HTTP)
  const job = await service.client.submit("large.result")
  expect(await job.outcome(WAIT)).toMatchObject({ state: "failed", error: { name: "ResultTooLarge" } })
  await eventually(async () =>
    expect((await scrape(service)).of("callboard_jobs_total")).toEqual({ "large.result failed": 1 }),
  )
})

test("without HTTP nothing is counted, unless it is asked for", async () => {
  const { mix } = mixed()
  expect((await start([mix])).metrics).toBeUndefined()
  const service = await start([mix], { metrics: true })
  await (await service.client.submit("mix.works")).outcome(WAIT)
  await eventually(async () =>
    expect(new Exposition((await service.metrics?.text()) ?? "").of("callboard_jobs_total")).toEqual({
      "mix.works succeeded": 1,
    }),
  )
})

describe("two services of one process", () => {
  test("count for themselves", async () => {
    const [one, two] = await Promise.all([start([mixed().mix], HTTP), start([mixed().mix], HTTP)])
    const job = await one.client.submit("mix.works")
    await job.outcome(WAIT)
    await eventually(async () =>
      expect((await scrape(one)).of("callboard_jobs_total")).toEqual({ "mix.works succeeded": 1 }),
    )
    expect((await scrape(two)).of("callboard_jobs_total")).toEqual({})
  })
})
