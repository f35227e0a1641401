/** Decisions about jobs from outside, against each other and against a worker that is at it at the same time. */
import { actor, connect, type Service, serve } from "callboard"
import { afterEach, describe, expect, test } from "vitest"
import type { Board } from "../../runtime/board.ts"
import type { Client } from "../../runtime/client/client.ts"
import { generateId } from "../../runtime/id.ts"
import { type JobRecord, step } from "../../runtime/protocol/record.ts"
import { cancelJob, deleteJob, patchMeta, rerunJob } from "../../runtime/steering.ts"
import { type Delivery, type Records, TransportError } from "../../runtime/transport.ts"
import { taskOf } from "../kit/task.ts"
import { eventually } from "../servers/process.ts"
import { gate } from "./hunt/board.ts"

const open: Array<AsyncDisposable> = []
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each[Symbol.asyncDispose]()
})

const start = async (): Promise<Client & { readonly transport: string }> => {
  const transport = `memory://${generateId()}`
  const client = await connect(transport)
  open.push(client)
  return Object.assign(client, { transport })
}

const work = async (transport: string, run: (input: unknown) => unknown): Promise<Service> => {
  const echo = actor("echo", { methods: { run } })
  const service = await serve({ transport, actors: [echo], signals: false, logLevel: "none" })
  open.push(service)
  await service.ready()
  return service
}

const withRecords = (board: Board, change: Partial<Records>): Board => ({
  ...board,
  records: { ...board.records, ...change },
})

const stored = async (client: Client, id: string): Promise<JobRecord> => {
  const found = await client.board.records.find(id)
  if (found === undefined) throw new Error(`there is no job ${id}`)
  return found.record
}

const take = async (client: Client): Promise<Delivery> => {
  const [delivery] = await client.board.queue.pull({ queues: ["default"], max: 1, wait: 0 }, AbortSignal.timeout(5_000))
  if (delivery === undefined) throw new Error("there is nothing to take")
  return delivery
}

describe("cancel", () => {
  test("takes a waiting task off the queue, keeps its message, and is final", async () => {
    const client = await start()
    const { id } = await client.submit("echo", { input: { a: 1 }, failureTtl: "1 minute" })
    const record = await cancelJob(client.board, id)
    expect(record).toMatchObject({ state: "cancelled", fence: "", keepMs: 60_000 })
    expect(record.timeline.at(-1)).not.toHaveProperty("reason")
    expect(await client.queues()).toEqual([])
    expect((await stored(client, id)).message).toBeDefined()
    await expect(cancelJob(client.board, id)).rejects.toMatchObject({ code: "already-terminal" })
  })

  test("of a job that was delivered refuses whatever its worker says later", async () => {
    const client = await start()
    const { id } = await client.submit("echo")
    const { token, fence } = await take(client)
    const record = await stored(client, id)
    await cancelJob(client.board, id)
    const late: JobRecord = { ...record, fence, state: "succeeded", endedAt: Date.now(), keepMs: 1_000 }
    const [settled] = await client.board.queue.settle([{ token, record: late, then: { kind: "ack" } }])
    expect(settled?.status).toBe("superseded")
    expect((await stored(client, id)).state).toBe("cancelled")
  })

  test("decides anew when outrun, and says who was first", async () => {
    const client = await start()
    const { id } = await client.submit("echo", { delay: 60 })
    let raced = false
    const board = withRecords(client.board, {
      change: async (changes) => {
        if (!raced) {
          raced = true
          await deleteJob(client.board, id)
        }
        return client.board.records.change(changes)
      },
    })
    await expect(cancelJob(board, id)).rejects.toMatchObject({ code: "gone" })
  })

  test("gives up on a job that changes at each try, instead of trying for ever", async () => {
    const client = await start()
    const { id } = await client.submit("echo", { delay: 60 })
    const board = withRecords(client.board, { change: async () => [{ status: "conflict" }] })
    await expect(cancelJob(board, id)).rejects.toMatchObject({ code: "internal", details: { id } })
  })

  test("fails as the transport does, whether it answers so or rejects", async () => {
    const client = await start()
    const { id } = await client.submit("echo", { delay: 60 })
    const error = new TransportError("unavailable", "down")
    const answers = withRecords(client.board, { change: async () => [{ status: "failed", error }] })
    await expect(cancelJob(answers, id)).rejects.toBe(error)
    const rejects = withRecords(client.board, { change: () => Promise.reject(error) })
    await expect(cancelJob(rejects, id)).rejects.toBe(error)
  })

  test("holds although nobody can be told", async () => {
    const client = await start()
    const { id } = await client.submit("echo", { delay: 60 })
    const mute: Board = {
      ...client.board,
      broadcast: { ...client.board.broadcast, send: () => Promise.reject(new Error("mute")) },
    }
    expect((await cancelJob(mute, id)).state).toBe("cancelled")
  })
})

describe("run again", () => {
  test("begins the next run: due now, without expiry, retries or what came of the last", async () => {
    const client = await start()
    const fields = { input: { n: 1 }, expires: 60, priority: 8, meta: { a: 1 }, headers: { x: "y" }, parentId: "p" }
    const { id } = await client.submit("echo", { ...fields, delay: 30 })
    await cancelJob(client.board, id)
    const record = await rerunJob(client.board, id)
    expect(record).toMatchObject({ run: 2, state: "queued", retries: 0, priority: 8, meta: { a: 1 }, parentId: "p" })
    for (const gone of ["endedAt", "keepMs", "expiresAt", "dueAt", "error"]) expect(record).not.toHaveProperty(gone)
    const { message } = await take(client)
    if ("undecodable" in message) throw new Error(message.undecodable)
    expect(message.headers).toMatchObject({ id, x: "y", callboard: { run: 2, meta: { a: 1 } } })
    expect([message.headers["eta"], message.headers["expires"]].every((time) => time == null)).toBe(true)
    expect(message.properties.priority).toBe(8)
  })

  test("is refused while it goes on, and where its input is not kept", async () => {
    const client = await start()
    const { id } = await client.submit("echo")
    await expect(rerunJob(client.board, id)).rejects.toMatchObject({ code: "job-exists" })
    await work(client.transport, (input) => input)
    await client.job(id).outcome({ timeout: 5 })
    await expect(rerunJob(client.board, id)).rejects.toMatchObject({ code: "unsupported" })
    await expect(rerunJob(client.board, "nobody")).rejects.toMatchObject({ code: "not-found" })
  })

  test("leaves what follows the run before to the delivery that finds it, and takes nothing of it along", async () => {
    const client = await start()
    const { id } = await client.submit("echo")
    const first = await take(client)
    const errback = taskOf({ id: generateId(), queue: "default", task: "echo" })
    const waiting = await stored(client, id)
    const ended = step(waiting, { at: Date.now(), state: "failed" })
    const outcome = { ...ended, fence: first.fence, endedAt: Date.now(), followUps: [errback] }
    // As if its worker had died between the record and the rest.
    await client.board.queue.settle([{ token: first.token, record: outcome, then: { kind: "release", delay: 0 } }])
    await rerunJob(client.board, id)
    await work(client.transport, () => "done")
    await eventually(async () => (await client.board.records.find(errback.id))?.record.state === "succeeded")
    await eventually(async () => (await stored(client, id)).state === "succeeded")
    expect(await stored(client, id)).not.toHaveProperty("followUps")
    expect(await client.queues()).toEqual([])
  })

  test("by two at once is one run", async () => {
    const client = await start()
    let ran = 0
    const { id } = await client.submit("echo", { delay: 60 })
    await cancelJob(client.board, id)
    const both = await Promise.allSettled([rerunJob(client.board, id), rerunJob(client.board, id)])
    expect(both.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"])
    await work(client.transport, () => ++ran)
    expect(await client.job(id).result({ timeout: 5 })).toBe(1)
    expect((await stored(client, id)).run).toBe(2)
  })

  test("while a delivery of the run before is still under way: the old one says nothing any more", async () => {
    const client = await start()
    const { id } = await client.submit("echo")
    const stale = await take(client)
    const before = await stored(client, id)
    await cancelJob(client.board, id)
    await rerunJob(client.board, id)
    const late: JobRecord = { ...before, fence: stale.fence, state: "failed", endedAt: Date.now(), keepMs: 1_000 }
    const [settled] = await client.board.queue.settle([{ token: stale.token, record: late, then: { kind: "ack" } }])
    expect(settled?.status).toBe("superseded")
    await work(client.transport, () => "second run")
    expect(await client.job(id).result({ timeout: 5 })).toBe("second run")
  })
})

describe("forget", () => {
  test("leaves a tombstone with nothing of the job's own, and the task does not run", async () => {
    const client = await start()
    const fields = { meta: { secret: 1 }, description: "secret", input: { secret: 1 } }
    const { id } = await client.submit("echo", fields)
    await deleteJob(client.board, id)
    expect(await client.queues()).toEqual([])
    expect(JSON.stringify(await stored(client, id))).not.toContain("secret")
    for (const decide of [cancelJob, rerunJob, deleteJob]) {
      await expect(decide(client.board, id)).rejects.toMatchObject({ code: "gone" })
    }
    await expect(patchMeta(client.board, id, {})).rejects.toMatchObject({ code: "gone" })
  })

  test("leaves what follows an outcome to the delivery that finds it, where a worker died before publishing that", async () => {
    const client = await start()
    const { id } = await client.submit("echo", { input: { secret: 1 } })
    const first = await take(client)
    const callback = taskOf({ id: generateId(), queue: "default", task: "echo" })
    const { message, ...record } = await stored(client, id)
    const ended = step(record, { at: Date.now(), state: "succeeded" })
    const outcome = { ...ended, result: "secret", fence: first.fence, endedAt: Date.now(), followUps: [callback] }
    // As if it had died between the record and the rest.
    await client.board.queue.settle([{ token: first.token, record: outcome, then: { kind: "release", delay: 0 } }])
    await deleteJob(client.board, id)
    expect(JSON.stringify(await stored(client, id))).not.toContain("secret")
    await work(client.transport, () => "followed")
    await eventually(async () => (await client.board.records.find(callback.id))?.record.state === "succeeded")
    expect(await client.queues()).toEqual([])
  })

  test("is refused while it runs", async () => {
    const client = await start()
    const finish = gate()
    await work(client.transport, () => finish.opened)
    const { id } = await client.submit("echo")
    await eventually(async () => (await stored(client, id)).state === "started")
    await expect(deleteJob(client.board, id)).rejects.toMatchObject({ code: "job-exists" })
    finish.open()
  })
})

describe("meta", () => {
  const ended = async (meta: Readonly<Record<string, unknown>>) => {
    const client = await start()
    const { id } = await client.submit("echo", { meta, delay: 60 })
    await cancelJob(client.board, id)
    return { client, id }
  }

  test("is changed by a merge patch: null removes, maps merge, everything else replaces", async () => {
    const { client, id } = await ended({ a: { b: 1, c: 2 }, d: [1, 2], e: "x" })
    await patchMeta(client.board, id, { a: { b: null, f: { g: 3, h: null } }, d: [3], e: { i: 1 }, j: null })
    expect((await stored(client, id)).meta).toEqual({ a: { c: 2, f: { g: 3 } }, d: [3], e: { i: 1 } })
  })

  test("keys that JavaScript knows are keys", async () => {
    const { client, id } = await ended({})
    const patched = await patchMeta(
      client.board,
      id,
      JSON.parse('{"__proto__": {"admin": true}, "constructor": {"x": 1}}'),
    )
    expect(Reflect.get(patched.meta ?? {}, "admin")).toBeUndefined()
    expect(Reflect.get({}, "admin")).toBeUndefined()
    expect((await stored(client, id)).meta).toHaveProperty(["constructor"], { x: 1 })
  })

  test("of a job that goes on is refused: its outcome would be written over it", async () => {
    const client = await start()
    const { id } = await client.submit("echo", { delay: 60 })
    await expect(patchMeta(client.board, id, { a: 1 })).rejects.toMatchObject({ code: "unsupported" })
  })
})
