/** Acceptance scenarios of jobs that wait for jobs, of cancelling and of deleting, on every transport. Each test names its number. */
import { actor, type Client, connect, type SubmissionFields } from "callboard"
import { describe, expect, test } from "vitest"
import { generateId } from "../../runtime/id.ts"
import { step } from "../../runtime/protocol/record.ts"
import type { Store } from "../../runtime/transport/store.ts"
import { eventually } from "../support/servers/process.ts"
import { start } from "../support/services.ts"
import { onEveryBoard } from "./boards.ts"

const WAIT = { timeout: 60 } as const

/** Steps that note when they run, wait to be let go where they shall, and fail where they are told to. */
const stage = () => {
  const ran: Array<string> = []
  const gates = new Map<string, PromiseWithResolvers<void>>()
  const gate = (name: string) => {
    const known = gates.get(name) ?? Promise.withResolvers<void>()
    gates.set(name, known)
    return known
  }
  const step = actor("step", {
    methods: {
      run: async ({ name }: { readonly name: string }, job) => {
        ran.push(name)
        return { name, after: job.after }
      },
      fail: async ({ name }: { readonly name: string }) => {
        ran.push(name)
        throw new TypeError(`${name} fails`)
      },
      /** Fails in its first run. */
      once: async ({ name }: { readonly name: string }, job) => {
        ran.push(name)
        if (job.run === 1) throw new TypeError(`${name} fails once`)
        return name
      },
      hold: async ({ name }: { readonly name: string }) => {
        ran.push(name)
        await gate(name).promise
        return name
      },
    },
  })
  return { step, ran, letGo: (name: string) => gate(name).resolve() }
}

const edges = (store: Store) => store.list({ prefix: "after/", limit: 100 })

onEveryBoard((newBoard, transport) => {
  /** A board, a client of it, and workers on demand. */
  const setUp = async () => {
    const { step, ran, letGo } = stage()
    const board = newBoard()
    // Keeps a board of this process alive while no worker runs.
    const client = await connect(board)
    const submit = (name: string, fields: SubmissionFields & { readonly does?: string } = {}) => {
      const { does = "run", ...rest } = fields
      return client.submit(`step.${does}`, { input: { name }, id: `${name}-${generateId()}`, ...rest })
    }
    const work = () => start([step], { transport: board, concurrency: 1 })
    const burst = async () => (await start([step], { transport: board, burst: true })).stopped
    return { client, submit, work, burst, ran, letGo }
  }
  const stateOf = async (client: Client, { id }: { readonly id: string }) => (await client.job(id).find()).state
  const reaches = (client: Client, job: { readonly id: string }, state: string) =>
    eventually(async () => (await stateOf(client, job)) === state, { message: `${job.id} is ${state}` })

  test("S139 chain: a; b after a; c after a and b", async () => {
    const { client, submit, work, ran, letGo } = await setUp()
    const a = await submit("a", { does: "hold" })
    const b = await submit("b", { does: "hold", after: a.id })
    const c = await submit("c", { after: [a.id, b.id] })
    expect([a.receipt.state, b.receipt.state, c.receipt.state]).toEqual(["queued", "deferred", "deferred"])
    expect(await client.queues()).toMatchObject([{ depth: 1 }])

    await work()
    await reaches(client, a, "started")
    letGo("a")
    await reaches(client, b, "started")
    const waiting = await c.find()
    expect(waiting).toMatchObject({ state: "deferred", celeryState: "PENDING" })
    expect(waiting.after).toEqual({ ids: [a.id, b.id], waiting: [b.id] })

    letGo("b")
    expect(await c.result(WAIT)).toEqual({ name: "c", after: [a.id, b.id] })
    expect(ran).toEqual(["a", "b", "c"])
    const done = await c.find()
    expect(done.after).toEqual({ ids: [a.id, b.id] })
    expect(done.transitions.map(({ state, reason }) => [state, reason])).toEqual([
      ["deferred", undefined],
      ["queued", "released"],
      ["started", undefined],
      ["succeeded", undefined],
    ])
    await eventually(async () => (await edges(client.connection.store)).length === 0, { message: "no edge is left" })
    await client.close()
  })

  test("S147 front of the queue: after p, the queue is [child, n1]", async () => {
    const { client, submit, work, ran, letGo } = await setUp()
    const p = await submit("p", { does: "hold" })
    await work()
    await reaches(client, p, "started")
    // Paused, so that no worker takes the tasks that the test looks at.
    await client.pause("default")
    const n1 = await submit("n1")
    const child = await submit("child", { after: p.id, front: true })
    expect(await client.connection.jobs.waiting?.({ queue: "default" }, 10)).toEqual([n1.id])
    letGo("p")
    await reaches(client, child, "queued")
    expect(await client.connection.jobs.waiting?.({ queue: "default" }, 10)).toEqual([child.id, n1.id])
    await client.resume("default")
    await n1.result(WAIT)
    expect(ran).toEqual(["p", "child", "n1"])
    await client.close()
  })

  test("S149 delete: the job, what came of it and its edges are gone; with dependents too, so are those", async () => {
    const { client, submit, work, ran } = await setUp()
    const p = await submit("p")
    const child = await submit("child", { after: p.id })
    const grandchild = await submit("grandchild", { after: child.id })
    const other = await submit("other")
    await p.delete({ dependents: true })
    for (const job of [p, child, grandchild]) {
      expect(await job.outcome(WAIT)).toEqual({ state: "gone" })
      expect((await client.jobs()).jobs.map(({ id }) => id)).not.toContain(job.id)
    }
    expect(await edges(client.connection.store)).toEqual([])
    await work()
    await other.result(WAIT)
    expect(ran).toEqual(["other"])
    await expect(client.job(`never-${generateId()}`).find()).rejects.toMatchObject({ code: "not-found" })
    await client.close()
  })

  describe("what is submitted", () => {
    test("together is taken in its order; a graph of a hundred jobs ends in the order of its edges", async () => {
      const { client, work, ran } = await setUp()
      const ids = Array.from({ length: 100 }, (_, at) => `j${at}-${generateId()}`)
      const parentsOf = (at: number) => [at - 1, at >> 1].filter((parent) => parent >= 0 && parent < at)
      const tasks = ids.map((id, at) => ({
        task: "step.run",
        id,
        input: { name: String(at) },
        ...(at === 0 ? {} : { after: parentsOf(at).flatMap((parent) => ids[parent] ?? []) }),
      }))
      expect(await client.submitMany(tasks)).toMatchObject(
        tasks.map((_, at) => ({ state: at === 0 ? "queued" : "deferred" })),
      )
      await work()
      await client.job(ids[99] ?? "").result(WAIT)
      expect(ran).toEqual(ids.map((_, at) => String(at)))
      // The same once more adds nothing.
      expect(await client.submitMany(tasks)).toMatchObject(tasks.map(() => ({ duplicate: true })))
      await client.close()
    })

    test("after a job that has ended starts at once; while it runs, when it ends", async () => {
      const { client, submit, work } = await setUp()
      await work()
      for (let round = 0; round < (transport === "memory" ? 100 : 25); round++) {
        // Quick: its end, the edge and the news of the edge come in any order.
        const quick = await submit("quick")
        const [child, other] = await Promise.all([
          submit("child", { after: quick.id }),
          submit("other", { after: quick.id }),
        ])
        expect(await child.outcome({ timeout: 60 })).toMatchObject({ state: "succeeded" })
        expect(await other.outcome({ timeout: 60 })).toMatchObject({ state: "succeeded" })
      }
      await client.close()
    })
  })

  test("a worker that ends when nothing is left first runs what its own jobs let go of, and what others left behind", async () => {
    const { client, submit, burst, ran } = await setUp()
    const a = await submit("a")
    const b = await submit("b", { after: a.id })
    const c = await submit("c", { after: [a.id, b.id] })
    const lenient = await submit("lenient", {
      after: { ids: (await submit("fails", { does: "fail" })).id, allowFailure: true },
    })
    await burst()
    for (const job of [a, b, c, lenient]) expect(await stateOf(client, job)).toBe("succeeded")
    expect(ran).toHaveLength(5)

    // Its worker died after it had stored the outcome and before it looked for the jobs that wait for it.
    const last = await submit("last", { does: "hold", delay: 3600 })
    const left = await submit("left", { after: last.id })
    const found = await client.connection.jobs.find(last.id)
    if (found === undefined) throw new Error("it is there")
    const { message: _message, ...record } = step(found.record, { at: Date.now(), state: "succeeded" })
    const ended = { ...record, fence: "", endedAt: Date.now(), keepMs: 60_000 }
    await client.connection.jobs.decide([{ id: last.id, expect: found.revision, record: ended, withdraw: true }])
    await burst()
    expect(await stateOf(client, left)).toBe("succeeded")
    await client.close()
  })

  test("a link and a callback are waited for before they exist, by after and by their results", async () => {
    const { client, submit, work } = await setUp()
    const [link, callback] = [`link-${generateId()}`, `callback-${generateId()}`]
    const p = await submit("p", {
      chain: [
        { task: "step.run", immutable: true, input: { name: "first" } },
        { task: "step.run", immutable: true, input: { name: "link" }, id: link },
      ],
      callbacks: [{ task: "step.run", immutable: true, input: { name: "callback" }, id: callback }],
    })
    const child = await submit("child", { after: [link, callback] })
    expect(child.receipt.state).toBe("deferred")
    await expect(client.job(link).find()).rejects.toMatchObject({ code: "not-found" })
    const results = Promise.all([client.job(link).result(WAIT), client.job(callback).result(WAIT), child.result(WAIT)])
    await work()
    expect(await results).toMatchObject([{ name: "link" }, { name: "callback" }, { name: "child" }])
    expect((await p.find()).state).toBe("succeeded")
    await client.close()
  })

  // More than the 500 that a worker looks at together; to look again belongs to the runtime.
  const many = transport === "memory" ? 600 : 200
  test(`${many} jobs wait for one, and one for ${many}`, async () => {
    const { client, submit, work } = await setUp()
    const root = await submit("root")
    const ids = Array.from({ length: many }, (_, at) => `m${at}-${generateId()}`)
    await client.submitMany(ids.map((id) => ({ task: "step.run", id, input: { name: "m" }, after: root.id })))
    const last = await submit("last", { after: ids })
    await work()
    expect(await last.outcome({ timeout: 60 })).toMatchObject({ state: "succeeded" })
    await eventually(async () => (await edges(client.connection.store)).length === 0, { message: "no edge is left" })
    await client.close()
  }, 90_000)

  test("S140 parent fails: its child stays deferred, one to which that is the same runs", async () => {
    const { client, submit, work, ran } = await setUp()
    const p = await submit("p", { does: "once" })
    const strict = await submit("d1", { after: [p.id] })
    const lenient = await submit("d2", { after: { ids: [p.id], allowFailure: true } })
    await work()
    expect(await lenient.outcome(WAIT)).toMatchObject({ state: "succeeded" })
    expect(await stateOf(client, strict)).toBe("deferred")
    expect(ran).toEqual(["p", "d2"])

    // It may still come to what is waited for.
    await p.retry()
    expect(await strict.outcome(WAIT)).toMatchObject({ state: "succeeded" })
    await client.close()
  })

  test("S142 several parents, failure allowed", async () => {
    const { client, submit, work, ran, letGo } = await setUp()
    const fails = await submit("fails", { does: "fail" })
    const holds = await submit("holds", { does: "hold" })
    const child = await submit("child", { after: { ids: [fails.id, holds.id], allowFailure: true } })
    await work()
    await reaches(client, holds, "started")
    await eventually(async () => (await child.find()).after?.waiting?.length === 1, { message: "one is left" })
    expect(await stateOf(client, child)).toBe("deferred")
    letGo("holds")
    expect(await child.outcome(WAIT)).toMatchObject({ state: "succeeded" })
    expect(ran).toEqual(["fails", "holds", "child"])
    await client.close()
  })

  test("S144 cancel a parent: its children stay deferred, also where a failure will do; released, they are queued", async () => {
    const { client, submit, work, ran } = await setUp()
    const p = await submit("p")
    const strict = await submit("d1", { after: p.id })
    const lenient = await submit("d2", { after: { ids: p.id, allowFailure: true } })
    const later = await submit("d3", { after: [p.id, strict.id] })
    await p.cancel()
    const service = await work()
    expect((await client.jobs({ states: ["cancelled"] })).jobs.map(({ id }) => id)).toEqual([p.id])
    expect([await stateOf(client, strict), await stateOf(client, lenient)]).toEqual(["deferred", "deferred"])
    await service.stop()

    await p.cancel({ release: true })
    expect([await stateOf(client, strict), await stateOf(client, lenient)]).toEqual(["queued", "queued"])
    expect((await later.find()).after?.waiting).toEqual([strict.id])
    await work()
    expect(await later.outcome(WAIT)).toMatchObject({ state: "succeeded" })
    expect(ran.sort()).toEqual(["d1", "d2", "d3"])
    await client.close()
  })

  test("S145 cancel a child: it does not run, and its own child stays deferred", async () => {
    const { client, submit, work, ran } = await setUp()
    const p = await submit("p")
    const child = await submit("child", { after: p.id })
    const grandchild = await submit("grandchild", { after: child.id })
    const sibling = await submit("sibling", { after: p.id })
    await child.cancel()
    await work()
    expect(await sibling.outcome(WAIT)).toMatchObject({ state: "succeeded" })
    expect(await stateOf(client, child)).toBe("cancelled")
    expect(await stateOf(client, grandchild)).toBe("deferred")
    expect(ran).toEqual(["p", "sibling"])
    await client.close()
  })

  test("S149 delete alone: a child can never start and fails, with its errbacks; one to which that is the same starts (D21)", async () => {
    const { client, submit, work } = await setUp()
    const p = await submit("p")
    const told = `told-${generateId()}`
    const errbacks = [{ task: "step.run", id: told, immutable: true, input: { name: "told" } }]
    const strict = await submit("d1", { after: p.id, errbacks })
    const lenient = await submit("d2", { after: { ids: p.id, allowFailure: true } })
    await p.delete()
    const outcome = { state: "failed", error: { name: "DependencyGone", reason: "dependency-gone" } }
    expect(await strict.outcome(WAIT)).toMatchObject(outcome)
    expect((await client.jobs({ dead: true })).jobs.map(({ id }) => id)).toEqual([strict.id])
    await work()
    expect(await lenient.outcome(WAIT)).toMatchObject({ state: "succeeded" })
    expect(await client.job(told).outcome(WAIT)).toMatchObject({ state: "succeeded" })
    await strict.retry()
    expect(await strict.outcome(WAIT)).toMatchObject({ state: "succeeded" })
    await client.close()
  })

  test("S151 cancel twice: the second is refused; a cancelled job that is deleted is in no list", async () => {
    const { client, submit } = await setUp()
    const job = await submit("job")
    await job.cancel()
    await expect(job.cancel()).rejects.toMatchObject({ code: "already-terminal" })
    await job.delete()
    expect((await client.jobs({ states: ["cancelled"] })).jobs).toEqual([])
    await client.close()
  })

  test("S153 cancel while running (D22): it stays cancelled, and its children deferred", async () => {
    const { client, submit, work, ran, letGo } = await setUp()
    const p = await submit("p", { does: "hold" })
    const child = await submit("child", { after: p.id })
    const other = await submit("other")
    await work()
    await reaches(client, p, "started")
    await p.cancel()
    letGo("p")
    await other.result(WAIT)
    expect(await p.find()).toMatchObject({ state: "cancelled" })
    expect((await client.jobs({ states: ["succeeded"] })).jobs.map(({ id }) => id)).toEqual([other.id])
    expect(await stateOf(client, child)).toBe("deferred")
    expect(ran).toEqual(["p", "other"])
    await client.close()
  })

  test("S154 requeue: only a job that has failed, or ended otherwise, runs again; its times are new", async () => {
    const { client, submit, work } = await setUp()
    const job = await submit("job", { does: "fail" })
    await expect(job.retry()).rejects.toMatchObject({ code: "job-exists" })
    await expect(client.job(`never-${generateId()}`).retry()).rejects.toMatchObject({ code: "not-found" })
    const service = await work()
    await job.outcome(WAIT)
    await service.stop()
    const again = await job.retry()
    expect(again).toMatchObject({ state: "queued", run: 2 })
    expect([again.times.started, again.times.ended]).toEqual([undefined, undefined])
    expect((await client.jobs({ states: ["failed"] })).jobs).toEqual([])
    await client.close()
  })

  // What follows from the records alone, which the scenarios above have shown to be kept on each transport.
  if (transport !== "memory") return

  test("a link that does not come because the one before fails is like a failed parent; run again, it comes", async () => {
    const { client, submit, work } = await setUp()
    const link = `link-${generateId()}`
    const p = await submit("p", {
      does: "once",
      chain: [{ task: "step.run", immutable: true, input: { name: "link" }, id: link }],
    })
    const strict = await submit("d1", { after: link })
    const lenient = await submit("d2", { after: { ids: link, allowFailure: true } })
    await work()
    await p.outcome(WAIT)
    await expect(client.job(link).result(WAIT)).rejects.toMatchObject({
      code: "not-found",
      message: expect.stringContaining("the job before it failed"),
    })
    expect(await lenient.outcome(WAIT)).toMatchObject({ state: "succeeded" })
    expect(await stateOf(client, strict)).toBe("deferred")
    await p.retry()
    expect(await strict.outcome(WAIT)).toMatchObject({ state: "succeeded" })
    await client.close()
  }, 90_000)

  describe("what is submitted", () => {
    test("after a job that nobody knows, itself, or one further down is refused, and leaves nothing", async () => {
      const { client, submit } = await setUp()
      const never = `never-${generateId()}`
      await expect(submit("x", { after: never })).rejects.toMatchObject({
        code: "invalid-input",
        details: { field: "after" },
        message: expect.stringContaining(never),
      })
      await expect(submit("x", { id: "self", after: ["self"] })).rejects.toMatchObject({ code: "invalid-input" })
      await expect(submit("x", { after: [] })).rejects.toMatchObject({ code: "invalid-input" })
      await expect(
        client.submitMany([
          { task: "step", id: "first", after: "second", input: { name: "first" } },
          { task: "step", id: "second", input: { name: "second" } },
        ]),
      ).rejects.toMatchObject({ code: "invalid-input", details: { field: "after", index: 0 } })
      expect((await client.jobs()).jobs).toEqual([])
      expect(await edges(client.connection.store)).toEqual([])
      await client.close()
    })

    test("with a delay waits for the jobs and for its time; past its expiry it is expired (D20)", async () => {
      const { client, submit, work, ran } = await setUp()
      const p = await submit("p")
      const late = await submit("late", { after: p.id, delay: 2 })
      const never = await submit("never", { after: `${late.id}`, expires: 0.1 })
      await reaches(client, never, "expired")
      await work()
      await p.result(WAIT)
      await reaches(client, late, "scheduled")
      await late.result(WAIT)
      expect(ran).toEqual(["p", "late"])
      const { submitted, started = "" } = (await late.find()).times
      expect(Date.parse(started) - Date.parse(submitted)).toBeGreaterThanOrEqual(2_000)
      await client.close()
    })
  })
})
