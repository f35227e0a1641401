/** Acceptance scenarios of queues as a registry: what waits in them, which there are, and how many jobs; on every transport. */
import { actor, CallboardError, type Client, connect, type Job } from "callboard"
import { describe, expect, test } from "vitest"
import { eventually } from "../support/servers/process.ts"
import { start } from "../support/services.ts"
import { onEveryBoard } from "./boards.ts"

const namesOf = async (client: Client): Promise<ReadonlyArray<string>> =>
  (await client.queues()).map(({ name }) => name).sort()

/** Brokers may count a task a moment after it is stored. */
const settles = <T>(read: () => Promise<T>, expected: T): Promise<unknown> =>
  eventually(async () => JSON.stringify(await read()) === JSON.stringify(expected), {
    message: `${JSON.stringify(expected)} is told`,
  })

const work = actor("work", {
  methods: {
    fine: () => "done",
    fails: async () => {
      throw new Error("no")
    },
  },
})

onEveryBoard((newBoard, transport) => {
  test("S109 queue inspection: position, slice, count, remove, empty", async () => {
    await using client = await connect(newBoard())
    for (const id of ["p0", "p1", "p2"]) await client.submit("work.fine", { id, queue: "q" })
    expect(await client.position("p2")).toEqual({ position: 2 })
    expect(await client.position("unknown")).toBeNull()
    expect(await client.waiting("q", { offset: 1, limit: 1 })).toEqual(["p1"])
    await settles(() => client.count({ queue: "q", states: ["queued"] }), { count: 3 })
    await client.job("p1").cancel()
    expect(await client.position("p1")).toBeNull()
    expect(await client.waiting("q")).toEqual(["p0", "p2"])
    expect(await client.purge("q", { forget: true })).toBe(2)
    expect(await client.waiting("q")).toEqual([])
    for (const id of ["p0", "p2"]) await expect(client.job(id).find()).rejects.toMatchObject({ code: "gone" })
  })

  test("S185 a scheduled job is not in its queue before its time: it has no place in it, and is not listed", async () => {
    await using client = await connect(newBoard())
    const only = await client.submit("work.fine", { id: "only", queue: "later", delay: 60 })
    expect(await client.waiting("later")).toEqual([])
    expect(await client.position(only.id)).toBeNull()
    for (const id of ["l0", "l1", "l2"]) await client.submit("work.fine", { id, queue: "q", delay: 60 })
    const ready = ["p0", "p1", "p2", "p3", "p4"]
    for (const id of ready) await client.submit("work.fine", { id, queue: "q" })
    for (const limit of [3, 5, 7, 9]) expect(await client.waiting("q", { limit })).toEqual(ready.slice(0, limit))
    expect(await client.waiting("q", { offset: 4, limit: 3 })).toEqual(["p4"])
    expect(await client.waiting("q", { offset: 6 })).toEqual([])
    expect(await client.position("p4")).toEqual({ position: 4 })
    await client.submit("work.fine", { id: "soon", queue: "q", delay: 0.2 })
    await settles(() => client.waiting("q"), [...ready, "soon"])
    expect(await client.position("soon")).toEqual({ position: 5 })
  })

  test("a list of what waits refuses what is no range and no queue", async () => {
    await using client = await connect(newBoard())
    for (const [range, field] of [
      [{ offset: -1 }, "offset"],
      [{ limit: 0 }, "limit"],
      [{ limit: 1.5 }, "limit"],
    ] as const)
      await expect(client.waiting("q", range)).rejects.toMatchObject({ code: "invalid-input", details: { field } })
    await expect(client.waiting("a\nb")).rejects.toMatchObject({ code: "invalid-input", details: { field: "queue" } })
    await expect(client.deleteQueue("a\nb")).rejects.toMatchObject({ code: "invalid-input" })
    await expect(client.deleteQueue("nowhere")).rejects.toMatchObject({ code: "not-found" })
  })

  test("S118 all queues: listed from the first use, also while empty, until deleted", async () => {
    const board = newBoard()
    await using client = await connect(board)
    expect(await namesOf(client)).toEqual([])
    await client.submit("work.fine", { id: "parent", queue: "at-once" })
    await client.submit("work.fine", { queue: "later", delay: "1 hour" })
    await client.submit("work.fine", { queue: "deferred", after: "parent" })
    await settles(() => namesOf(client), ["at-once", "deferred", "later"])
    await client.purge("at-once")
    await client.purge("later")
    await using other = await connect(board)
    await settles(() => namesOf(other), ["at-once", "deferred", "later"])
    await client.pause("later")
    expect(await client.deleteQueue("later")).toBe(0)
    await settles(() => namesOf(other), ["at-once", "deferred"])
    expect(await client.paused()).toEqual([])
    await client.submit("work.fine", { queue: "later" })
    await settles(() => namesOf(other), ["at-once", "deferred", "later"])
    expect(await other.deleteQueue("later")).toBe(1)
    await settles(() => namesOf(client), ["at-once", "deferred"])
  })

  test("a queue to which only a follow-up went is listed", async () => {
    const url = newBoard()
    await using client = await connect(url)
    await client.submit("work.fine", { callbacks: [{ task: "work.fine", queue: "after-it" }] })
    const service = await start([work], { transport: url, burst: true, queues: ["default"] })
    await service.stopped
    await settles(() => client.purge("after-it"), 1)
    await settles(async () => (await namesOf(client)).includes("after-it"), true)
  })

  test("counts by state and queue, and by other filters", async () => {
    const url = newBoard()
    await using client = await connect(url)
    const queues = ["a", "b"]
    for (const queue of queues) {
      await client.submitMany(["fine", "fails", "fails"].map((meth) => ({ task: "work", meth, queue, group: "g" })))
    }
    const service = await start([work], { transport: url, burst: true, queues })
    await service.stopped
    await client.submit("work.fine", { id: "first", queue: "a" })
    await client.submit("work.fine", { queue: "a", after: "first" })
    await client.submit("work.fine", { queue: "b", delay: "1 hour" })
    const { id } = await client.submit("work.fine", { queue: "a" })
    await client.job(id).cancel()
    const counts: ReadonlyArray<readonly [Parameters<Client["count"]>[0], number]> = [
      [{ states: ["failed"] }, 4],
      [{ states: ["failed"], queue: "a" }, 2],
      [{ states: ["succeeded"], queue: "b" }, 1],
      [{ states: ["deferred"] }, 1],
      [{ states: ["deferred"], queue: "b" }, 0],
      [{ states: ["scheduled"] }, 1],
      [{ states: ["queued"], queue: "a" }, 1],
      [{ states: ["cancelled", "failed"], queue: "a" }, 3],
      [{ states: ["cancelled"], queue: "b" }, 0],
      [{ task: "work.fails" }, 4],
      [{ group: "g" }, 6],
      [{ group: "g", states: ["succeeded"] }, 2],
      [{ queue: "nowhere" }, 0],
      [{}, 10],
    ]
    for (const [query, count] of counts)
      await settles(async () => ({ query, ...(await client.count(query)) }), { query, count })
    expect((await client.jobs({ queue: "a", states: ["failed"] })).jobs).toHaveLength(2)
    expect((await client.jobs({ queue: "b", states: ["failed", "cancelled"], limit: 1 })).jobs).toHaveLength(1)
  })

  test("jobs that are not kept are not counted", async () => {
    const url = newBoard()
    await using client = await connect(url)
    const none = { resultTtl: 0, failureTtl: 0 }
    for (const meth of ["fine", "fails"]) await client.submit("work", { meth, ...none })
    await (await client.submit("work.fine", none)).cancel()
    const { id } = await client.submit("work.fails")
    await (await start([work], { transport: url, burst: true })).stopped
    const { jobs } = await client.jobs()
    expect(jobs.map((job) => job.id)).toEqual([id])
    for (const [state, count] of [
      ["succeeded", 0],
      ["cancelled", 0],
      ["failed", 1],
    ] as const)
      expect(await client.count({ states: [state] }), state).toEqual({ count })
  })

  test("more jobs than are read to count them: more than 1,000", async () => {
    await using client = await connect(newBoard())
    const many = (queue: string) => client.submitMany(Array.from({ length: 501 }, () => ({ task: "work.fine", queue })))
    await Promise.all([many("a"), many("b")])
    await settles(() => client.count({ states: ["queued"] }), { count: 1_002 })
    expect(await client.count({ task: "work.fine" })).toEqual({ count: 1_000, more: true })
    expect(await client.count({ task: "work.fine", queue: "a" })).toEqual({ count: 501 })
  })

  test("a batch that is atomic: all tasks or none", async () => {
    await using client = await connect(newBoard())
    const batch = (...ids: ReadonlyArray<string>) => ids.map((id) => ({ task: "work.fine", id }))
    const together = (...ids: ReadonlyArray<string>) => client.submitMany(batch(...ids), { atomic: true })
    const refused = (code: string) => expect.objectContaining({ code })
    if (transport === "nats") {
      await expect(together("a", "b")).rejects.toEqual(refused("unsupported"))
      expect((await client.jobs()).jobs).toEqual([])
      return
    }
    expect(await together("a", "b")).toMatchObject([
      { id: "a", state: "queued" },
      { id: "b", state: "queued" },
    ])
    // Submitted again, as after an answer that was lost, with one task more.
    expect(await together("b", "c")).toMatchObject([{ id: "b", duplicate: true }, { id: "c" }])
    const big = { task: "work.fine", id: "big", input: { text: "x".repeat(5 * 1024 * 1024) } }
    await expect(client.submitMany([...batch("d"), big], { atomic: true })).rejects.toEqual(refused("too-large"))
    const another = { task: "work.fails", id: "a" }
    await expect(client.submitMany([...batch("d"), another], { atomic: true })).rejects.toEqual(refused("job-exists"))
    const waits = { task: "work.fine", after: "a" }
    await expect(client.submitMany([...batch("d"), waits], { atomic: true })).rejects.toEqual(refused("unsupported"))
    await expect(client.submitMany(Array(1_001).fill({ task: "work.fine" }), { atomic: true })).rejects.toEqual(
      refused("invalid-input"),
    )
    expect((await client.jobs()).jobs.map(({ id }) => id)).toEqual(["c", "b", "a"])
  })

  test("of two atomic batches with the same id exactly one is told that its task was stored", async () => {
    const url = newBoard()
    await using one = await connect(url)
    await using two = await connect(url)
    if (transport === "nats") return
    for (let round = 0; round < 5; round++) {
      const batch = (own: string) => ["shared", own].map((name) => ({ task: "work.fine", id: `${name}-${round}` }))
      const answers = await Promise.all([
        one.submitMany(batch("one"), { atomic: true }),
        two.submitMany(batch("two"), { atomic: true }),
      ])
      expect(answers.map(([, own]) => own)).toMatchObject([{ state: "queued" }, { state: "queued" }])
      const told = answers.map(([shared]) => shared instanceof CallboardError || shared?.duplicate === true)
      expect(told.toSorted()).toEqual([false, true])
    }
    const other = (task: string, id: string) => [
      { task, id: "other" },
      { task, id },
    ]
    const raced = await Promise.allSettled([
      one.submitMany(other("work.fine", "fine"), { atomic: true }),
      two.submitMany(other("work.fails", "fails"), { atomic: true }),
    ])
    expect(raced.map(({ status }) => status).toSorted()).toEqual(["fulfilled", "rejected"])
    const [refused] = raced.flatMap((each) => (each.status === "rejected" ? [each.reason] : []))
    expect(refused).toMatchObject({ code: "job-exists" })
    const left = (await one.jobs({ states: ["queued"] })).jobs.map(({ id }) => id)
    expect(left.filter((id) => id === "fine" || id === "fails")).toHaveLength(1)
  })

  test.each([9, 1])(
    "queues in random order with a prefetch of %i: jobs of each are among the first",
    async (prefetch) => {
      const url = newBoard()
      await using client = await connect(url)
      const queues = ["x", "y", "z"]
      const ran: Array<string> = []
      const note = actor("note", { methods: { run: (name: string) => void ran.push(name) } })
      for (const queue of queues)
        await client.submitMany(Array.from({ length: 40 }, () => ({ task: "note", args: [queue], queue })))
      await settles(async () => (await client.queues()).reduce((sum, { depth }) => sum + depth, 0), 120)
      const service = await start([note], {
        transport: url,
        burst: true,
        queues,
        order: "random",
        concurrency: 1,
        prefetch,
      })
      await service.stopped
      expect(ran).toHaveLength(120)
      expect(new Set(ran.slice(0, 40)).size).toBe(3)
      // Turns would give each queue every third place.
      expect(ran.filter((name, at) => at >= 3 && name === ran[at - 3]).length).toBeLessThan(100)
    },
  )

  describe("emptying a queue of more jobs than one call cancels", () => {
    const many = (queue: string, count = 100) => Array.from({ length: count }, () => ({ task: "work.fine", queue }))

    test("a purge that its budget or its signal ends says how far it came, and another one goes on", async () => {
      await using client = await connect(newBoard())
      await client.submitMany(many("q"))
      const none = await client.purge("q", { signal: AbortSignal.abort() })
      expect(none).toEqual({ purged: 0, partial: { done: 0, left: 100 } })
      let done = 0
      for (let partial: object | undefined = {}; partial !== undefined; ) {
        const report = await client.purge("q", { budget: 0 })
        done += report.purged
        partial = report.partial
        expect(partial).toEqual(done === 100 ? undefined : { done: report.purged, left: 100 - done })
      }
      expect(done).toBe(100)
      expect(await client.waiting("q")).toEqual([])
      expect(await client.purge("q", { budget: "1 minute" })).toEqual({ purged: 0 })
    })

    test("a queue that is being deleted stays paused until it is empty, and nothing that waited in it runs", async () => {
      const transport = newBoard()
      const ran: Array<string> = []
      const work = actor("work", { methods: { fine: (_input: unknown, job: Job) => void ran.push(job.queue) } })
      const { client } = await start([work], { transport, queues: ["q", "other"] })
      await client.pause("q")
      await client.submitMany(many("q"))
      const first = await client.deleteQueue("q", { budget: 0 })
      expect(first).toMatchObject({ partial: { done: first.purged, left: 100 - first.purged } })
      expect(first.purged).toBeGreaterThan(0)
      expect(await client.paused()).toEqual(["q"])
      // What is submitted later to a queue of the same worker runs; what waits in the paused one does not.
      await (await client.submit("work.fine", { queue: "other" })).result({ timeout: 10 })
      expect(await client.deleteQueue("q")).toBe(100 - first.purged)
      expect(await client.paused()).toEqual([])
      await settles(() => namesOf(client), ["other"])
      await (await client.submit("work.fine", { queue: "q" })).result({ timeout: 10 })
      expect(ran).toEqual(["other", "q"])
    })

    test("a deletion that fails in the middle leaves the queue paused, also one that was not paused", async () => {
      const transport = newBoard()
      await using client = await connect(transport)
      await client.submitMany(many("q"))
      const { jobs } = client.connection
      const decide = jobs.decide.bind(jobs)
      let left = 40
      Object.assign(jobs, {
        decide: async (...given: Parameters<typeof decide>) => {
          if (left-- <= 0) throw new Error("the process ends here")
          return decide(...given)
        },
      })
      await expect(client.deleteQueue("q")).rejects.toThrow("the process ends here")
      await using other = await connect(transport)
      expect(await other.paused()).toEqual(["q"])
      expect(await other.deleteQueue("q")).toBe(60)
      expect(await other.paused()).toEqual([])
    })

    test("what a worker has fetched ahead does not run after the deletion, and what runs goes on", async () => {
      const transport = newBoard()
      const ran: Array<string> = []
      const gate = Promise.withResolvers<void>()
      const hold = actor("hold", {
        methods: {
          run: async (_input: unknown, job: Job) => {
            ran.push(job.id)
            await gate.promise
          },
        },
      })
      const { client } = await start([hold], { transport, queues: ["q"], concurrency: 1, prefetch: 4 })
      const runs = await client.submit("hold", { queue: "q" })
      await eventually(() => ran.length === 1, { message: "the first job runs" })
      const others = await client.submitMany(Array.from({ length: 8 }, () => ({ task: "hold", queue: "q" })))
      expect(others).toHaveLength(8)
      expect(await client.deleteQueue("q")).toBe(8)
      gate.resolve()
      expect(await runs.outcome({ timeout: 10 })).toMatchObject({ state: "succeeded" })
      await (await client.submit("hold", { queue: "q" })).result({ timeout: 10 })
      expect(ran).toHaveLength(2)
      expect(await client.count({ queue: "q", states: ["cancelled"] })).toEqual({ count: 8 })
    })

    test("what a worker that died has fetched and not started is cancelled as well", async () => {
      await using client = await connect(newBoard())
      await client.submitMany(many("q", 3))
      const fetched = { queues: ["q"], max: 2, wait: 0 }
      expect(await client.connection.jobs.take(fetched, AbortSignal.timeout(10_000))).toHaveLength(2)
      expect(await client.deleteQueue("q")).toBe(3)
      await settles(() => client.count({ queue: "q", states: ["cancelled"] }), { count: 3 })
    })

    test("jobs that revert their steps are left where they are, also before more than one page of others", async () => {
      const transport = newBoard()
      const gone = actor("gone", {
        methods: {
          run: {
            retry: { max: 1, interval: "1 hour" },
            run: async (_input: unknown, job: Job) => {
              await job.step("a", () => 1, { revert: () => undefined })
              throw new Error("no")
            },
          },
        },
      })
      await using client = await connect(transport)
      await client.submitMany(Array.from({ length: 505 }, () => ({ task: "gone", queue: "q" })))
      await (await start([gone], { transport, burst: true, queues: ["q"], concurrency: 50 })).stopped
      await client.pause("q")
      expect(await client.purge("q")).toBe(505)
      await client.submitMany(many("q", 5))
      expect(await client.purge("q")).toBe(5)
    })
  })
})
