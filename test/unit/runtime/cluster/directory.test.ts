/** The directory: what a submitter finds in the store, what it caches, and what it must not cache. */

import { actor, connect } from "callboard"
import { afterEach, describe, expect, test, vi } from "vitest"
import { describeActor } from "../../../../runtime/actor/actor.ts"
import { Client } from "../../../../runtime/client/client.ts"
import { actorEntries, Directory, listActors, listWorkers } from "../../../../runtime/cluster/directory.ts"
import { generateId } from "../../../../runtime/id.ts"
import { TransportError } from "../../../../runtime/transport/mod.ts"
import type { Store } from "../../../../runtime/transport/store.ts"

const open: Array<AsyncDisposable> = []
afterEach(async () => {
  vi.useRealTimers()
  for (const each of open.splice(0).reverse()) await each[Symbol.asyncDispose]()
})

const text = actor("text", {
  queue: "texts",
  methods: { run: () => null, count: { queue: "counts", priority: 7, params: ["path"], run: () => 1 } },
})

const start = async () => {
  const { connection } = await connect(`memory://${generateId()}`)
  const { store } = connection
  let asked = 0
  let down = false
  const counted: Store = {
    ...store,
    get: (key) => {
      asked++
      return down ? Promise.reject(new TransportError("unavailable", "the store is down")) : store.get(key)
    },
  }
  const client = new Client({ ...connection, store: counted }, { ownsTransport: true })
  open.push(client)
  return {
    client,
    store: counted,
    register: () => store.write(actorEntries([describeActor(text)])),
    asked: () => asked,
    isDown: (is: boolean) => {
      down = is
    },
  }
}

describe("looking an actor up", () => {
  test("asks once, remembers for a moment, and then asks again", async () => {
    const { store, register, asked } = await start()
    vi.useFakeTimers({ toFake: ["performance"] })
    const directory = new Directory(store)
    expect(await Promise.all([directory.find("text"), directory.find("text")])).toEqual([undefined, undefined])
    expect(asked()).toBe(1)
    await register()
    expect(await directory.find("text")).toBeUndefined()
    vi.advanceTimersByTime(5_001)
    expect(await directory.find("text")).toMatchObject({ name: "text", queue: "texts" })
    expect(asked()).toBe(2)
  })

  test("of this process needs no store", async () => {
    const { store, asked } = await start()
    const directory = new Directory(store, [describeActor(text)])
    expect(directory.find("text")).toMatchObject({ queue: "texts" })
    expect(asked()).toBe(0)
  })

  test.each(["", "two words", "x".repeat(600), "a\u0000b", "../actor", "__proto__x/"])(
    "a name that no actor can have (%j) is not looked for",
    async (name) => {
      const { store, asked } = await start()
      expect(await new Directory(store).find(name)).toBeUndefined()
      expect(asked()).toBe(0)
    },
  )

  test("an entry that cannot be read is none", async () => {
    const { store } = await start()
    await store.write([{ key: "actor/text", value: new TextEncoder().encode('{"name": 7}') }])
    await store.write([{ key: "worker/w", value: new Uint8Array([0xff]) }])
    expect(await new Directory(store).find("text")).toBeUndefined()
    expect(await listActors(store)).toEqual([])
    expect(await listWorkers(store)).toEqual([])
  })

  test("remembers a bounded number of names", async () => {
    const { store, asked } = await start()
    const directory = new Directory(store)
    await directory.find("first")
    for (let n = 0; n < 1_000; n++) await directory.find(`actor-${n}`)
    await directory.find("first")
    expect(asked()).toBe(1_002)
  })
})

describe("a store that fails", () => {
  test("is not remembered: the next submission goes to the actor's queue", async () => {
    const { client, register, isDown } = await start()
    await register()
    isDown(true)
    await expect(client.submit("text", { id: "one" })).rejects.toMatchObject({
      code: "transport-unavailable",
      details: { id: "one", outcome: "none" },
    })
    isDown(false)
    const job = await client.submit("text", { id: "one" })
    expect(job.receipt).toEqual({ id: "one", state: "queued", durability: "none" })
    expect((await job.find()).queue).toBe("texts")
  })

  test("does not matter where the submission names the queue", async () => {
    const { client, isDown } = await start()
    isDown(true)
    const job = await client.submit("text", { queue: "mine", input: { secret: 1 } })
    // Without the description of the method it is not known which arguments it hides.
    expect(await job.find()).toMatchObject({ queue: "mine", input: { secret: "***" } })
  })

  test("does not make an actor unknown", async () => {
    const { client, isDown } = await start()
    isDown(true)
    const submitted = client.submit("text", { queue: "mine" }, { strict: true })
    await expect(submitted).rejects.toMatchObject({ code: "transport-unavailable" })
  })
})

test("a task goes to the queue, and with the priority, of its method", async () => {
  const { client, register } = await start()
  await register()
  const queueOf = async (task: string, fields = {}) => {
    const { queue, priority } = await (await client.submit(task, fields, { lenient: true })).find()
    return [queue, priority]
  }
  expect(await queueOf("text")).toEqual(["texts", 4])
  expect(await queueOf("text.count")).toEqual(["counts", 7])
  expect(await queueOf("text", { meth: "count", priority: 0 })).toEqual(["counts", 0])
  expect(await queueOf("text.unheard")).toEqual(["texts", 4])
  expect(await queueOf("nobody")).toEqual(["default", 4])
})
