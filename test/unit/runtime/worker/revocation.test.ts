/** Cancelling by id and revoking by header: before a run, in its middle, and for workers that start later. */
import { actor, connect } from "callboard"
import { describe, expect, test } from "vitest"
import { generateId } from "../../../../runtime/id.ts"
import { onEveryBoard } from "../../../scenarios/boards.ts"
import { eventually } from "../../../support/servers/process.ts"
import { start } from "../../../support/services.ts"

const WAIT = { timeout: 60 } as const

const makeActor = (ran: Array<string>) =>
  actor("revocable", {
    methods: {
      run: (_input: unknown, job) => {
        ran.push(job.id)
      },
      heeds: async (_input: unknown, job) => {
        ran.push(job.id)
        await new Promise((resolve) => job.signal.addEventListener("abort", resolve, { once: true }))
        ran.push(`${job.signal.reason}`)
        return "too late"
      },
    },
  })

onEveryBoard((newBoard) => {
  test("by id, before the run: a worker that starts later does not run it", async () => {
    const transport = newBoard()
    const ran: Array<string> = []
    const { client } = await start([], { transport })
    const job = await client.submit("revocable")
    await job.cancel()
    await start([makeActor(ran)], { transport })
    await (await client.submit("revocable")).outcome(WAIT)
    expect(ran).not.toContain(job.id)
    expect(await job.find()).toMatchObject({ state: "cancelled" })
  })

  test("by header: what waits ends when its turn comes, also at a worker that starts later, and nothing else does", async () => {
    const transport = newBoard()
    const ran: Array<string> = []
    const { client } = await start([], { transport })
    const submit = (headers: Record<string, unknown>) => client.submit("revocable", { headers })
    const meant = await Promise.all([
      submit({ tenant: "acme" }),
      submit({ tenant: ["other", "acme"] }),
      submit({ tenant: 7 }),
    ])
    // A stamped header of the same name does not hide the header.
    const both = generateId()
    const headers = { task: "revocable", id: both, stamps: { tenant: ["other"] }, tenant: "acme" }
    const properties = { content_type: "application/json", content_encoding: "utf-8" }
    const message = { headers, properties, body: new TextEncoder().encode("[[],{},null]") }
    await client.connection.jobs.publish([{ id: both, run: 1, retries: 0, queue: "default", level: 4, message }])
    const others = await Promise.all([submit({ tenant: "acme2" }), submit({ customer: "acme" }), submit({})])
    const revocation = await client.revoke({ header: "tenant", values: ["acme", 7] })
    expect(await client.revocations()).toEqual([revocation])
    await start([makeActor(ran)], { transport })
    for (const job of [...meant, client.job(both)]) expect(await job.outcome(WAIT)).toEqual({ state: "cancelled" })
    for (const job of others) expect(await job.outcome(WAIT)).toMatchObject({ state: "succeeded" })
    expect(new Set(ran)).toEqual(new Set(others.map(({ id }) => id)))
    const view = await meant[0]?.find()
    expect(view?.transitions.at(-1)).toMatchObject({ state: "cancelled", reason: "revoked" })
  })

  test("a revocation outlives the worker that heard of it, holds for what comes later, and ends when it is lifted", async () => {
    const transport = newBoard()
    const ran: Array<string> = []
    const { client } = await start([], { transport })
    const first = await start([makeActor(ran)], { transport })
    const { id } = await client.revoke({ header: "tenant", values: ["acme"] })
    const options = { headers: { tenant: "acme" } }
    await eventually(
      async () => (await (await client.submit("revocable", options)).outcome(WAIT)).state === "cancelled",
      {
        message: "the worker has heard of it",
      },
    )
    await first.stop()
    ran.length = 0
    await start([makeActor(ran)], { transport })
    expect(await (await client.submit("revocable", options)).outcome(WAIT)).toEqual({ state: "cancelled" })
    expect(ran).toEqual([])
    await client.lift(id)
    expect(await client.revocations()).toEqual([])
    await eventually(
      async () => (await (await client.submit("revocable", options)).outcome(WAIT)).state === "succeeded",
      {
        message: "the worker has heard that it is lifted",
      },
    )
    await expect(client.lift(id)).rejects.toMatchObject({ code: "not-found" })
  })

  test("a running job that falls under it is cancelled: its signal fires, its outcome is refused", async () => {
    const transport = newBoard()
    const ran: Array<string> = []
    const { client } = await start([makeActor(ran)], { transport })
    await using other = await connect(transport)
    const job = await client.submit("revocable.heeds", { headers: { tenant: "acme" } })
    await eventually(() => ran.length === 1, { message: "it runs" })
    await other.revoke({ header: "tenant", values: ["acme"] })
    await eventually(() => ran[1] === "AbortError: the job was cancelled", { message: "its signal fires" })
    expect(await job.outcome(WAIT)).toEqual({ state: "cancelled" })
  })
})

describe("a revocation that means nothing is refused by its field", () => {
  test.each<readonly [options: object, field: string, code?: string]>([
    [{ header: "", values: ["x"] }, "header"],
    [{ header: "x", values: [] }, "values[0]"],
    [{ header: "x", values: [{}] }, "values[0]"],
    [{ header: "x", values: Array.from({ length: 101 }, (_, at) => at) }, "values"],
    [{ header: "x", values: ["y"], ttl: 0 }, "ttl"],
    [{ header: "x", values: ["y"], ttl: "31 days" }, "ttl"],
    [{ header: "x", values: ["y"], ttl: "soon" }, "ttl"],
    [{ header: "x", values: ["y"], reason: "z" }, "reason", "unknown-field"],
  ])("%j", async (options, field, code = "invalid-input") => {
    const { client } = await start([])
    // Untyped, as it comes from HTTP.
    await expect(Reflect.apply(client.revoke, client, [options])).rejects.toMatchObject({
      code,
      details: { field },
    })
  })
})
