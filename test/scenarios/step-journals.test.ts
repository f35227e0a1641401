import { actor, type Client, http, type Job, type ReceivedEvent } from "callboard"
import { describe, expect, onTestFinished, test } from "vitest"
import { generateId } from "../../runtime/id.ts"
import { JournalSweep } from "../../runtime/steps/journal-sweep.ts"
import { decodePage, journalPrefix } from "../../runtime/steps/page.ts"
import { faulty } from "../support/faulty-board.ts"
import { eventually } from "../support/servers/process.ts"
import { start } from "../support/services.ts"
import { Declined, runOnce, WAIT } from "./step-scene.ts"

describe("looking at the steps of a job", () => {
  const app = (client: Client) => http(client, { open: true })

  test("lists what has ended, by pages, with what came of it", async () => {
    const { client, job } = await runOnce(async (_input, job) => {
      await job.each("n", [1, 2, 3], (n) => ({ n }), { key: String, parallel: 1 })
      await job.step("large", () => "x".repeat(5_000))
      await job.step("bad", () => Promise.reject(new Declined("no")), { revert: () => undefined })
    })
    const first = await client.steps(job.id, { limit: 4 })
    expect(first).toMatchObject({
      run: 1,
      steps: [
        ...[1, 2, 3].map((n) => ({ name: `n/${n}`, state: "done", tries: 1, value: `{"n":${n}}` })),
        { name: "large", large: true },
      ],
    })
    const rest = await client.steps(job.id, { after: first.next ?? "" })
    expect(rest.steps).toMatchObject([{ name: "bad", state: "reverted", revert: true, error: { name: "Declined" } }])
    expect(rest.next).toBeUndefined()
    const answer = await app(client).request(`/v1/jobs/${job.id}/steps?limit=4&cursor=${first.next}`)
    expect(await answer.json()).toEqual(rest)
    const { next = "" } = first
    const other = await client.submit("steps", { id: `other-${job.id}`, delay: 600 })
    for (const [id, cursor] of [
      [job.id, "x"],
      [job.id, "3"],
      [other.id, next],
    ]) {
      const refused = await app(client).request(`/v1/jobs/${id}/steps?cursor=${cursor}`)
      expect([refused.status, await refused.json()]).toMatchObject([400, { code: "invalid-input", field: "cursor" }])
    }
    await expect(client.steps(other.id, { after: next })).rejects.toMatchObject({ details: { field: "cursor" } })
    await expect(client.steps(job.id, { limit: 0 })).rejects.toMatchObject({ details: { field: "limit" } })
    expect((await app(client).request("/v1/jobs/nowhere/steps")).status).toBe(404)
  })

  test("is told by events, metrics and why while they run", async () => {
    const gate = Promise.withResolvers<void>()
    const scene = actor("scene", {
      methods: {
        run: async (_input: unknown, job) => {
          await job.step("a", () => gate.promise, { revert: () => undefined })
          await job.step("b", () => Promise.reject(new Declined("no")), { retry: { max: 1, backoff: { base: 0 } } })
        },
      },
    })
    const service = await start([scene], { events: true, http: { port: 0 } })
    const { client } = service
    const told: Array<ReceivedEvent> = []
    const stop = new AbortController()
    onTestFinished(() => stop.abort())
    await client.listen((event) => void (event.type.startsWith("step-") && told.push(event)), stop.signal)
    const job = await client.submit("scene.run")
    const why = async () => (await client.why(job.id)).causes[0]?.message
    await expect.poll(why).toContain("in step a")
    gate.resolve()
    await job.outcome(WAIT)
    await expect.poll(() => told.length).toBe(6)
    expect(told).toMatchObject([
      { type: "step-started", uuid: job.id, step: "a" },
      { type: "step-done", step: "a", tries: 1, took: expect.any(Number) },
      { type: "step-started", step: "b" },
      { type: "step-failed", step: "b", tries: 2, exception: 'Declined("no")' },
      { type: "step-reverting", step: "a" },
      { type: "step-reverted", step: "a" },
    ])
    const metrics = await (await fetch(`${service.url}/metrics`)).text()
    for (const outcome of ["done", "failed", "reverted"])
      expect(metrics).toContain(`callboard_steps_total{task="scene.run",outcome="${outcome}"} 1`)
    expect(metrics).toContain('callboard_step_run_seconds_count{task="scene.run"} 3')
  })

  test("hides what the method hides", async () => {
    const hidden = await runOnce((_input, job) => job.step("a", () => ({ card: "4111", to: "Ada" })), {
      redact: ["card"],
    })
    expect((await hidden.client.steps(hidden.job.id)).steps[0]?.value).toBe('{"card":"***","to":"Ada"}')
  })
})

describe("what steps cost", () => {
  /** Counts the calls of the store and of the queue for one job. */
  const callsOf = async (run: (input: unknown, job: Job) => unknown, method: object = {}) => {
    const calls: Array<string> = []
    const counted = <T extends object>(part: T, name: string): T =>
      new Proxy(part, {
        get: (target, key) => {
          const found: unknown = Reflect.get(target, key)
          if (typeof found !== "function") return found
          return (...args: ReadonlyArray<unknown>) => {
            const text = JSON.stringify(args) ?? ""
            if (text.includes("flow/") || name === "jobs") calls.push(`${name}.${String(key)}`)
            return Reflect.apply(found, target, args)
          }
        },
      })
    const transports = faulty((transport) => ({
      ...transport,
      jobs: counted(transport.jobs, "jobs"),
      store: counted(transport.store, "store"),
    }))
    const { client } = await start([actor("scene", { methods: { run: { run, ...method } } })], {
      transport: `faulty://${generateId()}`,
      transports,
    })
    const job = await client.submit("scene.run")
    await job.outcome(WAIT)
    // The time to live of the journal is written after the end of the job.
    await new Promise((resolve) => setTimeout(resolve, 50))
    return calls.filter((call) =>
      ["jobs.claim", "jobs.settle", "store.write", "store.get", "store.list"].includes(call),
    )
  }

  test("a job without steps makes no call more, also where it fails or is retried", async () => {
    expect(await callsOf(() => 1)).toEqual(["jobs.settle"])
    expect(await callsOf(() => Promise.reject(new Error("no")))).toEqual(["jobs.settle"])
    const retried = await callsOf(() => Promise.reject(new Error("no")), { retry: { max: 1, interval: 0 } })
    expect(retried).toEqual(["jobs.settle", "jobs.claim", "jobs.settle"])
  })

  test("a step is one write, parallel ones share it, and the end is one more in the background", async () => {
    const one = await callsOf(async (_input, job) => [await job.step("a", () => 1), await job.step("b", () => 2)])
    expect(one).toEqual(["store.write", "store.write", "jobs.settle", "store.write"])
    const reverted = await callsOf((_input, job) => job.step("a", () => 1, { revert: () => undefined }))
    expect(reverted).toEqual(["jobs.claim", "store.write", "jobs.settle", "store.write"])
    const many = await callsOf((_input, job) =>
      job.each("n", Array.from({ length: 100 }).keys(), (n) => n, { key: String, parallel: 100 }),
    )
    expect(many.slice(0, many.indexOf("jobs.settle")).length).toBeLessThanOrEqual(6)
  })
})

test("10,000 steps are enough for anybody, and the one after them says what to do", async () => {
  const { error } = await runOnce(async (_input, job) => {
    await job.each("n", Array.from({ length: 10_000 }).keys(), () => 1, { key: String, parallel: 10_000 })
    await job.step("more", () => 1)
  })
  expect(error).toMatchObject({ name: "JournalFull", message: expect.stringContaining("at most 10000 steps") })
})

test("of 10,002 parallel steps the last two do not begin, and the others do", async () => {
  const { result } = await runOnce(async (_input, job) => {
    const steps = Array.from({ length: 10_002 }, (_, n) => job.step(`n${n}`, () => n))
    const ends = await Promise.allSettled(steps)
    return ends.flatMap((end, n) => (end.status === "rejected" ? [[n, String(end.reason)]] : []))
  })
  const refused = (n: number) => [n, expect.stringMatching(`^JournalFull: step n${n} does not start`)]
  expect(result).toEqual([refused(10_000), refused(10_001)])
})

test("64 MiB of results are enough, and the step after them does not begin", async () => {
  const big = "x".repeat(2 ** 19)
  let ran = 0
  const { view, client, job } = await runOnce(
    async (_input, job) => {
      for (let n = 0; n < 200; n++)
        await job.step(`n${n}`, () => {
          ran++
          return big
        })
    },
    { retry: { max: 1, interval: 0 } },
  )
  const message = expect.stringMatching(/n128 does not start.*at most 64 MiB: store large results elsewhere/)
  expect(view).toMatchObject({ retries: 1, error: { name: "JournalFull", message } })
  // The second attempt has counted the steps of the first one as well.
  expect(ran).toBe(128)
  expect((await client.steps(job.id, { limit: 1_000 })).steps).toHaveLength(128)
})

test("a journal whose job was ended from outside gets its time to live by the sweep", async () => {
  const begun = Promise.withResolvers<void>()
  const service = await start([
    actor("scene", {
      methods: {
        run: async (_input: unknown, job) => {
          await job.step("a", () => 1)
          begun.resolve()
          await new Promise((resolve) => job.signal.addEventListener("abort", resolve))
        },
      },
    }),
  ])
  const job = await service.client.submit("scene.run")
  await begun.promise
  const { connection } = service.client
  const page = async () => {
    const [found] = await connection.store.list({ prefix: journalPrefix(job.id, 1), limit: 1 })
    return found && decodePage(found.value)
  }
  const sweep = new JournalSweep()
  const round = async () => {
    for (let shard = 0; shard < 16; shard++) await sweep.round(connection)
  }
  await round()
  expect((await page())?.ended).toBeUndefined()
  await job.cancel()
  await round()
  expect((await page())?.ended).toBe(true)
})

test("a job whose journal a later version has written is handed back until a worker of that version has it", async () => {
  const ran: Array<string> = []
  const scene = actor("scene", {
    methods: {
      run: {
        retry: { max: 1, interval: 0 },
        run: async (_input: unknown, job: Job) => {
          await job.step("a", () => void ran.push("a"))
          if (job.retries === 0) {
            await rewrite((text) => text.replace('{"v":2,', '{"v":4,'))
            throw new Declined("again")
          }
          await job.step("b", () => void ran.push("b"))
        },
      },
    },
  })
  const { client } = await start([scene])
  const { store } = client.connection
  const rewrite = async (change: (text: string) => string): Promise<void> => {
    const [page] = await store.list({ prefix: journalPrefix(job.id, 1), limit: 1 })
    const value = new TextEncoder().encode(change(new TextDecoder().decode(page?.value)))
    await store.write([{ key: page?.key ?? "", value }])
  }
  const job = await client.submit("scene.run")
  const handedBack = async () => (await job.find()).transitions.filter(({ reason }) => reason === "handed-back")
  await eventually(async () => (await handedBack()).length >= 2, { message: "the job is handed back again" })
  const [first, second] = await handedBack()
  // The handler began a second after the first hand-back, and is to begin two seconds after the next one.
  expect(Date.parse(second?.at ?? "") - Date.parse(first?.at ?? "")).toBeGreaterThanOrEqual(900)
  await expect(client.steps(job.id)).rejects.toMatchObject({ code: "unsupported" })
  const sweep = new JournalSweep()
  for (let shard = 0; shard < 16; shard++) await sweep.round(client.connection)
  await rewrite((text) => text.replace('{"v":4,', '{"v":2,'))
  expect(await job.outcome(WAIT)).toMatchObject({ state: "succeeded" })
  expect(ran).toEqual(["a", "b"])
  expect(await job.find()).toMatchObject({ retries: 1 })
})
