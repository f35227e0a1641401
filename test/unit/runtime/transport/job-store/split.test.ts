/** Queues of one transport and records of another keep the promises of a driver, and lose nothing between the two. */
import { describe, expect, test, vi } from "vitest"
import { memoryBoardOf, plugin } from "../../../../../plugins/memory/mod.ts"
import { connectTransport } from "../../../../../runtime/connection/connect.ts"
import { split } from "../../../../../runtime/transport/job-store/split.ts"
import {
  type ConnectOptions,
  type Driver,
  type Posting,
  type QueuePlugin,
  TransportError,
} from "../../../../../runtime/transport/mod.ts"
import { LeastBoard, leastDriver } from "../../../../kit/driver/least-driver.ts"
import { bytes, driverPosting, idOf, messageOf, type PostingFields, recordOf } from "../../../../kit/driver/task.ts"
import { MemoryQueues, memoryQueue } from "../../../../support/memory-queue.ts"

const boards = new Map<string, MemoryQueues>()
const boardOf = (namespace: string): MemoryQueues => {
  const board = boards.get(namespace) ?? new MemoryQueues()
  boards.set(namespace, board)
  return board
}

const url = new URL("memory://split")

const options = (namespace: string): ConnectOptions => ({ namespace, lease: 30_000, name: "test", timeout: 1_000 })

const opened = async (namespace: string, guardMs?: number) => {
  const queues = boardOf(namespace)
  const driver = await split(
    memoryQueue(queues, { lease: 30_000 }),
    await plugin.connect(url, options(namespace)),
    guardMs,
  )
  const take = async (wait = 5_000) => {
    const { deliveries } = await driver.take(
      { queues: ["a"], max: 1, wait, rotate: false },
      new AbortController().signal,
    )
    return deliveries[0]
  }
  return { queues, driver, take }
}

/** Tasks in the records that are due later. */
const scheduledOf = async (namespace: string): Promise<number> =>
  (await memoryBoardOf(url, namespace).jobs.queues()).reduce((sum, { scheduled }) => sum + scheduled, 0)

const job = (id: string, fields: Partial<PostingFields> = {}) => driverPosting({ id, queue: "a", ...fields })

describe("between queues and records", () => {
  test("a task that the broker did not confirm comes from the records, once", async () => {
    const { queues, driver, take } = await opened("unconfirmed", 300)
    queues.isAway = true
    expect(await driver.publish([job("one")])).toEqual([{ status: "stored" }])
    expect(queues.tasks).toEqual([])
    queues.isAway = false
    const delivery = await take()
    expect(delivery && idOf(delivery)).toBe("one")
    const { token = "" } = delivery ?? {}
    const record = recordOf(job("one"), "succeeded")
    expect(await driver.commit([{ id: "one", record, task: { kind: "ack", token } }])).toMatchObject([
      { status: "committed" },
    ])
    expect(await take(500)).toBeUndefined()
    expect((await driver.read(["one"], "all"))[0]?.task).toBeUndefined()
  })

  test("a follow-up that the broker did not confirm comes from the records, although its worker is gone", async () => {
    const { queues, driver, take } = await opened("follow-up", 300)
    await driver.publish([job("first")])
    const { token = "" } = (await take()) ?? {}
    queues.isAway = true
    const record = recordOf(job("first"), "succeeded")
    const [answer] = await driver.commit([{ id: "first", record, post: [job("next")], task: { kind: "ack", token } }])
    // The record decides the answer. Whether the broker has removed the task from its queue cannot be known.
    expect(answer).toMatchObject({ status: "committed", gone: true })
    await driver.close()
    queues.isAway = false
    const other = await opened("follow-up")
    const found = await other.take()
    expect(found && idOf(found)).toBe("next")
  })

  test("a task that the broker confirmed is not delivered twice, however long it waits", async () => {
    const { driver, take } = await opened("confirmed", 300)
    await driver.publish([job("one")])
    await expect.poll(async () => (await driver.read(["one"], "all"))[0]?.task?.due).toBeUndefined()
    const first = await take()
    expect(first && idOf(first)).toBe("one")
    expect(await take(800)).toBeUndefined()
  })

  test("of tasks that are stored together or not at all, those that are there already are named, and nothing else", async () => {
    const { queues, driver } = await opened("unique")
    queues.isAway = true
    await driver.publish([job("one")])
    const [answer] = await driver.commit([{ id: "one", post: [job("one"), job("two")], unique: true }])
    expect(answer).toEqual({ status: "conflict", known: ["one"] })
  })

  test("a task that another system has put into the queue is delivered, put off, and recorded", async () => {
    const { queues, driver, take } = await opened("foreign")
    const { message } = job("foreign")
    queues.add({ queue: "a", level: 0, message, sequence: 0 })
    const { token = "" } = (await take()) ?? {}
    await driver.commit([{ id: "foreign", task: { kind: "hand-back", token, delay: 300 } }])
    expect(await take(0)).toBeUndefined()
    const again = await take()
    expect(again && messageOf(again).body).toEqual(message.body)
    const record = recordOf(job("foreign"), "succeeded")
    const end = { kind: "ack", token: again?.token ?? "" } as const
    const [answer] = await driver.commit([{ id: "foreign", record, task: end }])
    expect(answer?.status).toBe("committed")
    const [known] = await driver.read(["foreign"], "all")
    expect([known?.record, known?.task]).toEqual([record.bytes, undefined])
  })

  test("a task of another system that is larger than the records allow is put off in hand", async () => {
    const { queues, driver, take } = await opened("large")
    const { message } = job("large")
    const body = new Uint8Array(driver.capabilities.maxTask + 1)
    queues.add({ queue: "a", level: 0, message: { ...message, body }, sequence: 0 })
    const { token = "" } = (await take()) ?? {}
    const released = await driver.commit([{ id: "large", task: { kind: "hand-back", token, delay: 400 } }])
    expect(released).toEqual([{ status: "committed", revision: "" }])
    expect(await take(0)).toBeUndefined()
    const again = await take()
    expect(again && messageOf(again).body).toHaveLength(body.length)
    await driver.close()
  })

  test("a delivery that came twice and is put off takes nothing away from the next task of its job", async () => {
    const { queues, driver, take } = await opened("put-off-twice")
    const [first, next] = [job("one"), job("one", { retries: 1 })]
    await driver.publish([first])
    const { token: running = "", sequence = 0 } = (await take()) ?? {}
    // The broker delivers the task again, as it does when a connection is lost.
    queues.add({ queue: "a", level: 0, message: first.message, sequence })
    const { token: again = "" } = (await take()) ?? {}
    const record = recordOf(first, "queued")
    await driver.commit([{ id: "one", record, post: [next], task: { kind: "ack", token: running } }])
    await driver.commit([{ id: "one", task: { kind: "hand-back", token: again, delay: 100 } }])
    const retry = await take()
    expect(retry && messageOf(retry).headers["retries"]).toBe(1)
    // The worker that gets the task that was put off finds that a later one has begun.
    const { token: over = "" } = (await take()) ?? {}
    expect(await driver.commit([{ id: "one", task: { kind: "ack", token: over } }])).toMatchObject([
      { status: "committed" },
    ])
    await driver.commit([{ id: "one", task: { kind: "hand-back", token: retry?.token ?? "", delay: 0 } }])
    const found = await take()
    expect(found && messageOf(found).headers["retries"]).toBe(1)
  })

  test("a task of Celery's protocol 1, whose id is in its body, is put off, too", async () => {
    const { queues, driver, take } = await opened("protocol-1")
    const body = bytes(JSON.stringify({ task: "tasks.add", id: "old", args: [1], kwargs: {}, retries: 0 }))
    const properties = { content_type: "application/json", content_encoding: "utf-8" }
    queues.add({ queue: "a", level: 0, message: { headers: {}, properties, body }, sequence: 0 })
    const { token = "" } = (await take()) ?? {}
    // The runtime finds no id in the headers, so that the name of the attempt stands in.
    await driver.commit([{ id: "a1a0a0.1.0", task: { kind: "hand-back", token, delay: 300 } }])
    expect(await take(0)).toBeUndefined()
    expect(await take()).toMatchObject({ queue: "a" })
  })

  test("a task whose putting off is tried again, since the answer was lost, is stored once", async () => {
    const records = await plugin.connect(url, options("put-off-again"))
    const { commit } = records
    let lost = 2
    vi.spyOn(records, "commit").mockImplementation(async (commits) => {
      const answers = await commit.call(records, commits)
      if (!commits.some(({ post }) => post) || lost-- <= 0) return answers
      const error = new TransportError("unavailable", "no answer", { outcome: "unknown" })
      return commits.map(() => ({ status: "failed" as const, error }))
    })
    const queues = boardOf("put-off-again")
    const driver = await split(memoryQueue(queues, { lease: 30_000 }), records)
    await driver.publish([job("one")])
    const [delivery] = (
      await driver.take({ queues: ["a"], max: 1, wait: 5_000, rotate: false }, new AbortController().signal)
    ).deliveries
    const end = { kind: "hand-back", token: delivery?.token ?? "", delay: 60_000 } as const
    for (let tried = 0; tried < 3; tried++) await driver.commit([{ id: "one", task: end }])
    // The parked task, and one copy of it.
    expect(await scheduledOf("put-off-again")).toBe(2)
    await driver.close()
  })

  test("a task that is published again comes once, although its message was taken before", async () => {
    const { driver, take } = await opened("published-twice", 300)
    await driver.publish([job("one")])
    expect(await take()).toMatchObject({ queue: "a" })
    expect(await driver.publish([job("one")])).toEqual([{ status: "duplicate" }])
    expect(await take(800)).toBeUndefined()
  })

  test("a message of another system that is no task takes away no task of a job with its id", async () => {
    const { queues, driver, take } = await opened("no-task")
    await driver.publish([job("one")])
    const { message } = job("one")
    queues.add({ queue: "a", level: 9, message: { ...message, headers: { id: "one" } }, sequence: 0 })
    const { token = "" } = (await take()) ?? {}
    await driver.commit([{ id: "dead", record: recordOf(job("dead"), "failed"), task: { kind: "ack", token } }])
    const found = await take()
    expect(found && idOf(found)).toBe("one")
  })

  test("while the broker is away an outcome is stored, although another task is put off in the same batch", async () => {
    const { queues, driver, take } = await opened("away")
    await driver.publish([job("one"), job("two")])
    const [one, two] = [await take(), await take()]
    queues.isAway = true
    const record = recordOf(job("one"), "succeeded")
    const answers = await driver.commit([
      { id: "one", record, task: { kind: "ack", token: one?.token ?? "" } },
      { id: "two", task: { kind: "hand-back", token: two?.token ?? "", delay: 1_000 } },
    ])
    expect(answers.map(({ status }) => status)).toEqual(["committed", "committed"])
    expect((await driver.read(["one"], "record"))[0]?.record).toEqual(record.bytes)
    queues.isAway = false
  })

  test("what is due later is kept by the records alone, and never asks the broker", async () => {
    const { queues, driver, take } = await opened("later")
    queues.isAway = true
    const due = Date.now() + 1_500
    await driver.publish([job("later", { due })])
    await expect.poll(async () => (await driver.read(["later"], "all"))[0]?.task?.due).toBe(due)
    expect(queues.tasks).toEqual([])
    await expect.poll(() => take(0)).toMatchObject({ queue: "a" })
  })

  test("due times are those of the records, whatever the clock of this machine says", async () => {
    const queues = boardOf("clock")
    const records = await plugin.connect(url, options("clock"))
    const behind = 3_600_000
    const recordsNow = () => Date.now() - behind
    vi.spyOn(records.store, "now").mockImplementation(async () => recordsNow())
    const given: Array<Posting> = []
    const store = (posting: Posting): Posting => {
      given.push(posting)
      return posting.due === undefined ? posting : { ...posting, due: posting.due + behind }
    }
    const { publish, commit } = records
    vi.spyOn(records, "publish").mockImplementation((postings) => publish.call(records, postings.map(store)))
    vi.spyOn(records, "commit").mockImplementation((commits) =>
      commit.call(
        records,
        commits.map(({ post, ...rest }) => (post === undefined ? rest : { ...rest, post: post.map(store) })),
      ),
    )
    const driver = await split(memoryQueue(queues, { lease: 30_000 }), records)
    const dueIn = () => given.splice(0).map(({ due = 0 }) => Math.round((due - recordsNow()) / 1_000))
    await driver.publish([job("later", { due: recordsNow() + 60_000 })])
    expect(queues.tasks).toEqual([])
    expect(dueIn()).toEqual([60])
    await driver.publish([job("now")])
    expect(dueIn()[0]).toBe(10)
    const request = { queues: ["a"], max: 1, wait: 5_000, rotate: false }
    const [delivery] = (await driver.take(request, new AbortController().signal)).deliveries
    const end = { kind: "hand-back", token: delivery?.token ?? "", delay: 5_000 } as const
    await driver.commit([{ id: "now", task: end }])
    expect(dueIn()).toEqual([5])
    await driver.close()
  })

  test("the broker and the records are one connection: the loss of either is a loss, and both must be back", async () => {
    const heard: Array<string> = []
    const listeners: Array<(status: "connected" | "disconnected") => void> = []
    const hears = (driver: Driver) => ({
      ...driver,
      onStatus: (listener: (typeof listeners)[0]) => {
        listeners.push(listener)
        return () => undefined
      },
    })
    const records = hears(leastDriver(new LeastBoard(), { lease: 1_000 }))
    const queue = memoryQueue(new MemoryQueues(), { lease: 1_000 })
    const driver = await split({ ...queue, onStatus: records.onStatus }, records)
    listeners.length = 0
    driver.onStatus((status) => heard.push(status))
    const [one, two] = listeners
    for (const [which, status] of [
      [one, "disconnected"],
      [two, "disconnected"],
      [one, "connected"],
      [two, "connected"],
    ] as const)
      which?.(status)
    expect(heard).toEqual(["disconnected", "connected"])
  })
})

test("a transport of queues alone is refused without records, and with records of its own kind", async () => {
  const closed: Array<string> = []
  const queues: QueuePlugin = {
    schemes: ["queues"],
    connect: async () => {
      const driver = memoryQueue(new MemoryQueues(), { lease: 1_000 })
      return { ...driver, close: async () => void closed.push(driver.name) }
    },
  }
  const transports = { queues }
  const connecting = (target: string) => connectTransport(target, { transports })
  await expect(connecting("queues://a")).rejects.toThrow(
    "it does not store records; add a transport that does: ?records=",
  )
  await expect(connecting("queues://a?records=nowhere")).rejects.toThrow('records: "nowhere" is not a URL')
  await expect(connecting("queues://a?records=queues://b")).rejects.toThrow("does not store records")
  for (const option of ["ns=there", "lease=5"]) {
    const records = encodeURIComponent(`memory://records?${option}`)
    await expect(connecting(`queues://a?records=${records}`)).rejects.toMatchObject({
      reason: "invalid",
      message: expect.stringMatching(`^memory-queue: records: .*${option.split("=")[0]}`),
    })
  }
  expect(closed).toHaveLength(6)
  const transport = await connecting("queues://a?records=memory://records&ns=here")
  expect(transport.name).toBe("memory-queue")
  await transport.close()
})
