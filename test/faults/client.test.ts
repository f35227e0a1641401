/** What a client is told when a transport does half of what it was asked, or answers oddly. */
import { type Client, connect } from "callboard"
import { type Receipt, TransportError } from "callboard/transport"
import { afterEach, describe, expect, test } from "vitest"
import { generateId } from "../../runtime/id.ts"
import { faulty, sleep, withJobs } from "../support/faulty-board.ts"

const open: Array<Client> = []
afterEach(async () => {
  for (const each of open.splice(0)) await each.close()
})

const start = async (transports: ReturnType<typeof withJobs>): Promise<Client> => {
  const client = await connect(`faulty://${generateId()}`, { transports })
  open.push(client)
  return client
}

/** Answers each question after a moment, and counts how many were open at once. */
const crowd = () => {
  let [open, max] = [0, 0]
  return {
    ask: async <A>(ask: () => Promise<A>): Promise<A> => {
      max = Math.max(max, ++open)
      await sleep(5)
      open--
      return ask()
    },
    max: () => max,
  }
}

const THREE = [
  { task: "echo", id: "a" },
  { task: "echo", id: "b" },
  { task: "echo", id: "c" },
]

describe("a publish that goes wrong in part", () => {
  test("is told element by element", async () => {
    const failed = (reason: "too-large" | "unavailable"): Receipt => ({
      status: "failed",
      error: new TransportError(reason, reason, { outcome: reason === "unavailable" ? "unknown" : "none" }),
    })
    const client = await start(
      withJobs((jobs) => ({
        publish: async ([first, ..._rest]) => [
          ...(await jobs.publish(first === undefined ? [] : [first])),
          failed("too-large"),
          failed("unavailable"),
        ],
      })),
    )
    expect(await client.submitMany(THREE)).toMatchObject([
      { id: "a", state: "queued" },
      { code: "too-large", details: { id: "b" } },
      { code: "transport-unavailable", details: { id: "c", outcome: "unknown" } },
    ])
  })

  test("that answers for fewer than it was asked leaves the rest in doubt", async () => {
    const client = await start(withJobs((jobs) => ({ publish: async (all) => jobs.publish(all.slice(0, 1)) })))
    const [first, second] = await client.submitMany(THREE)
    expect(first).toMatchObject({ id: "a" })
    expect(second).toMatchObject({ code: "transport-unavailable", details: { id: "b", outcome: "unknown" } })
  })

  test("that rejects is an answer for each; what is no TransportError as well", async () => {
    const client = await start(withJobs(() => ({ publish: () => Promise.reject(new TypeError("a fault")) })))
    for (const answer of await client.submitMany(THREE)) {
      expect(answer).toMatchObject({ code: "transport-unavailable", details: { outcome: "none" } })
    }
    await expect(client.submit("echo", { id: "a" })).rejects.toMatchObject({ details: { id: "a" } })
  })
})

describe("what is asked before anything is submitted", () => {
  /** What the client reads first, answered otherwise. */
  const reading = (answer: <A>(ask: () => Promise<A>) => Promise<A>) =>
    faulty(({ store, jobs, ...transport }) => ({
      ...transport,
      store: { ...store, get: (keys) => answer(() => store.get(keys)) },
      jobs: { ...jobs, find: (id) => answer(() => jobs.find(id)) },
    }))

  test.each([
    ["where an actor's tasks go", {}],
    ["whether there is such a job", { id: "a", queue: "default" }],
  ])("and has no answer, such as %s, means that nothing was", async (_what, fields) => {
    const client = await start(
      reading(() => Promise.reject(new TransportError("unavailable", "no answer", { outcome: "unknown" }))),
    )
    await expect(client.submit("echo", fields)).rejects.toMatchObject({
      code: "transport-unavailable",
      details: { outcome: "none" },
    })
  })

  test("is asked together for all actors of one call", async () => {
    const many = Array.from({ length: 50 }, (_, n) => ({ task: `actor-${n}.run` }))
    const together = crowd()
    const client = await start(reading(together.ask))
    expect((await client.submitMany(many)).every((receipt) => "state" in receipt)).toBe(true)
    expect(together.max()).toBeGreaterThan(many.length / 2)
  })
})

test("a duplicate that cannot be looked up is in doubt, since it is stored", async () => {
  let published = false
  const client = await start(
    withJobs((jobs) => ({
      publish: async (all) => {
        published = true
        return all.map(() => ({ status: "duplicate" }))
      },
      find: (id) => (published ? Promise.reject(new TransportError("unavailable", "no answer")) : jobs.find(id)),
    })),
  )
  await expect(client.submit("echo", { id: "a" })).rejects.toMatchObject({
    code: "transport-unavailable",
    details: { id: "a", outcome: "unknown" },
  })
})

describe("ids", () => {
  test("given twice in one array refuse the array", async () => {
    const client = await start(faulty((same) => same))
    const twice = client.submitMany([...THREE, { task: "echo", id: "a" }])
    await expect(twice).rejects.toMatchObject({ code: "invalid-input", details: { index: 3, field: "id" } })
    expect((await client.jobs()).jobs).toEqual([])
  })

  test("of a thousand are looked up together", async () => {
    const many = Array.from({ length: 1_000 }, (_, n) => ({ task: "echo", id: `id-${n}` }))
    const together = crowd()
    const client = await start(withJobs((jobs) => ({ find: (id) => together.ask(() => jobs.find(id)) })))
    const receipts = await client.submitMany(many)
    expect(receipts.every((receipt) => "state" in receipt)).toBe(true)
    expect(together.max()).toBeGreaterThan(many.length / 2)
  })

  test("of a deleted job are the next run of two that submit at once, and for another task a conflict", async () => {
    const client = await start(faulty((same) => same))
    const job = await client.submit("echo", { id: "a" })
    await job.delete()
    const submitted = ["echo", "echo", "other"].map((task) => client.submit(task, { id: "a" }))
    const [first, second, other] = await Promise.allSettled(submitted)
    expect(first).toMatchObject({ value: { receipt: { id: "a", state: "queued" } } })
    expect(second).toMatchObject({ value: { receipt: { id: "a", duplicate: true } } })
    expect(other).toMatchObject({ reason: { code: "job-exists" } })
    expect(await job.find()).toMatchObject({ run: 2, state: "queued" })
  })

  test("of a deleted job whose next run the transport does not confirm are in doubt", async () => {
    const unavailable = new TransportError("unavailable", "cut off", { outcome: "unknown" })
    let isCut = false
    const client = await start(
      withJobs((jobs) => ({ decide: (all) => (isCut ? Promise.reject(unavailable) : jobs.decide(all)) })),
    )
    const job = await client.submit("echo", { id: "a" })
    await job.delete()
    isCut = true
    await expect(client.submit("echo", { id: "a" })).rejects.toMatchObject({
      code: "transport-unavailable",
      details: { id: "a", outcome: "unknown" },
    })
    isCut = false
    expect((await client.submit("echo", { id: "a" })).receipt).not.toHaveProperty("duplicate")
  })

  test("that two submit at once are one job, and for another task a conflict", async () => {
    const client = await start(faulty((same) => same))
    const submitted = ["echo", "echo", "other"].map((task) => client.submit(task, { id: "a" }))
    const [first, second, other] = await Promise.allSettled(submitted)
    expect(first).toMatchObject({ value: { receipt: { id: "a" } } })
    expect(second).toMatchObject({ value: { receipt: { id: "a", duplicate: true } } })
    expect(other).toMatchObject({ reason: { code: "job-exists" } })
  })
})
