/** What the record of a job tells, on every transport: what was asked for, when what happened, and how each run ended. */
import { actor, type JobView } from "callboard"
import { connectHttp } from "callboard/client"
import { describe, expect, test } from "vitest"
import { connect } from "../../runtime/client/client.ts"
import { confirmed } from "../support/confirmed.ts"
import { eventually } from "../support/servers/process.ts"
import { start } from "../support/services.ts"
import { onEveryBoard } from "./boards.ts"

const WAIT = { timeout: 30 } as const

const makeActor = () => {
  const release = Promise.withResolvers<void>()
  const begun = Promise.withResolvers<void>()
  const half = Promise.withResolvers<void>()
  const seen: Array<unknown> = []
  const scene = actor("scene", {
    methods: {
      add: ({ a, b }: { a: number; b: number }) => a + b,
      nothing: () => undefined,
      round: (_input: unknown, job) => job.run - 1,
      fails: (_input: unknown, job) => {
        throw new Error(`attempt ${job.attempt} fails`)
      },
      holds: async (_input: unknown, job) => {
        seen.push(job.meta)
        job.patchMeta({ step: "begun", both: "handler" })
        begun.resolve()
        await half.promise
        job.progress(0.5)
        await release.promise
        job.patchMeta({ step: "done", drop: null })
        seen.push(job.meta)
      },
      retries: (_input: unknown, job) => {
        seen.push(job.meta)
        job.patchMeta({ attempts: job.attempt })
        if (job.attempt < 3) throw new Error("again")
      },
      secret: { redact: ["password"], run: (_input: unknown) => "ok" },
      large: () => "x".repeat(70_000),
    },
  })
  return { scene, release, half, begun: begun.promise, seen }
}

const at = (time: string | undefined): number => Date.parse(time ?? "missing")

onEveryBoard((newBoard) => {
  test("S101 one job: what a waiting job tells, and a finished one", async () => {
    const transport = newBoard()
    const { scene } = makeActor()
    await using client = await connect(transport, { name: "shop" })
    const job = await client.submit("scene.add", {
      input: { b: 4, a: 3 },
      queue: "default",
      timeLimit: 180,
      resultTtl: -1,
      details: { order: 7 },
      book: { name: "orders", uuid: "b-1" },
      headers: { tenant: "acme" },
      meta: { note: 1 },
    })
    const waiting = await job.find()
    expect(waiting).toMatchObject({
      state: "queued",
      queue: "default",
      timeLimit: { hard: 180 },
      name: "scene.add",
      description: "scene.add(a=3, b=4)",
      details: { order: 7 },
      book: { name: "orders", uuid: "b-1" },
      headers: { tenant: "acme" },
      input: { a: 3, b: 4 },
      meta: { note: 1 },
      sender: "shop",
      resultTtl: -1,
      durations: {},
    })
    expect(waiting.times.enqueued).toBe(waiting.times.submitted)
    expect(await job.results()).toEqual([])
    await start([scene], { transport })
    expect(await job.result(WAIT)).toBe(7)
    const done = await job.find()
    const { submitted, enqueued, started, ended, modified, keptUntil } = done.times
    expect(at(submitted)).toBeLessThanOrEqual(at(enqueued))
    expect(at(enqueued)).toBeLessThanOrEqual(at(started))
    expect(at(started)).toBeLessThanOrEqual(at(ended))
    expect(modified).toBe(ended)
    expect(keptUntil).toBeUndefined()
    expect(done.durations).toEqual({
      waited: (at(started) - at(enqueued)) / 1_000,
      ran: (at(ended) - at(started)) / 1_000,
      total: (at(ended) - at(submitted)) / 1_000,
    })
    expect(done).toMatchObject({
      state: "succeeded",
      result: 7,
      timeLimit: { hard: 180 },
      details: { order: 7 },
      book: { name: "orders", uuid: "b-1" },
      sender: "shop",
      // The input of a job that has succeeded is not kept.
      description: "scene.add(…)",
    })
    expect(done).not.toHaveProperty("input")
    expect(await job.results()).toEqual([
      {
        run: 1,
        type: "SUCCESSFUL",
        attempts: 1,
        started,
        ended,
        ran: done.durations?.ran,
        worker: done.worker,
        execution: expect.stringMatching(/./),
        result: 7,
      },
    ])
    expect((await client.jobs({ states: ["succeeded"] })).jobs.map(({ id }) => id)).toEqual([job.id])
  })

  test("a job of an unnamed client shows its process; a scheduled one is not enqueued before its time", async () => {
    const transport = newBoard()
    const { scene } = makeActor()
    await using client = await connect(transport)
    const job = await client.submit("scene.add", { input: { a: 1, b: 2 }, delay: 1, description: "in a moment" })
    const waiting = await job.find()
    expect(waiting).toMatchObject({ state: "scheduled", description: "in a moment" })
    expect(waiting.sender).toMatch(/^gen\d+@/)
    expect(waiting.times).not.toHaveProperty("enqueued")
    await start([scene], { transport })
    await job.result(WAIT)
    const { times } = await job.find()
    expect(times.enqueued).toBe(times.due)
    expect(at(times.enqueued) - at(times.submitted)).toBe(1_000)
  })

  test("what a method hides is not shown, where the submitter knows the method", async () => {
    const transport = newBoard()
    const { scene } = makeActor()
    const { client } = await start([scene], { transport, queues: ["other"] })
    const job = await client.submit("scene.secret", {
      queue: "default",
      input: { user: "ada", password: "p", deep: [{ password: "q" }] },
    })
    const view = await job.find()
    expect(view.input).toEqual({ user: "ada", password: "***", deep: [{ password: "***" }] })
    expect(view.description).toBe('scene.secret(deep=[{"password":"***"}], password="***", user="ada")')
    const positional = await client.submit("scene.secret", { queue: "default", args: ["ada", "p", { password: "q" }] })
    expect((await positional.find()).input).toEqual({ args: ["***", "***", { password: "***" }], kwargs: {} })
    const lists = await client.submit("scene.secret", {
      queue: "default",
      args: [["p", [1, { password: "q", a: 1 }]], "p"],
    })
    const hidden = await lists.find()
    expect(hidden.input).toEqual({ args: [["***", ["***", { password: "***", a: 1 }]], "***"], kwargs: {} })
    expect(hidden.description).not.toMatch(/"[pq]"/)
  })

  test("the error of each attempt is told, and a failed job keeps its input", async () => {
    const transport = newBoard()
    const { scene } = makeActor()
    const { client } = await start([scene], { transport })
    const job = await client.submit("scene.fails", { input: [1], retry: { max: 2, interval: 0 } })
    await job.outcome(WAIT)
    const view = await job.find()
    const errors = view.transitions.flatMap(({ error }) => (error === undefined ? [] : [error.message]))
    expect(errors).toEqual(["attempt 1 fails", "attempt 2 fails"])
    expect(view).toMatchObject({ error: { message: "attempt 3 fails" }, input: [1], attempts: 3 })
    expect(await job.results()).toMatchObject([{ run: 1, type: "FAILED", attempts: 3 }])
  })

  test("S119 time to live of results: 0 gone at once, -1 for ever, a number as long as that", async () => {
    const transport = newBoard()
    const { scene } = makeActor()
    const { client } = await start([scene], { transport, resultTtl: 500 })
    const input = { a: 1, b: 2 }
    const none = await client.submit("scene.add", { input, resultTtl: 0 })
    const ever = await client.submit("scene.add", { input, resultTtl: -1 })
    const brief = await client.submit("scene.add", { input, resultTtl: 2 })
    const unset = await client.submit("scene.add", { input })
    // Who waits for it may still get the result; afterwards it is gone.
    expect(["succeeded", "gone"]).toContain((await none.outcome(WAIT)).state)
    await expect(none.find()).rejects.toMatchObject({ code: "gone" })
    await expect(none.results()).rejects.toMatchObject({ code: "gone" })
    expect(await brief.result(WAIT)).toBe(3)
    const { times } = await brief.find()
    expect(at(times.keptUntil) - at(times.ended)).toBe(2_000)
    await Promise.all([ever.result(WAIT), unset.result(WAIT)])
    expect((await ever.find()).times).not.toHaveProperty("keptUntil")
    const kept = (await unset.find()).times
    expect(at(kept.keptUntil) - at(kept.ended)).toBe(500_000)
    const gone = await eventually(
      () =>
        brief.find().then(
          () => undefined,
          (error: unknown) => error,
        ),
      { message: "the result is gone" },
    )
    expect(gone).toMatchObject({ code: "gone" })
    expect(Date.now() - at(times.ended)).toBeGreaterThanOrEqual(2_000)
    const listed = (await client.jobs({ states: ["succeeded"] })).jobs.map(({ id }) => id)
    expect(new Set(listed)).toEqual(new Set([ever.id, unset.id]))
  })

  test("S121 history: of twelve runs exactly the last ten results are kept, newest first", async () => {
    const transport = newBoard()
    const { scene } = makeActor()
    const { client } = await start([scene], { transport })
    const job = await client.submit("scene.round", { repeat: { times: 11, interval: 0 } })
    expect(await job.result(WAIT)).toBe(11)
    const results = await job.results()
    expect(results.map(({ result }) => result)).toEqual([11, 10, 9, 8, 7, 6, 5, 4, 3, 2])
    expect(results.map(({ run }) => run)).toEqual([12, 11, 10, 9, 8, 7, 6, 5, 4, 3])
    expect(new Set(results.map(({ type }) => type))).toEqual(new Set(["SUCCESSFUL"]))
    expect(new Set(results.map(({ execution }) => execution)).size).toBe(10)
    const times = results.map(({ ended }) => at(ended))
    expect(times).toEqual([...times].sort((a, b) => b - a))
    // The history goes with the job, and its id begins anew.
    await job.delete()
    await expect(job.results()).rejects.toMatchObject({ code: "gone" })
    const again = await client.submit("scene.round", { id: job.id })
    await again.result(WAIT)
    expect((await again.results()).map(({ run }) => run)).toEqual([13])
  })

  test("a job that runs once writes no history, and each run of a failed one is told", async () => {
    const transport = newBoard()
    const { scene } = makeActor()
    const { client } = await start([scene], { transport })
    const history = () => client.connection.store.list({ prefix: "history/", limit: 10 })
    const job = await client.submit("scene.fails")
    await job.outcome(WAIT)
    expect(await history()).toEqual([])
    await job.retry()
    await eventually(async () => (await job.results()).length === 2, { message: "it has failed twice" })
    expect((await job.results()).map(({ run, type, error }) => [run, type, error?.message])).toEqual([
      [2, "FAILED", "attempt 2 fails"],
      [1, "FAILED", "attempt 1 fails"],
    ])
    expect(await history()).toHaveLength(1)
    await job.delete()
    expect(await history()).toEqual([])
  })

  test("a run that was ended from outside is told as stopped or cancelled, between two runs as well", async () => {
    const transport = newBoard()
    const { scene, begun, half, release } = makeActor()
    const { client } = await start([scene], { transport })
    const stopped = await client.submit("scene.holds")
    await begun
    await eventually(async () => (await stopped.find()).state === "started", { message: "it is told to run" })
    await stopped.cancel()
    half.resolve()
    release.resolve()
    expect(await stopped.results()).toMatchObject([{ run: 1, type: "STOPPED" }])
    const waiting = await client.submit("scene.round", { repeat: { times: 3, interval: 600 } })
    // On nats the task of the first run may still be in its queue when the record of the second one is stored.
    const next = await eventually(
      async () => {
        const view = await waiting.find()
        return view.run === 2 && view.state === "scheduled" ? view : undefined
      },
      { message: "its second run waits" },
    )
    expect(next.repeat).toEqual({ times: 3, done: 1, left: 2 })
    // The result of the first run is there before the second one begins.
    expect(await waiting.results()).toMatchObject([{ run: 1, type: "SUCCESSFUL", result: 0 }])
    await waiting.cancel()
    expect((await waiting.results()).map(({ run, type }) => [run, type])).toEqual([
      [2, "CANCELLED"],
      [1, "SUCCESSFUL"],
    ])
  })

  test("a run that waits tells nothing of the one before: no worker, no start, and no time that it ran", async () => {
    const transport = newBoard()
    const { scene } = makeActor()
    const service = await start([scene], { transport })
    await using client = await connect(transport)
    const repeats = await client.submit("scene.round", { repeat: { times: 1, interval: 600 } })
    const failed = await client.submit("scene.fails", { retry: false })
    await failed.outcome(WAIT)
    await eventually(async () => (await repeats.find()).state === "scheduled", { message: "its second run waits" })
    await service.stop()
    await failed.retry()
    for (const job of [repeats, failed]) {
      const waiting = await job.find()
      expect(waiting).toMatchObject({ run: 2, durations: {} })
      expect(waiting).not.toHaveProperty("worker")
      expect(waiting.times).not.toHaveProperty("started")
      await job.cancel()
      const [ended] = await job.results()
      expect(ended).toEqual({ run: 2, type: "CANCELLED", attempts: 1, ended: expect.any(String) })
    }
  })

  test("an attempt ran until it failed, and waited since it was due, also where its job is cancelled before the next", async () => {
    const { scene } = makeActor()
    const { client } = await start([scene], { transport: newBoard() })
    const job = await client.submit("scene.fails", { retry: { max: 2, interval: [3, 600] } })
    await eventually(async () => (await job.find()).retries === 2, { message: "its third attempt waits" })
    const { times, durations } = await job.find()
    expect(durations?.waited).toBeLessThan(3)
    await eventually(() => Date.now() > at(times.started) + 3_000, { message: "it has waited for three seconds" })
    await job.cancel()
    const ended = await job.find()
    expect(ended.durations?.waited).toBe(durations?.waited)
    expect(ended.durations?.ran).toBeLessThan(3)
    expect(await job.results()).toMatchObject([{ type: "CANCELLED", ran: ended.durations?.ran }])
  })

  test("a result of more than 64 KiB is not kept beyond its run, and the job goes on", async () => {
    const transport = newBoard()
    const { scene } = makeActor()
    const { client } = await start([scene], { transport })
    const job = await client.submit("scene.large", { repeat: { times: 1, interval: 0 } })
    await job.result(WAIT)
    const [last, first] = await job.results()
    expect(last).toMatchObject({ run: 2, result: expect.stringMatching(/^x+$/) })
    expect(first).toMatchObject({ run: 1, type: "SUCCESSFUL", omitted: true })
    expect(first).not.toHaveProperty("result")
  })

  test("S122 waiting for a result: none within its time, at once where there is one, and nothing as null", async () => {
    const transport = newBoard()
    const { scene } = makeActor()
    await using client = await connect(transport)
    const job = await client.submit("scene.nothing")
    const began = performance.now()
    expect(await job.results({ wait: 1 })).toEqual([])
    const waited = performance.now() - began
    expect(waited).toBeGreaterThanOrEqual(1_000)
    expect(waited).toBeLessThan(5_000)
    const asked = job.results({ wait: 30 })
    await start([scene], { transport })
    expect(await asked).toMatchObject([{ type: "SUCCESSFUL", result: null }])
    expect((await job.results({ wait: 30 }))[0]?.result).toBeNull()
  })

  test("S136 repeat: twice, then it stays finished, with the repeats left in sight; a failing job runs once", async () => {
    const transport = newBoard()
    const { scene } = makeActor()
    const { client } = await start([scene], { transport })
    const job = await client.submit("scene.round", { repeat: { times: 1, interval: 0 } })
    expect(await job.result(WAIT)).toBe(1)
    expect(await job.find()).toMatchObject({ state: "succeeded", run: 2, repeat: { times: 1, done: 1, left: 0 } })
    const failing = await client.submit("scene.fails", { repeat: { times: 1, interval: 0 } })
    await failing.outcome(WAIT)
    expect(await failing.find()).toMatchObject({ state: "failed", run: 1, repeat: { times: 1, done: 0, left: 1 } })
  })

  describe("meta data", () => {
    test("submitter and handler change it while the job runs, and neither change is lost", async () => {
      const transport = newBoard()
      const { scene, begun, half, release, seen } = makeActor()
      const { client } = await start([scene], { transport })
      const job = await client.submit("scene.holds", { meta: { note: 1, drop: true } })
      await begun
      expect(seen).toEqual([{ note: 1, drop: true }])
      const told = (meta: JobView["meta"]) =>
        eventually(async () => expect.objectContaining({ ...meta }).asymmetricMatch((await job.find()).meta), {
          message: `it tells ${JSON.stringify(meta)}`,
        })
      await told({ note: 1, step: "begun" })
      expect(await job.patchMeta({ note: 2, both: "submitter" })).toMatchObject({
        state: "started",
        meta: { note: 2, step: "begun", both: "submitter" },
      })
      await told({ note: 2, step: "begun", both: "submitter" })
      await job.patchMeta({ more: { deep: 1 } })
      await job.patchMeta({ more: { deeper: 2 } })
      expect((await job.find()).state).toBe("started")
      half.resolve()
      const moved = await eventually(async () => (await job.find()).progress && job.find(), {
        message: "its progress shows as before",
      })
      expect(moved).toMatchObject({ meta: { note: 2, more: { deep: 1, deeper: 2 } }, progress: { fraction: 0.5 } })
      release.resolve()
      expect(await job.outcome(WAIT)).toEqual({ state: "succeeded", result: null })
      const done = await job.find()
      expect(done.meta).toEqual({ note: 2, both: "submitter", step: "done", more: { deep: 1, deeper: 2 } })
      expect(done.attempts).toBe(1)
      expect(seen[1]).toEqual({ note: 1, both: "handler", step: "done" })
      // Afterwards, too.
      expect(await job.patchMeta({ note: null })).toMatchObject({ state: "succeeded" })
      expect((await job.find()).meta).not.toHaveProperty("note")
    })

    test("a change of a job that waits is in its outcome, and stays over attempts with what the handler says", async () => {
      const transport = newBoard()
      const { scene, seen } = makeActor()
      await using client = await connect(transport)
      const job = await client.submit("scene.retries", { meta: { note: 1 }, retry: { max: 2, interval: 0 } })
      await job.patchMeta({ note: 2 })
      expect(await job.find()).toMatchObject({ state: "queued", meta: { note: 2 } })
      await start([scene], { transport })
      expect(await job.outcome(WAIT)).toEqual({ state: "succeeded", result: null })
      expect(await job.find()).toMatchObject({ meta: { note: 2, attempts: 3 }, attempts: 3, run: 1 })
      expect(seen.slice(0, 3)).toEqual([{ note: 2 }, { note: 2, attempts: 1 }, { note: 2, attempts: 2 }])
      // Also where the worker is there already, and the first attempt sees the change.
      const later = await client.submit("scene.retries", {
        meta: { note: 3 },
        delay: 1,
        retry: { max: 2, interval: 0 },
      })
      await later.patchMeta({ note: 4 })
      await later.outcome(WAIT)
      expect(seen.slice(3)).toEqual([{ note: 4 }, { note: 4, attempts: 1 }, { note: 4, attempts: 2 }])
      expect(await later.find()).toMatchObject({ meta: { note: 4, attempts: 3 }, attempts: 3 })
    })

    test("a job that was changed while it waits is listed once, and can be cancelled like any other", async () => {
      const transport = newBoard()
      const { scene, seen } = makeActor()
      await using client = await connect(transport)
      const job = await client.submit("scene.retries")
      const other = await client.submit("scene.add", { input: { a: 1, b: 2 } })
      await job.patchMeta({ note: 1 })
      const listed = (await client.jobs({ states: ["queued"] })).jobs
      expect(listed.map(({ id }) => id).toSorted()).toEqual([job.id, other.id].toSorted())
      expect(listed.find(({ id }) => id === job.id)?.meta).toEqual({ note: 1 })
      await job.cancel()
      await start([scene], { transport })
      expect(await other.result(WAIT)).toBe(3)
      expect(await job.find()).toMatchObject({ state: "cancelled", meta: { note: 1 }, attempts: 0 })
      expect(seen).toEqual([])
      await job.retry()
      expect(await job.outcome(WAIT)).toMatchObject({ state: "failed" })
      expect(seen).toEqual([{ note: 1 }])
    })

    test("what JSON cannot hold, and what is too large, is refused, and changes nothing", async () => {
      await using client = await connect(newBoard())
      const job = await client.submit("scene.add", { meta: { note: 1 } })
      for (const patch of [{ large: "x".repeat(70_000) }, { n: 1n }, { note: { reverting: () => undefined } }])
        await expect(job.patchMeta(patch)).rejects.toMatchObject({ code: "invalid-input", details: { field: "meta" } })
      expect((await job.find()).meta).toEqual({ note: 1 })
      await expect(client.job("unknown").patchMeta({})).rejects.toMatchObject({ code: "not-found" })
    })
  })

  test("over HTTP the record and its history are the same", async () => {
    const transport = newBoard()
    const { scene } = makeActor()
    const service = await start([scene], { transport, http: { port: 0 } })
    const remote = connectHttp(service.url ?? "")
    const fields = { id: "over-http", repeat: { times: 2, interval: 0 }, details: { n: 1 } }
    const job = await confirmed(() => remote.submit("scene.round", fields))
    expect(await job.result(WAIT)).toBe(2)
    const near = service.client.job(job.id)
    expect(await job.find()).toEqual(await near.find())
    expect(await job.results()).toEqual(await near.results())
    expect(await job.results()).toHaveLength(3)
    expect(await job.patchMeta({ seen: true })).toMatchObject({ meta: { seen: true } })
    await expect(remote.job("unknown").results()).rejects.toMatchObject({ code: "not-found" })
  })
})
