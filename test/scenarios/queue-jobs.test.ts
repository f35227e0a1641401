/** Acceptance scenarios of jobs in queues: ids, limits of time, what cannot run, uniqueness, running at once. */
import { type ActorDefinition, actor, type Client, type SubmissionFields } from "callboard"
import { connectHttp } from "callboard/client"
import { describe, expect, test, vi } from "vitest"
import { connect } from "../../runtime/client/client.ts"
import { connectSync } from "../../runtime/service/sync.ts"
import { TransportError } from "../../runtime/transport/mod.ts"
import { confirmed } from "../support/confirmed.ts"
import { eventually } from "../support/servers/process.ts"
import { start } from "../support/services.ts"
import { onEveryBoard } from "./boards.ts"

const WAIT = { timeout: 30 } as const

const makeActor = () => {
  const ran: Array<string> = []
  const scene: ActorDefinition = actor("scene", {
    methods: {
      add: ({ a, b }: { a: number; b: number }, job) => {
        ran.push(job.id)
        return a + b
      },
      fails: (_input: unknown, job) => {
        ran.push(job.id)
        throw new Error("out of luck")
      },
      sleeps: async (_input: unknown, job) => {
        ran.push(job.id)
        await new Promise((resolve) => setTimeout(resolve, 3_000))
      },
      odd: () => ({ items: [1, { at: () => undefined }] }),
      round: (_input: unknown, job) => job.run,
      breeds: async (_input: unknown, job) => {
        const child = await job.submit("scene.add", { input: { a: 1, b: 1 } })
        return { child: child.id, result: await child.result() }
      },
      meta: (_input: unknown, job) => job.meta,
    },
  })
  return { scene, ran }
}

/** How a submission is refused: over code, over HTTP by `connectHttp`, and by the service's own route. */
const refusals = async (client: Client, url: string, task: string, fields: object): Promise<ReadonlyArray<unknown>> => {
  // The compiler would refuse these fields as well.
  const given = fields as SubmissionFields
  const response = await fetch(`${url}/v1/jobs`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ ...fields, task }),
  })
  const problem: unknown = await response.json()
  const told = (error: unknown) => {
    if (typeof error !== "object" || error === null || !("code" in error)) return error
    const message = "detail" in error ? error.detail : "message" in error ? error.message : undefined
    const field = "field" in error ? error.field : "details" in error && error.details
    return {
      code: error.code,
      message,
      field: typeof field === "object" && field && "field" in field ? field.field : field,
    }
  }
  const caught = (submit: Promise<unknown>) => submit.then((job) => job, told)
  return [
    await caught(client.submit(task, given)),
    await caught(connectHttp(url).submit(task, given)),
    told(problem),
    ...(response.status === 400 ? [] : [`status ${response.status}`]),
  ]
}

const waiting = async (client: Client): Promise<number> =>
  (await client.jobs({ states: ["queued", "scheduled"] })).jobs.length

onEveryBoard((newBoard) => {
  test("S108 ids: letters, digits, _ and -; anything else is refused, and no id makes one", async () => {
    const { client, url = "" } = await start([], { transport: newBoard(), http: { port: 0 } })
    expect((await client.submit("scene.add", { id: "ok-1_A" })).id).toBe("ok-1_A")
    for (const id of ["bad id", "a:b", "", "x".repeat(129), 5]) {
      const [first, ...others] = await refusals(client, url, "scene.add", { id })
      expect(first).toMatchObject({ code: "invalid-input", field: "id", message: expect.stringMatching(/^id: /) })
      expect(others).toEqual([first, first])
    }
    expect(await waiting(client)).toBe(1)
    const [one, two] = [await client.submit("scene.add"), await client.submit("scene.add")]
    expect(one.id).toMatch(/^[A-Za-z0-9_-]{1,128}$/)
    expect(one.id).not.toBe(two.id)
  })

  describe("S124 limits of time", () => {
    test.each([
      ["2m", 120],
      ["1h", 3_600],
      ["3d", 259_200],
      // Decided against RQ: fractions of a second are kept.
      [1.9, 1.9],
      [-1, null],
      ["-1", null],
    ])("%s", async (timeLimit, hard) => {
      const transport = newBoard()
      await using client = await connect(transport)
      const job = await client.submit("scene.add", { input: { a: 1, b: 2 }, timeLimit })
      expect((await job.find()).timeLimit).toEqual({ hard })
      await start([makeActor().scene], { transport })
      expect(await job.result(WAIT)).toBe(3)
    })

    test.each([0, "abc", -2, "-1 hours"])("%s is refused", async (timeLimit) => {
      const { client, url = "" } = await start([], { transport: newBoard(), http: { port: 0 } })
      const [first, ...others] = await refusals(client, url, "scene.add", { timeLimit })
      expect(first).toMatchObject({ code: "invalid-input", field: "timeLimit.hard" })
      expect(others).toEqual([first, first])
      expect(await waiting(client)).toBe(0)
    })

    test("without one the method's holds, and the job names none", async () => {
      await using client = await connect(newBoard())
      expect(await (await client.submit("scene.add")).find()).not.toHaveProperty("timeLimit")
    })
  })

  test("S125 run time exceeded: failed within a second of its limit, with an error that names it", async () => {
    const { scene } = makeActor()
    const { client } = await start([scene], { transport: newBoard() })
    const job = await client.submit("scene.sleeps", { timeLimit: 1 })
    expect(await job.outcome(WAIT)).toMatchObject({
      state: "failed",
      error: { name: "TimeLimitExceeded", message: expect.stringContaining("1 s") },
    })
    const { durations } = await job.find()
    expect(durations?.ran).toBeGreaterThanOrEqual(1)
    expect(durations?.ran).toBeLessThan(2)
  })

  // Decided: the record stays, with state `expired`. With `failureTtl` 0 the id is gone at once.
  test("S127 waiting time exceeded: it never runs, and has expired", async () => {
    const transport = newBoard()
    const { scene, ran } = makeActor()
    await using client = await connect(transport)
    const job = await client.submit("scene.add", { ttl: 1 })
    const gone = await client.submit("scene.add", { ttl: 1, failureTtl: 0 })
    expect(await job.find()).toMatchObject({ state: "queued", ttl: 1 })
    const { expires, submitted } = (await job.find()).times
    expect(Date.parse(expires ?? "") - Date.parse(submitted)).toBe(1_000)
    await eventually(() => Date.now() > Date.parse(expires ?? "") + 200, { message: "its time is over" })
    expect(await (await start([scene], { transport, burst: true })).stopped).toMatchObject({ finished: 0 })
    expect(ran).toEqual([])
    expect(await job.outcome(WAIT)).toEqual({ state: "expired" })
    expect(await job.find()).toMatchObject({ state: "expired", attempts: 0 })
    expect(await job.results()).toMatchObject([{ type: "EXPIRED" }])
    await eventually(
      () =>
        gone.find().then(
          () => false,
          (error: unknown) => expect(error).toMatchObject({ code: "gone" }) ?? true,
        ),
      {
        message: "the id is gone",
      },
    )
  })

  test("S127 lists and groups say that it has expired, where nothing else has looked", async () => {
    const { client, url = "" } = await start([], { transport: newBoard(), http: { port: 0 }, queues: ["other"] })
    const looks = {
      list: async () => (await client.jobs({ group: "list" })).jobs.map(({ state }) => state),
      http: async () => {
        const { jobs } = await (await fetch(`${url}/v1/jobs?group=http`)).json()
        return jobs.map(({ state }: { readonly state: string }) => state)
      },
      group: async () => Object.keys((await client.group("group").find()).states),
    }
    for (const group of Object.keys(looks)) await client.submit("scene.add", { ttl: 0.1, group })
    for (const look of Object.values(looks)) {
      // The first round of maintenance would come only after ten seconds.
      await expect.poll(look, { timeout: 5_000 }).toEqual(["expired"])
    }
    expect((await client.jobs({ states: ["queued"] })).jobs).toEqual([])
  })

  test("S127 a time to live that is none is refused", async () => {
    const { client, url = "" } = await start([], { transport: newBoard(), http: { port: 0 } })
    for (const fields of [{ ttl: 0 }, { ttl: -1 }, { ttl: "soon" }, { ttl: 1, expires: 2 }]) {
      const [first, ...others] = await refusals(client, url, "scene.add", fields)
      expect(first).toMatchObject({ code: "invalid-input", field: "ttl" })
      expect(others).toEqual([first, first])
    }
    expect(await waiting(client)).toBe(0)
  })

  test("a time to live is over once the job has started: its retries do not expire", async () => {
    const transport = newBoard()
    const { scene, ran } = makeActor()
    const { client } = await start([scene], { transport })
    const job = await client.submit("scene.fails", { ttl: 0.5, retry: { max: 1, interval: 2 } })
    const { submitted } = (await job.find()).times
    await eventually(() => Date.now() > Date.parse(submitted) + 1_300, { message: "its time to wait is over" })
    expect(await job.find()).toMatchObject({ state: "scheduled", retries: 1 })
    expect(await job.outcome(WAIT)).toMatchObject({ state: "failed", error: { message: "out of luck" } })
    expect(ran).toHaveLength(2)
    // A job whose worker has died does not expire either.
    const queue = "mortal"
    const [posting] = (await client.prepare([{ task: "scene.add", queue, ttl: 1, input: { a: 1, b: 2 } }])).postings
    if (posting === undefined) throw new Error("nothing was planned")
    const { id } = posting
    const { jobs } = client.connection
    await jobs.publish([posting])
    const [taken] = await jobs.take({ queues: [queue], max: 1, wait: 5_000 }, new AbortController().signal)
    if (taken === undefined) throw new Error("nothing was taken")
    const { token } = taken
    await jobs.claim([{ token, id, run: 1, retries: 0, worker: "dead", at: Date.now(), posting }])
    await eventually(() => Date.now() > (posting.expires ?? 0), { message: "its time to wait is over" })
    await jobs.settle([{ token, then: { kind: "hand-back", delay: 0 } }])
    await start([scene], { transport, queues: [queue] })
    expect(await client.job(id).outcome(WAIT)).toEqual({ state: "succeeded", result: 3 })
    // A job that is due later waits from then on.
    const later = await client.submit("scene.add", { input: { a: 1, b: 2 }, delay: 1, ttl: 60 })
    const { times } = await later.find()
    expect(Date.parse(times.expires ?? "") - Date.parse(times.due ?? "")).toBe(60_000)
    expect(await later.result(WAIT)).toBe(3)
  })

  test("S129 a value that cannot be serialised: finished, with a text that names what was left out", async () => {
    const { scene } = makeActor()
    const { client } = await start([scene], { transport: newBoard() })
    const job = await client.submit("scene.odd")
    const result = "Unserializable return value: result.items[1].at is a function, which cannot be sent"
    expect(await job.outcome(WAIT)).toEqual({ state: "succeeded", result })
    expect(await job.results()).toMatchObject([{ type: "SUCCESSFUL", result }])
    expect(await (await client.submit("scene.add", { input: { a: 1, b: 2 } })).result(WAIT)).toBe(3)
  })

  test("S116 what cannot run: each fails with its reason, and the worker goes on", async () => {
    const transport = newBoard()
    const { scene } = makeActor()
    const { client } = await start([scene], { transport, unknownGrace: 0 })
    const unknown = await client.submit("nowhere.run", { queue: "default" })
    expect(await unknown.outcome(WAIT)).toMatchObject({ state: "failed", error: { reason: "unknown-actor" } })
    const [broken] = (await client.prepare([{ task: "scene.add", id: "broken" }])).postings
    if (broken === undefined) throw new Error("nothing was planned")
    const body = new TextEncoder().encode("[[}, not JSON")
    await client.connection.jobs.publish([{ ...broken, message: { ...broken.message, body } }])
    const undecodable = client.job("broken")
    expect(await undecodable.outcome(WAIT)).toMatchObject({ state: "failed", error: { name: "Undecodable" } })
    expect(await undecodable.find()).toMatchObject({ dead: "malformed", description: "scene.add(…)" })
    expect(await undecodable.find()).not.toHaveProperty("input")
    expect(await (await client.submit("scene.add", { input: { a: 1, b: 2 } })).result(WAIT)).toBe(3)
  })

  test("S193 unique: accepted as the next run once the first is not kept any more, also where it waits", async () => {
    const transport = newBoard()
    const { scene, ran } = makeActor()
    const { client } = await start([scene], { transport })
    const plain = { id: "brief", resultTtl: 0, input: { a: 1, b: 2 } }
    const fields = { ...plain, unique: "id" } as const
    const gone = async () => {
      const found = await client
        .job("brief")
        .find()
        .catch(({ code }) => code)
      return found === "gone"
    }
    await client.submit("scene.add", fields)
    await eventually(gone, { message: "nothing is kept of the first run" })
    const parent = await client.submit("scene.add", { input: { a: 1, b: 1 }, delay: 60 })
    const again = await client.submit("scene.add", { ...fields, after: parent.id })
    expect(await again.find()).toMatchObject({ state: "deferred", run: 2 })
    await expect(client.submit("scene.add", fields)).rejects.toMatchObject({ code: "job-exists" })
    await parent.cancel({ release: true })
    await eventually(gone, { message: "nothing is kept of the second run" })
    await expect(client.submit("scene.add", plain)).rejects.toMatchObject({
      code: "job-exists",
      message: expect.stringContaining("is no longer kept"),
    })
    const last = await client.submit("scene.add", { ...fields, resultTtl: 60 })
    expect(await last.result(WAIT)).toBe(3)
    expect(await last.find()).toMatchObject({ run: 3 })
    expect(ran.filter((id) => id === "brief")).toHaveLength(3)
  })

  // Decided: with `unique` the error is `job-exists`. Without it the same task is a duplicate, another one `job-exists`.
  test("S193 unique: refused while the first is kept, accepted after its deletion as the next run", async () => {
    const transport = newBoard()
    const { scene, ran } = makeActor()
    const { client, url = "" } = await start([scene], { transport, queues: ["default"], http: { port: 0 } })
    const fields = { id: "u1", unique: "id", input: { a: 1, b: 2 } } as const
    const waits = await client.submit("scene.add", { ...fields, queue: "other" })
    const refused = async (state: string, submit: () => Promise<unknown>) =>
      expect(await confirmed(submit).catch((error: unknown) => error)).toMatchObject({
        code: "job-exists",
        details: { id: "u1", field: "unique" },
        message: `job u1 is ${state} and its id must be unique: delete it before you submit it again`,
      })
    await refused("queued", () => client.submit("scene.add", { ...fields, queue: "other" }))
    await refused("queued", () => connectHttp(url).submit("scene.add", { ...fields, queue: "other" }))
    await waits.delete()
    const first = await client.submit("scene.add", fields)
    expect(await first.result(WAIT)).toBe(3)
    await refused("succeeded", () => client.submit("scene.add", fields))
    await refused("succeeded", () => client.submit("scene.add", { ...fields, delay: 1 }))
    const [again, other] = await client.submitMany([
      { ...fields, task: "scene.add" },
      { task: "scene.add", input: { a: 2, b: 2 } },
    ])
    await refused("succeeded", () => Promise.reject(again))
    expect(other).toMatchObject({ state: "queued" })
    // Without `unique`.
    const { unique: _unique, ...plain } = fields
    expect((await client.submit("scene.add", plain)).receipt).toMatchObject({ duplicate: true, state: "succeeded" })
    await expect(client.submit("scene.fails", plain)).rejects.toMatchObject({ code: "job-exists" })
    await first.delete()
    const next = await client.submit("scene.add", fields)
    expect(next.receipt).not.toHaveProperty("duplicate")
    expect(await next.result(WAIT)).toBe(3)
    expect(await next.find()).toMatchObject({ run: 3, attempts: 1 })
    expect(ran.filter((id) => id === "u1")).toHaveLength(2)
  })

  test("S193 of twenty submissions at once one is accepted", async () => {
    const transport = newBoard()
    await using client = await connect(transport)
    await using second = await connect(transport)
    const results = await Promise.all(
      Array.from({ length: 20 }, (_, n) =>
        (n % 2 === 0 ? client : second).submit("scene.add", { id: "u1", unique: true, input: { a: 1, b: 2 } }).then(
          () => "accepted",
          (error: unknown) => (error instanceof Error && "code" in error ? error.code : error),
        ),
      ),
    )
    expect(results.filter((result) => result === "accepted")).toHaveLength(1)
    expect(results.filter((result) => result === "job-exists")).toHaveLength(19)
    await expect(client.submit("scene.add", { unique: "id" })).rejects.toMatchObject({
      code: "invalid-input",
      details: { field: "unique" },
    })
  })

  describe("S115 a synchronous client", () => {
    test("runs a job at once in its own process: finished, with its value and its time to live", async () => {
      const transport = newBoard()
      const { scene, ran } = makeActor()
      await using client = await connectSync(transport, { actors: [scene], resultTtl: 500, name: "here" })
      const job = await client.submit("scene.add", { input: { a: 1, b: 2 }, queue: "high", meta: { n: 1 } })
      expect(ran).toEqual([job.id])
      expect(job.receipt).toMatchObject({ id: job.id, state: "succeeded" })
      await using other = await connect(transport)
      const view = await other.job(job.id).find()
      expect(view).toMatchObject({ state: "succeeded", result: 3, queue: "high", sender: "here", meta: { n: 1 } })
      const { ended, keptUntil } = view.times
      expect(Date.parse(keptUntil ?? "") - Date.parse(ended ?? "")).toBe(500_000)
      expect(await other.job(job.id).results()).toMatchObject([{ type: "SUCCESSFUL", result: 3 }])
      expect((await other.queues()).filter(({ depth }) => depth > 0)).toEqual([])
    })

    test("a job that fails is a job with state failed, and no exception; it can run again elsewhere", async () => {
      const transport = newBoard()
      const { scene, ran } = makeActor()
      await using client = await connectSync(transport, { actors: [scene] })
      const job = await client.submit("scene.fails", { retry: { max: 1, interval: 0 } })
      expect(job.receipt.state).toBe("failed")
      expect(await job.outcome()).toMatchObject({ state: "failed", error: { message: "out of luck" } })
      expect(ran).toHaveLength(2)
      const unknown = await client.submit("nowhere.run")
      expect(unknown.receipt.state).toBe("failed")
      await start([scene], { transport })
      await job.retry()
      await eventually(async () => (await job.results()).length === 2, { message: "it has failed again" })
      expect((await job.results()).map(({ run }) => run)).toEqual([2, 1])
    })

    test("what its jobs submit runs here too; repeats leave their history; what is due later waits for a worker", async () => {
      const transport = newBoard()
      const { scene, ran } = makeActor()
      await using client = await connectSync(transport, { actors: [scene] })
      const parent = await client.submit("scene.breeds")
      const { child, result } = (await parent.result()) as { child: string; result: number }
      expect(result).toBe(2)
      expect(await client.job(child).find()).toMatchObject({ state: "succeeded", parentId: parent.id })
      const repeats = await client.submit("scene.round", { repeat: { times: 2, interval: 0 } })
      expect((await repeats.results()).map((run) => run.result)).toEqual([3, 2, 1])
      const before = ran.length
      const later = await client.submit("scene.add", { input: { a: 1, b: 2 }, delay: 0.5 })
      expect(later.receipt.state).toBe("scheduled")
      expect(ran).toHaveLength(before)
      await start([scene], { transport })
      expect(await later.result(WAIT)).toBe(3)
    })

    test("an id that is known is a duplicate, and runs once more after its deletion", async () => {
      const { scene, ran } = makeActor()
      await using client = await connectSync(newBoard(), { actors: [scene] })
      const fields = { id: "once", input: { a: 1, b: 2 } }
      await client.submit("scene.add", fields)
      expect((await client.submit("scene.add", fields)).receipt).toMatchObject({ duplicate: true, state: "succeeded" })
      await expect(client.submit("scene.add", { ...fields, unique: "id" })).rejects.toMatchObject({
        code: "job-exists",
      })
      await client.job("once").delete()
      expect((await client.submit("scene.add", { ...fields, unique: "id" })).receipt.state).toBe("succeeded")
      expect(await client.job("once").find()).toMatchObject({ run: 2 })
      expect(ran).toHaveLength(2)
    })

    test("a job of which nothing is kept has run, and its unique id is free again", async () => {
      const { scene, ran } = makeActor()
      await using client = await connectSync(newBoard(), { actors: [scene] })
      const fields = { id: "brief", unique: "id", resultTtl: 0, failureTtl: 0 } as const
      const sum = await client.submit("scene.add", { ...fields, input: { a: 1, b: 2 } })
      expect(sum.receipt.state).toBe("succeeded")
      await expect(sum.find()).rejects.toMatchObject({ code: "gone" })
      expect((await client.submit("scene.fails", { ...fields, retry: false })).receipt.state).toBe("failed")
      const last = await client.submit("scene.add", { ...fields, input: { a: 1, b: 2 }, resultTtl: 60 })
      expect(await last.find()).toMatchObject({ state: "succeeded", run: 3 })
      expect(ran).toEqual(["brief", "brief", "brief"])
    })

    test("of several submissions of an id at once one runs, and each is answered", async () => {
      const { scene, ran } = makeActor()
      await using client = await connectSync(newBoard(), { actors: [scene] })
      const fields = { id: "once", input: { a: 1, b: 2 } }
      const [first, second, unique, other] = await Promise.allSettled([
        client.submit("scene.add", fields),
        client.submit("scene.add", fields),
        client.submit("scene.add", { ...fields, unique: "id" }),
        client.submit("scene.fails", fields),
      ])
      expect(first).toMatchObject({ value: { receipt: { state: "succeeded" } } })
      expect(second).toMatchObject({ value: { receipt: { state: "succeeded", duplicate: true } } })
      expect(unique).toMatchObject({ reason: { code: "job-exists", details: { field: "unique" } } })
      expect(other).toMatchObject({ reason: { code: "job-exists", details: { field: "id" } } })
      expect(ran).toEqual(["once"])
    })

    test("a job that could not be stored is stored when it is submitted again, and does not run twice", async () => {
      const { scene, ran } = makeActor()
      await using client = await connectSync(newBoard(), { actors: [scene] })
      const fields = { id: "once", input: { a: 1, b: 2 } }
      vi.spyOn(client.connection.jobs, "decide").mockRejectedValueOnce(new TransportError("unavailable", "away"))
      await expect(client.submit("scene.add", fields)).rejects.toMatchObject({ code: "transport-unavailable" })
      await expect(client.submit("scene.fails", fields)).rejects.toMatchObject({ code: "job-exists" })
      const again = await client.submit("scene.add", fields)
      expect([again.receipt.state, await again.result()]).toEqual(["succeeded", 3])
      expect(ran).toEqual(["once"])
    })
  })
})
