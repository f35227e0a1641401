/** Groups and chords on every transport: the body waits for all members, gets their results in order, and fails where one fails. */
import { actor, type Client, connect } from "callboard"
import { Result } from "effect"
import { expect, test } from "vitest"
import { generateId } from "../../runtime/id.ts"
import { postingOf } from "../../runtime/protocol/headers.ts"
import { eventually } from "../support/servers/process.ts"
import { start } from "../support/services.ts"
import { onEveryBoard } from "./boards.ts"

const WAIT = { timeout: 60 } as const

const sums = () => {
  const told: Array<unknown> = []
  const sum = actor("sum", {
    methods: {
      one: async ({ n }: { readonly n: number }) => n,
      double: async ({ n }: { readonly n: number }) => n * 2,
      plus: {
        params: ["n", "more"],
        run: async ({ n, more = 1 }: { readonly n: number; readonly more?: number }) => n + more,
      },
      /** Fails in its first run. */
      once: async ({ n }: { readonly n: number }, job) => {
        if (job.run === 1) throw new TypeError(`${n} fails once`)
        return n
      },
      fail: async ({ n }: { readonly n: number }) => {
        throw new TypeError(`${n} fails`)
      },
      large: async ({ n }: { readonly n: number }) => "x".repeat(n),
      list: async (results: ReadonlyArray<unknown>) => results,
      all: async (results: ReadonlyArray<number>) => results.reduce((sum, n) => sum + n, 0),
      args: async (input: unknown) => input,
      ask: async (members: ReadonlyArray<{ readonly job: string }>, job) => {
        const results = await Promise.all(members.map((member) => job.job<string>(member.job).result()))
        return results.map(({ length }) => length)
      },
      told: async (input: unknown) => void told.push(input),
    },
  })
  return { sum, told }
}

const one = (n: number) => ({ task: "sum.one", input: { n } })
const entries = async ({ connection: { store } }: Client) => (await store.list({ prefix: "chord", limit: 100 })).length

/** The result of a job that does not exist yet. */
const reached = async (client: Client, id: string): Promise<unknown> => {
  const isThere = () =>
    client
      .job(id)
      .find()
      .then(
        () => true,
        () => false,
      )
  await eventually(isThere, { message: `${id} is there` })
  return client.job(id).result(WAIT)
}

onEveryBoard((newBoard, transport) => {
  const setUp = async () => {
    const { sum, told } = sums()
    const board = newBoard()
    const client = await connect(board)
    const work = () => start([sum], { transport: board, concurrency: 4 })
    return { client, work, told, board }
  }

  test("the body gets the results of all members in the order of the group", async () => {
    const { client, work } = await setUp()
    const body = await client.submit("sum.list", { chord: [one(3), one(1), one(2)] })
    expect(body.receipt.state).toBe("deferred")
    const waiting = await body.find()
    expect(waiting).toMatchObject({ state: "deferred", chord: { size: 3, waiting: true } })
    expect((await client.jobs({ group: body.id })).jobs).toHaveLength(3)
    await work()
    expect(await body.result(WAIT)).toEqual([3, 1, 2])
    expect((await body.find()).chord).toEqual({ size: 3 })
    await eventually(async () => (await entries(client)) === 0, { message: "no entry is left" })
    await client.close()
  })

  test("a member may be a chord or have a chain, whose last link counts", async () => {
    const { client, work } = await setUp()
    const inner = { task: "sum.all", chord: [one(1), one(2), { task: "sum.all", chord: [one(3), one(4)] }] }
    const chain = {
      task: "sum.one",
      input: { n: 5 },
      chain: [{ task: "sum.plus" }, { task: "sum.plus", kwargs: { more: 10 } }],
    }
    const body = await client.submit("sum.list", { chord: [inner, chain, one(7)] })
    await work()
    expect(await body.result(WAIT)).toEqual([10, 16, 7])
    await eventually(async () => (await entries(client)) === 0, { message: "no entry is left" })
    await client.close()
  })

  test("a failed member fails the body, once all have ended; run again, both succeed", async () => {
    const { client, work, told } = await setUp()
    const id = generateId()
    const body = await client.submit("sum.list", {
      id,
      chord: [one(1), { task: "sum.once", input: { n: 2 } }, one(3)],
      errbacks: [{ task: "sum.told", immutable: true, input: { of: id } }],
    })
    await work()
    expect(await body.outcome(WAIT)).toMatchObject({
      state: "failed",
      error: { name: "MemberFailed", reason: "member-failed", message: expect.stringContaining(`${id}-1`) },
    })
    await eventually(() => told.length > 0, { message: "the errback has run" })
    await client.job(`${id}-1`).retry()
    await client.job(`${id}-1`).result(WAIT)
    expect((await body.retry()).state).toMatch(/deferred|queued/)
    expect(await body.result(WAIT)).toEqual([1, 2, 3])
    expect(told).toEqual([{ of: id }])
    await client.close()
  })

  test("a link of a chain may have a chord: its members get the result of the link before, and it gets theirs", async () => {
    const { client, work } = await setUp()
    const plus = (more: number) => ({ task: "sum.plus", kwargs: { more } })
    const first = await client.submit("sum.one", {
      input: { n: 1 },
      chain: [
        plus(1),
        { task: "sum.all", id: "middle", chord: [plus(10), plus(20)] },
        plus(100),
        { task: "sum.list", id: "last", chord: [plus(0), plus(1)] },
      ],
    })
    const member = {
      task: "sum.one",
      input: { n: 5 },
      chain: [{ task: "sum.all", chord: [plus(1), plus(2)] }, plus(1000)],
    }
    const outer = await client.submit("sum.list", { chord: [member, one(6)] })
    expect((await client.job("last").find()).state).toBe("deferred")
    await work()
    expect(await client.job("middle").result(WAIT)).toBe(34)
    expect(await client.job("last").result(WAIT)).toEqual([134, 135])
    expect(await outer.result(WAIT)).toEqual([1013, 6])
    expect((await client.jobs({ group: "middle" })).jobs.map(({ id }) => id).sort()).toEqual(["middle-0", "middle-1"])
    expect(new Set((await client.jobs({ rootId: first.id })).jobs.map(({ rootId }) => rootId))).toEqual(
      new Set([first.id]),
    )
    await eventually(async () => (await entries(client)) === 0, { message: "no entry is left" })
    await client.close()
  })

  test("S192 groups: two jobs of g1; one is deleted; without jobs there is no such group, and none is listed", async () => {
    const { client } = await setUp()
    const jobs = await Promise.all([1, 2].map((n) => client.submit("sum.one", { input: { n }, group: "g1" })))
    await client.submit("sum.one", { input: { n: 3 }, group: "g 2/ü" })
    const group = client.group("g1")
    const ids = async () => (await group.jobs()).jobs.map(({ id }) => id).sort()
    expect(await ids()).toEqual(jobs.map(({ id }) => id).sort())
    expect((await group.jobs()).jobs.map((job) => job.group)).toEqual(["g1", "g1"])
    expect(await group.find()).toEqual({ id: "g1", total: 2, states: { queued: 2 } })
    expect((await client.groups()).groups.toSorted()).toEqual(["g 2/ü", "g1"])
    const [first, second] = jobs
    await first?.delete()
    expect(await ids()).toEqual([second?.id])
    expect(await group.find()).toMatchObject({ total: 1 })
    await second?.delete()
    const noSuchGroup = { code: "not-found", message: "there is no group g1" }
    await expect(group.find()).rejects.toMatchObject(noSuchGroup)
    await expect(group.cancel()).rejects.toMatchObject(noSuchGroup)
    expect((await client.groups()).groups).toEqual(["g 2/ü"])
    await client.close()
  })

  test("a group is submitted alone, or with its body by then; map and chunks make one of inputs", async () => {
    const { client, work } = await setUp()
    const alone = await client.group([one(1), one(2)], { id: "alone" }).submit()
    expect(alone.members.map(({ receipt }) => receipt.state)).toEqual(["queued", "queued"])
    const body = await client.group([one(3), one(4)], { id: "named" }).then("sum.list", { description: "the body" })
    const mapped = await client.map("sum.double", [{ n: 1 }, { n: 2 }], { priority: 7 }).then("sum.all")
    const chunked = await client.chunks("sum.all", [1, 2, 3, 4, 5], 2).then("sum.list")
    const whole = await client.group([one(5), one(6)]).then({ task: "sum.list", description: "with its task" })
    expect((await whole.find()).description).toBe("with its task")
    await expect(Promise.resolve<unknown>(client.group([one(1)]))).rejects.toMatchObject({ details: { field: "then" } })
    const lenient = await client
      .group([one(1), { task: "sum.fail", input: { n: 1 } }])
      .then("sum.list", { allowFailure: true })
    await work()
    expect(await alone.results(WAIT)).toEqual([1, 2])
    expect(await client.group("alone").find()).toEqual({ id: "alone", total: 2, states: { succeeded: 2 } })
    expect(await body.result(WAIT)).toEqual([3, 4])
    expect(await body.find()).toMatchObject({ description: "the body" })
    expect((await client.group("named").find()).total).toBe(2)
    expect(await mapped.result(WAIT)).toBe(6)
    expect(await chunked.result(WAIT)).toEqual([3, 7, 5])
    expect(await lenient.result(WAIT)).toEqual([1, { job: `${lenient.id}-1`, state: "failed" }])
    await client.close()
  })

  test("a group that is cancelled cancels its members and the body that waits for them", async () => {
    const { client } = await setUp()
    const body = await client
      .map(
        "sum.one",
        Array.from({ length: 120 }, (_, n) => ({ n })),
      )
      .then("sum.list")
    expect(await client.group(body.id).cancel()).toMatchObject({ changed: 120, refused: [] })
    expect(await client.group(body.id).find()).toMatchObject({ states: { cancelled: 120 } })
    expect((await body.find()).state).toBe("cancelled")
    expect(await client.group(body.id).cancel()).toMatchObject({ changed: 0, refused: [] })
    const named = await client.group([one(1), one(2)], { id: "named" }).then("sum.list")
    expect(await client.group("named").cancel()).toMatchObject({ changed: 2, refused: [] })
    expect((await named.find()).state).toBe("cancelled")
    await client.close()
  })

  // What follows from the records and the parts alone, which the tests above have shown to be kept on each transport.
  if (transport !== "memory") return

  test("the results of a group are waited for as long as is asked, and not as long for each member", async () => {
    const { client, work } = await setUp()
    const group = await client.group([one(1), { ...one(2), delay: 3_600 }]).submit()
    const waiting = group.results({ timeout: 2 }).catch(String)
    await work()
    await group.members[0]?.result(WAIT)
    expect(await waiting).toMatch(new RegExp(`job ${group.members[1]?.id} did not end within [01]\\.`))
    await client.close()
  })

  test("where failures will do, the body gets a reference in place of a result", async () => {
    const { client, work } = await setUp()
    const id = generateId()
    const tasks = [one(1), { task: "sum.fail", input: { n: 2 } }, one(3), { ...one(4), expires: 0.1 }, one(5)]
    const body = await client.submit("sum.list", { id, chord: { tasks, allowFailure: true } })
    await client.job(`${id}-2`).cancel()
    await client.job(`${id}-4`).delete()
    await eventually(async () => (await client.job(`${id}-3`).find()).state === "expired", { message: "it expires" })
    await work()
    expect(await body.result(WAIT)).toEqual([
      1,
      { job: `${id}-1`, state: "failed" },
      { job: `${id}-2`, state: "cancelled" },
      { job: `${id}-3`, state: "expired" },
      { job: `${id}-4`, state: "gone" },
    ])
    await client.close()
  })

  test("results that are large together are references, which the handler asks for", async () => {
    const { client, work } = await setUp()
    const large = { task: "sum.large", input: { n: 150_000 } }
    const id = generateId()
    const body = await client.submit("sum.list", { id, chord: [large, one(1), large] })
    const lengths = await client.submit("sum.ask", { chord: [large, large] })
    await work()
    expect(await body.result(WAIT)).toEqual([0, 1, 2].map((at) => ({ job: `${id}-${at}`, state: "succeeded" })))
    expect(await lengths.result(WAIT)).toEqual([150_000, 150_000])
    await client.close()
  })

  test("a broken chain, a cancelled and a deleted member fail the body; a body that is cancelled never runs", async () => {
    const { client, work, told } = await setUp()
    const chain = { task: "sum.fail", input: { n: 1 }, chain: [{ task: "sum.plus" }, { task: "sum.plus" }] }
    const broken = await client.submit("sum.list", { chord: [one(1), chain] })
    const last = { ...one(1), chain: [{ task: "sum.fail" }] }
    const brokenLast = await client.submit("sum.list", { chord: [last, one(1)] })
    const cancelled = await client.submit("sum.list", { chord: [one(1), one(2)] })
    await client.job(`${cancelled.id}-1`).cancel()
    const deleted = await client.submit("sum.list", { chord: [one(1), one(2)] })
    await client.job(`${deleted.id}-1`).delete()
    const given = await client.submit("sum.told", { chord: [one(1)] })
    await given.cancel()
    await work()
    for (const body of [broken, brokenLast, cancelled, deleted]) {
      expect(await body.outcome(WAIT)).toMatchObject({ state: "failed", error: { name: "MemberFailed" } })
    }
    expect((await cancelled.find()).error?.message).toContain(`job ${cancelled.id}-1 was cancelled`)
    expect((await deleted.find()).error?.message).toContain(`job ${deleted.id}-1 was deleted`)
    await client.job(`${given.id}-0`).result(WAIT)
    expect((await given.find()).state).toBe("cancelled")
    expect(told).toEqual([])
    await given.retry()
    expect(await given.outcome(WAIT)).toMatchObject({ state: "succeeded" })
    expect(told).toEqual([[1]])
    await client.close()
  })

  test("where a chain breaks before a link with a chord, or in its members, that link fails; run again, it succeeds", async () => {
    const { client, work } = await setUp()
    const plus = { task: "sum.plus" }
    const before = await client.submit("sum.once", {
      input: { n: 1 },
      chain: [plus, { task: "sum.list", id: "before", chord: [plus, plus] }, { ...plus, id: "never" }],
    })
    await client.submit("sum.one", {
      input: { n: 1 },
      chain: [{ task: "sum.list", id: "in", chord: [plus, { task: "sum.fail" }] }],
    })
    await work()
    for (const id of ["in", "before"]) {
      expect(await client.job(id).outcome(WAIT)).toMatchObject({ state: "failed", error: { name: "MemberFailed" } })
    }
    await expect(client.job("never").result(WAIT)).rejects.toMatchObject({ code: "not-found" })
    await before.retry()
    await client
      .job("before-1")
      .result(WAIT)
      .catch(() => undefined)
    await eventually(async () => (await client.jobs({ group: "before", states: ["succeeded"] })).jobs.length === 2, {
      message: "they run",
    })
    await client.job("before").retry()
    expect(await client.job("before").result(WAIT)).toEqual([3, 3])
    await client.close()
  }, 60_000)

  test("signatures of Celery that are groups and chains run; a chord on the wire is refused by name", async () => {
    const { client, work } = await setUp()
    const plus = (id: string) => ({ task: "sum", meth: "plus", args: [], kwargs: {}, options: { task_id: id } })
    const canvas = (kind: string, tasks: unknown) => ({ task: `celery.${kind}`, subtask_type: kind, kwargs: { tasks } })
    const publish = async (id: string, embed: object) => {
      const message = {
        headers: { task: "sum", meth: "one", id },
        properties: { content_type: "application/json", content_encoding: "utf-8" },
        body: new TextEncoder().encode(JSON.stringify([[], { n: 1 }, embed])),
      }
      const posting = Result.getOrThrow(postingOf(message, "default"))
      expect(await client.connection.jobs.publish([posting])).toEqual([{ status: "stored" }])
    }
    await publish("wire", {
      callbacks: [canvas("group", [plus("g1"), canvas("chain", [plus("c1"), plus("c2")])])],
      chain: [canvas("group", [plus("e1"), plus("e2")]), plus("l1")],
    })
    await publish("chord", { chord: plus("body") })
    await work()
    const results = await Promise.all(["g1", "c2", "e1", "e2"].map((id) => reached(client, id)))
    expect(results).toEqual([2, 3, 3, 3])
    expect(await client.job("chord").outcome(WAIT)).toMatchObject({
      state: "failed",
      error: { message: expect.stringContaining("chord") },
    })
    await client.close()
  })

  test("a body has arguments of its own, need not get the results, and may wait for other jobs as well", async () => {
    const { client, work } = await setUp()
    const own = await client.submit("sum.args", { args: ["own"], chord: [one(1)] })
    const immutable = await client.submit("sum.args", { args: ["own"], chord: { tasks: [one(1)], immutable: true } })
    const other = await client.submit("sum.one", { input: { n: 1 }, delay: 1 })
    const both = await client.submit("sum.list", { after: other.id, chord: [one(1)] })
    const late = await client.submit("sum.list", { delay: 1, chord: [one(2)] })
    await work()
    expect(await own.result(WAIT)).toEqual({ args: [[1], "own"], kwargs: {} })
    expect(await immutable.result(WAIT)).toBe("own")
    expect(await both.result(WAIT)).toEqual([1])
    expect(await late.result(WAIT)).toEqual([2])
    expect(Date.parse((await both.find()).times.started ?? "")).toBeGreaterThanOrEqual(
      Date.parse((await other.find()).times.ended ?? ""),
    )
    await client.close()
  })

  test("submitted again with the same id nothing is added, before it starts and after", async () => {
    const { client, work } = await setUp()
    const again = () => client.submit("sum.list", { id: "again", chord: [one(1), one(2)] })
    await again()
    expect((await again()).receipt).toMatchObject({ id: "again", state: "deferred", duplicate: true })
    expect((await client.jobs()).jobs).toHaveLength(3)
    await work()
    expect(await client.job("again").result(WAIT)).toEqual([1, 2])
    expect((await again()).receipt).toMatchObject({ id: "again", state: "succeeded", duplicate: true })
    expect((await client.jobs()).jobs).toHaveLength(3)
    await client.close()
  })

  test("a list of groups has pages; a wrong one is refused, and so is a group without tasks", async () => {
    const { client } = await setUp()
    for (const group of ["a", "b", "c"]) await client.submit("sum.one", { input: { n: 1 }, group })
    const first = await client.groups({ limit: 2 })
    expect(first).toEqual({ groups: ["a", "b"], next: "b" })
    expect(await client.groups({ limit: 2, after: "b" })).toEqual({ groups: ["c"] })
    await expect(client.groups({ limit: 0 })).rejects.toMatchObject({ details: { field: "limit" } })
    for (const tasks of [[], Array.from({ length: 10_001 }, () => one(1))])
      expect(() => client.group(tasks)).toThrow(/tasks: a group has 1 to 10000 tasks/)
    expect(() => client.chunks("sum.all", [1], 0)).toThrow(/size: must be/)
    await client.close()
  })

  test.each([
    ["no members", [], "chord"],
    ["10,001 members", Array.from({ length: 10_001 }, () => one(1)), "chord"],
    ["no list", "sum.one", "chord"],
    ["a member without a task", [{ input: {} }], "chord"],
    ["a field that no member has", [one(1), { ...one(2), tasks: [] }], "chord[1].tasks"],
    ["a wrong field", [one(1), { ...one(2), priority: 11 }], "chord[1].priority"],
    ["a group in a member", [{ ...one(2), group: "g" }], "chord[0].group"],
    ["a group without a name", { tasks: [one(1)], group: "" }, "chord.group"],
    [
      "an id twice",
      [
        { ...one(1), id: "twice" },
        { ...one(2), id: "twice" },
      ],
      "id",
    ],
    ["a member that is its own body", [{ ...one(1), id: "body" }], "id"],
    [
      "a link with the id of a member",
      [
        { ...one(1), chain: [{ ...one(2), id: "two" }] },
        { ...one(2), id: "two" },
      ],
      "id",
    ],
    [
      "a delay on a link with a chord",
      [{ ...one(1), chain: [{ task: "sum.all", delay: 1, chord: [one(1)] }] }],
      "chord[0].chain[0].delay",
    ],
    ["a link with an empty chord", [{ ...one(1), chain: [{ task: "sum.all", chord: [] }] }], "chord[0].chain"],
    [
      "members of a link with one id",
      [{ ...one(1), chain: [{ task: "sum.all", chord: [1, 2].map((n) => ({ ...one(n), id: "m" })) }] }],
      "chord[0].chain[0].chord",
    ],
    [
      "a callback with a chord",
      [{ ...one(1), callbacks: [{ task: "sum.all", chord: [one(1)] }] }],
      "chord[0].callbacks[0].chord",
    ],
    ["a wrong field further down", [{ task: "sum.all", chord: [{ ...one(2), queue: "" }] }], "chord[0].chord[0].queue"],
  ])("%s is refused, and leaves nothing", async (_, chord, field) => {
    const { client } = await setUp()
    const submitted = client.prepare([{ task: "sum.list", id: "body", chord }])
    await expect(submitted).rejects.toMatchObject({ details: { field: expect.stringContaining(field) } })
    await expect(submitted).rejects.toMatchObject({ code: expect.stringMatching(/^(invalid-input|unknown-field)$/) })
    expect((await client.jobs()).jobs).toEqual([])
    expect(await entries(client)).toBe(0)
    await client.close()
  })
})
