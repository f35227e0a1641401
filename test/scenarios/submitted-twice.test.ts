/** Tasks that are submitted again under the id of a job, in each of its states, on every transport. */
import { actor, type Client, connect, type Service, serve } from "callboard"
import { afterEach, expect, test } from "vitest"
import { onEveryBoard } from "./boards.ts"

const open: Array<AsyncDisposable> = []
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each[Symbol.asyncDispose]()
})

const WAIT = { timeout: 30 }

onEveryBoard((newBoard) => {
  const start = async (): Promise<{ readonly client: Client; readonly service: Service; readonly runs: string[] }> => {
    const runs: Array<string> = []
    const echo = actor("echo", {
      methods: {
        run: (input: unknown, job) => {
          runs.push(job.id)
          return input
        },
        other: (input: unknown) => input,
        fail: () => {
          throw new TypeError("no")
        },
        wait: (_input: unknown, job) =>
          new Promise((resolve) => job.signal.addEventListener("abort", () => resolve(null), { once: true })),
      },
    })
    const url = newBoard()
    const service = await serve({ transport: url, actors: [echo], signals: false, logLevel: "none" })
    open.push({ [Symbol.asyncDispose]: async () => void (await service.stop({ now: true })) })
    await service.ready()
    const client = await connect(url)
    open.push(client)
    return { client, service, runs }
  }

  test("with the id of a callback or link that is to come are refused, until it is known that it does not come", async () => {
    const { client } = await start()
    const follows = { callbacks: [{ task: "echo.other", id: "later" }], chain: [{ task: "echo", id: "next" }] }
    const first = await client.submit("echo.wait", { id: "first", ...follows })
    for (const id of ["later", "next"])
      await expect(client.submit("echo", { id })).rejects.toMatchObject({
        code: "job-exists",
        message: expect.stringContaining("callback or link of another submission"),
        details: { id, field: "id" },
      })
    expect((await client.submit("echo.wait", { id: "first", ...follows })).receipt).toMatchObject({ duplicate: true })
    await first.cancel({ terminate: true })
    expect(await (await client.submit("echo", { id: "later", input: 1 })).result(WAIT)).toBe(1)
  })

  test("with the same task are duplicates, in whatever state the job is; with another one they are refused", async () => {
    const { client, runs } = await start()
    const stateAgain = async (task: string, fields: { readonly id: string; readonly [field: string]: unknown }) => {
      const { receipt } = await client.submit(task, fields)
      expect(receipt).toMatchObject({ id: fields.id, duplicate: true })
      return receipt.state
    }
    const done = { id: "done", input: { n: 1 } }
    expect(await (await client.submit("echo", done)).result(WAIT)).toEqual({ n: 1 })
    expect(await stateAgain("echo", done)).toBe("succeeded")
    for (const [task, fields] of [
      ["echo", { input: { n: 2 } }],
      ["echo", { input: { n: 1 }, callbacks: [{ task: "echo.other" }] }],
      ["echo.other", { input: { n: 1 } }],
      ["elsewhere", { input: { n: 1 } }],
    ] as const) {
      await expect(client.submit(task, { ...fields, id: "done" })).rejects.toMatchObject({
        code: "job-exists",
        details: { id: "done", field: "id" },
      })
    }
    expect(runs).toEqual(["done"])

    const failed = { id: "failed", input: { n: 1 } }
    expect(await (await client.submit("echo.fail", failed)).outcome(WAIT)).toMatchObject({ state: "failed" })
    expect(await stateAgain("echo.fail", failed)).toBe("failed")
    await expect(client.submit("echo.fail", { ...failed, input: { n: 2 } })).rejects.toMatchObject({
      code: "job-exists",
    })

    const later = { id: "later", delay: "1 hour" }
    await client.submit("echo", later)
    expect(await stateAgain("echo", later)).toBe("scheduled")
    await client.job("later").cancel()
    expect(await stateAgain("echo", later)).toBe("cancelled")
  })

  test("after a delete are accepted as the next run, whatever the job was", async () => {
    const { client, runs } = await start()
    const first = await client.submit("echo", { id: "a", input: 1 })
    expect(await first.result(WAIT)).toBe(1)
    await first.delete()
    await expect(first.find()).rejects.toMatchObject({ code: "gone" })
    expect(await first.outcome(WAIT)).toEqual({ state: "gone" })

    const second = await client.submit("echo", { id: "a", input: 2 })
    expect(second.receipt).toMatchObject({ id: "a", state: "queued" })
    expect(second.receipt).not.toHaveProperty("duplicate")
    expect(await second.result(WAIT)).toBe(2)
    expect(await second.find()).toMatchObject({ run: 2, state: "succeeded", attempts: 1 })
    expect((await client.submit("echo", { id: "a", input: 2 })).receipt).toMatchObject({ duplicate: true })
    expect(runs).toEqual(["a", "a"])

    // One that waits, and one that waits for another job.
    const later = await client.submit("echo", { id: "b", delay: "1 hour" })
    await later.delete()
    expect(await (await client.submit("echo", { id: "b", input: 3 })).result(WAIT)).toBe(3)
    const open = await client.submit("echo", { id: "open", delay: "1 hour" })
    const child = await client.submit("echo", { id: "c", after: open.id })
    await child.delete()
    const again = await client.submit("echo", { id: "c", after: "a", input: 4 })
    expect(again.receipt.state).toBe("deferred")
    expect(await again.result(WAIT)).toBe(4)
    expect(await again.find()).toMatchObject({ run: 2 })
  })

  test("whose record is not kept are refused, since the job has run", async () => {
    const { client, runs } = await start()
    const task = { id: "a", input: 1, resultTtl: 0 }
    await (await client.submit("echo", task)).outcome(WAIT)
    await expect(client.submit("echo", task)).rejects.toMatchObject({ code: "job-exists" })
    await expect(client.job("a").find()).rejects.toMatchObject({ code: "gone" })
    expect(runs).toEqual(["a"])
  })
})
