/** A configured `failureTtl` holds however a job ends without a result: for each such way, how long its record is kept. */
import { actor, type Client, connect } from "callboard"
import { afterEach, describe, expect, test } from "vitest"
import { connectTransport } from "../../../runtime/connection/connect.ts"
import { type Connection, connectionOf } from "../../../runtime/connection/connection.ts"
import { generateId } from "../../../runtime/id.ts"
import type { Headers } from "../../../runtime/protocol/message.ts"
import { isTerminal } from "../../../runtime/protocol/state.ts"
import { collectLog } from "../../../runtime/testing/log.ts"
import { endBlocked } from "../../../runtime/worker/leases/blocked.ts"
import { eventually } from "../../support/servers/process.ts"
import { start } from "../../support/services.ts"

const HOUR_MS = 3_600_000
/** What the service is told, and what one of its methods says instead. */
const SERVICE = { failureTtl: "2 hours" }
const SERVICE_MS = 2 * HOUR_MS
const METHOD_MS = 3 * HOUR_MS

const kept = actor("kept", {
  methods: {
    run: () => {
      throw new Error("always")
    },
    plain: (input: { readonly n: number }) => input.n,
    longer: {
      failureTtl: "3 hours",
      input: {
        "~standard": { version: 1, vendor: "test", validate: () => ({ issues: [{ message: "never right" }] }) },
      },
      run: () => "never",
    },
    own: { failureTtl: "3 hours", run: () => "done" },
  },
})

const closing: Array<() => Promise<void>> = []
afterEach(async () => {
  for (const close of closing.splice(0)) await close()
})

/** How long the record of a job is kept, once it has ended. */
const keepOf = async (
  { client }: { readonly client: Pick<Client, "connection"> },
  id: string,
): Promise<number | undefined> =>
  eventually(
    async () => {
      const record = (await client.connection.jobs.find(id))?.record
      return record !== undefined && isTerminal(record.state) ? (record.keepMs ?? Number.NaN) : undefined
    },
    { message: "the job has ended" },
  )

/** Puts a task on its queue as a foreign client would: nothing of ours has checked it. */
const post = async ({ jobs }: Pick<Connection, "jobs">, id: string, headers: Headers): Promise<void> => {
  const properties = { content_type: "application/json", content_encoding: "utf-8" }
  const message = { headers, properties, body: new TextEncoder().encode("[[],{},{}]") }
  await jobs.publish([{ id, run: 1, retries: 0, queue: "default", level: 4, message }])
}

describe("in a worker", () => {
  test.each<readonly [what: string, task: string, fields: object, keepMs: number]>([
    ["a handler that fails", "kept", {}, SERVICE_MS],
    ["a task that says itself how long", "kept", { failureTtl: 60 }, 60_000],
    ["an input that its schema refuses", "kept.longer", {}, METHOD_MS],
    ["an actor that nobody serves", "nobody", {}, SERVICE_MS],
    ["a method that its actor does not have", "kept.missing", {}, SERVICE_MS],
  ])("%s", async (_what, task, fields, keepMs) => {
    const service = await start([kept], { ...SERVICE, unknownGrace: 0 })
    const { id } = await service.client.submit(task, { queue: "default", ...fields }, { lenient: true })
    expect(await keepOf(service, id)).toBe(keepMs)
  })

  test("what cannot be read as a task", async () => {
    const service = await start([kept], SERVICE)
    const id = generateId()
    await post(service.client.connection, id, { id, lang: "js" })
    expect(await keepOf(service, id)).toBe(SERVICE_MS)
  })

  test("a task whose time has passed when it comes, and one that is revoked", async () => {
    const service = await start([kept], SERVICE)
    const late = generateId()
    await post(service.client.connection, late, {
      id: late,
      task: "kept",
      meth: "own",
      lang: "js",
      expires: "2020-01-01T00:00:00Z",
    })
    expect(await keepOf(service, late)).toBe(METHOD_MS)
    await service.client.revoke({ header: "tenant", values: ["a"] })
    const revoked = await service.client.submit("kept.own", { headers: { tenant: "a" }, delay: 0.2 })
    expect(await keepOf(service, revoked.id)).toBe(METHOD_MS)
  })

  test("a job that waits for another that is not kept any more", async () => {
    const service = await start([kept], SERVICE)
    const { client } = service
    const parent = await client.submit("kept.own", { delay: 60 })
    const child = await client.submit("kept.own", { after: parent.id })
    const plain = await client.submit("kept.plain", { after: parent.id, errbacks: [{ task: "kept.own" }] })
    await parent.delete()
    expect(await keepOf(service, child.id)).toBe(METHOD_MS)
    expect(await keepOf(service, plain.id)).toBe(SERVICE_MS)
  })

  test("a job that blocks its worker past its hard limit", async () => {
    const transport = await connectTransport(`memory://${generateId()}`)
    closing.push(() => transport.close())
    const connection = connectionOf(transport)
    const id = generateId()
    await post(connection, id, { id, task: "kept", lang: "js" })
    const signal = AbortSignal.timeout(10_000)
    const [delivery] = await transport.jobs.take({ queues: ["default"], max: 1, wait: 5_000 }, signal)
    if (delivery === undefined) throw new Error("nothing came")
    const { token, fence } = delivery
    const run = {
      token,
      fence,
      id,
      startedAt: Date.now(),
      hardSeconds: 1,
      rejects: true,
      keepMs: METHOD_MS,
      once: false,
    }
    const blocked = { worker: "w1", runAt: () => run, held: [token], runs: [] }
    await endBlocked(Promise.resolve(transport), blocked, collectLog().log)
    const record = (await connection.jobs.find(id))?.record
    expect(record).toMatchObject({ dead: "timeout", keepMs: METHOD_MS })
    expect(record?.timeline.find(({ state }) => state === "started")).toMatchObject({ worker: "w1" })
  })
})

describe("by a decision from outside", () => {
  /** A board without a worker, with a client that has a configuration of its own. */
  const idle = async (failureTtl: string | number) => {
    const client = await connect(`memory://${generateId()}`, { failureTtl })
    closing.push(() => client.close())
    return { client }
  }

  test.each<readonly [what: string, failureTtl: string | number, keepMs: number]>([
    ["as long as the client says", "2 hours", SERVICE_MS],
    ["for ever", -1, -1],
  ])("cancelled, purged and expired: %s", async (_what, failureTtl, keepMs) => {
    const there = await idle(failureTtl)
    const { client } = there
    const cancelled = await client.submit("far.away")
    await cancelled.cancel()
    expect(await keepOf(there, cancelled.id)).toBe(keepMs)
    const expired = await client.submit("far.away", { expires: 0.01 })
    await eventually(async () => (await expired.find()).state === "expired", { message: "it expires" })
    expect(await keepOf(there, expired.id)).toBe(keepMs)
    const purged = await client.submit("far.away")
    expect(await client.purge("default")).toBe(1)
    expect(await keepOf(there, purged.id)).toBe(keepMs)
  })

  test("of a service, as its methods say", async () => {
    const service = await start([kept], SERVICE)
    const [own, other] = [
      await service.client.submit("kept.own", { delay: 60 }),
      await service.client.submit("far.away", { delay: 60 }),
    ]
    await Promise.all([own.cancel(), other.cancel()])
    expect([await keepOf(service, own.id), await keepOf(service, other.id)]).toEqual([METHOD_MS, SERVICE_MS])
  })

  test("a time that is none is refused by its name", async () => {
    await expect(connect("memory:", { failureTtl: "soon" })).rejects.toMatchObject({
      code: "invalid-input",
      details: { field: "failureTtl" },
    })
  })
})
