/** A database that is removed or replaced while it is open: noticed, told, and gone on with in the file that comes after. */
import { existsSync, mkdirSync, renameSync, rmSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { actor, connect as connectClient, type Log, serve } from "callboard"
import { afterAll, afterEach, describe, expect, test } from "vitest"
import { plugin } from "../../../../plugins/sqlite/mod.ts"
import { type Transport, TransportError } from "../../../../runtime/transport/mod.ts"
import { taskOf } from "../../../kit/task.ts"
import { eventually, temporaryFolder } from "../../../support/servers/process.ts"

const folder = temporaryFolder()
afterAll(() => folder.remove())

const opened: Array<() => unknown> = []
afterEach(async () => {
  for (const close of opened.splice(0).reverse()) await close()
})

let files = 0
const freshFile = (): string => join(folder.path, `${++files}.db`)

const SIDES = ["", "-wal", "-shm"]
const remove = (path: string, sides = SIDES): void => {
  for (const side of sides) rmSync(`${path}${side}`, { force: true })
}

const options = { namespace: "callboard", lease: 30_000, name: "test", timeout: 2_000, reconnectDelay: () => 20 }

const connect = async (
  path: string,
): Promise<Transport & Required<Pick<Transport, "records" | "store" | "broadcast">>> => {
  const transport = await plugin.connect(new URL(`sqlite:${path}`), options)
  opened.push(() => transport.close())
  const { records, store, broadcast } = transport
  if (records === undefined || store === undefined || broadcast === undefined) throw new Error("parts are missing")
  return { ...transport, records, store, broadcast }
}

const never = new AbortController().signal
const pull = (transport: Transport, wait = 0) => transport.queue.pull({ queues: ["q"], max: 10, wait }, never)

/** Its changes of status, and how to wait for one. */
const follow = (transport: Transport) => {
  const told: Array<string> = []
  transport.onStatus((status, why) => told.push(why === undefined ? status : `${status}: ${why.message}`))
  return { told, until: (count: number) => eventually(() => told.length >= count, { message: `${count} changes` }) }
}

describe("a file that is removed", () => {
  test("is noticed within a second by whoever waits, told with the reason, and made anew", async () => {
    const path = freshFile()
    const transport = await connect(path)
    const { told, until } = follow(transport)
    await transport.queue.publish([taskOf({ id: "before", queue: "q" })])
    await pull(transport)
    const waiting = pull(transport, 20_000).catch((error: unknown) => error)
    const began = performance.now()
    remove(path)
    const error = await waiting
    expect(performance.now() - began).toBeLessThan(1_000)
    expect(error).toBeInstanceOf(TransportError)
    expect(error).toMatchObject({ reason: "unavailable", message: expect.stringContaining("was removed or replaced") })
    await expect(transport.records.find("before")).rejects.toBe(error)
    await until(2)
    expect(told).toEqual([expect.stringMatching(/^disconnected: .*\.db was removed or replaced/), "connected"])
    expect(existsSync(path)).toBe(true)
    expect(await transport.records.find("before")).toBeUndefined()
    expect(await transport.queue.publish([taskOf({ id: "after", queue: "q" })])).toEqual([{ status: "stored" }])
    const other = await connect(path)
    expect((await other.records.find("after"))?.record.state).toBe("queued")
  })

  test("takes in nothing that is submitted later than a moment after", async () => {
    const path = freshFile()
    const transport = await connect(path)
    await transport.queue.publish([taskOf({ id: "before", queue: "q" })])
    remove(path)
    const removed = performance.now()
    await eventually(() => performance.now() - removed > 100, { every: 5 })
    const [receipt] = await transport.queue
      .publish([taskOf({ id: "late", queue: "q" })])
      .catch((error: unknown) => [{ status: "failed", error }])
    expect(receipt).toMatchObject({ status: "failed", error: { reason: "unavailable", outcome: "none" } })
  })

  test("leaves those who listen listening", async () => {
    const path = freshFile()
    const transport = await connect(path)
    const heard = new Set<string>()
    const ends = new AbortController()
    await transport.broadcast.listen("news", (payload) => heard.add(new TextDecoder().decode(payload)), never)
    await transport.broadcast.listen("news", () => heard.add("ended"), ends.signal)
    await transport.store.watch("key", ({ key }) => heard.add(key), never)
    await transport.records.watch({}, ({ id }) => heard.add(id), never)
    ends.abort()
    const { until } = follow(transport)
    remove(path)
    await until(2)
    const other = await connect(path)
    const waiting = pull(transport, 10_000)
    await eventually(
      async () => {
        await other.broadcast.send("news", new TextEncoder().encode("payload"))
        await other.store.write([{ key: "key-1", value: new Uint8Array(1) }])
        return heard.size >= 2
      },
      { message: "broadcast and store are heard" },
    )
    await other.queue.publish([taskOf({ id: "job", queue: "q" })])
    expect(await waiting).toHaveLength(1)
    await eventually(() => heard.has("job"), { message: "records are heard" })
    expect([...heard].sort()).toEqual(["job", "key-1", "payload"])
  })

  test("ends with it what its deliveries meant: none of them is taken for one of the next", async () => {
    const path = freshFile()
    const transport = await connect(path)
    const { until } = follow(transport)
    await transport.queue.publish([taskOf({ id: "old", queue: "q" })])
    const [old] = await pull(transport)
    remove(path)
    await until(2)
    await transport.queue.publish([taskOf({ id: "new", queue: "q" })])
    const [next] = await pull(transport)
    expect(next?.token).not.toBe(old?.token)
    expect(await transport.queue.extend([old?.token ?? "", next?.token ?? ""])).toEqual([false, true])
    expect(await transport.queue.settle([{ token: old?.token ?? "", then: { kind: "ack" } }])).toEqual([
      { status: "gone" },
    ])
    expect(await transport.queue.stats?.()).toMatchObject([{ queue: "q", inFlight: 1 }])
  })

  test("with its folder is waited for", async () => {
    const inside = join(folder.path, `folder-${++files}`)
    mkdirSync(inside)
    const path = join(inside, "board.db")
    const transport = await connect(path)
    const { told, until } = follow(transport)
    rmSync(inside, { recursive: true })
    await until(1)
    await eventually(
      () =>
        pull(transport)
          .then(() => false)
          .catch((error: Error) => /there is no such folder/.test(error.message)),
      {
        message: "it says what is missing",
      },
    )
    mkdirSync(inside)
    await until(2)
    expect(told[1]).toBe("connected")
    expect(await pull(transport)).toEqual([])
  })

  test("and is closed meanwhile, stays closed", async () => {
    const path = freshFile()
    const transport = await connect(path)
    const { until } = follow(transport)
    remove(path)
    await until(1)
    await transport.close()
    expect(existsSync(path)).toBe(false)
    await expect(pull(transport)).rejects.toMatchObject({ reason: "closed" })
  })
})

test("a file that another takes the place of is gone on with, and one that only moved for a moment is kept", async () => {
  const path = freshFile()
  const transport = await connect(path)
  const { told, until } = follow(transport)
  const fresh = freshFile()
  const other = await plugin.connect(new URL(`sqlite:${fresh}`), options)
  await other.queue.publish([taskOf({ id: "theirs", queue: "q" })])
  await other.close()
  renameSync(path, `${path}.away`)
  renameSync(`${path}.away`, path)
  expect(await pull(transport)).toEqual([])
  expect(told).toEqual([])
  remove(path, SIDES.slice(1))
  renameSync(fresh, path)
  await until(2)
  expect((await pull(transport)).map(({ message }) => "headers" in message && message.headers["id"])).toEqual([
    "theirs",
  ])
})

test("a connection of the application stays lost, and says what to do", async () => {
  const path = freshFile()
  const handle = new DatabaseSync(path)
  handle.exec("PRAGMA journal_mode = WAL")
  opened.push(() => handle.close())
  const transport = await plugin.adopt?.(handle, options)
  if (transport === undefined) throw new Error("not adopted")
  opened.push(() => transport.close())
  const { told, until } = follow(transport)
  remove(path)
  await until(1)
  expect(told).toEqual([expect.stringMatching(/open the file that is there now, and start again with it$/)])
  await expect(pull(transport)).rejects.toMatchObject({ reason: "unavailable" })
})

test("a worker whose file is removed says so, is red, and consumes what others submit to the file that comes after", {
  timeout: 40_000,
}, async () => {
  const path = freshFile()
  const lines: Array<string> = []
  const add = (line: string) => void lines.push(line)
  const log: Log = {
    level: "info",
    enabled: () => true,
    debug: () => undefined,
    info: add,
    warn: add,
    error: add,
    with: () => log,
  }
  const gate = Promise.withResolvers<void>()
  const steps = actor("steps", { methods: { run: () => "done", wait: () => gate.promise.then(() => "waited") } })
  const service = await serve({
    transport: `sqlite:${path}`,
    actors: [steps],
    signals: false,
    http: { port: 0 },
    log,
    reconnect: { base: 0.02, cap: 0.2 },
  })
  opened.push(() => service.stop({ now: true }))
  await service.ready()
  const readiness = async () => (await fetch(`${service.url}/readyz`)).status
  await (await service.client.submit("steps.run")).result({ timeout: 10 })
  const held = await service.client.submit("steps.wait")
  await eventually(() => service.worker?.load.running === 1)
  remove(path)
  const began = performance.now()
  await eventually(async () => (await readiness()) === 503, { every: 2, message: "it is red" })
  const red = performance.now() - began
  await expect(service.client.submit("steps.run")).rejects.toMatchObject({
    code: "transport-unavailable",
    message: expect.stringContaining("was removed or replaced"),
    details: { outcome: "none" },
  })
  await eventually(async () => (await readiness()) === 200, { message: "it is green" })
  const green = performance.now() - began
  console.log(`a removed file: red after ${Math.round(red)} ms, green after ${Math.round(green)} ms`)
  expect(
    lines.filter((line) => /was removed or replaced while it was open.* Trying again in .* \(1\/100\)/.test(line)),
  ).toHaveLength(1)
  expect(lines).toContain("connected again")
  await using other = await connectClient(`sqlite:${path}`)
  expect(await (await other.submit("steps.run")).result({ timeout: 10 })).toBe("done")
  // What ran when its job was lost ends, and takes nobody's place.
  gate.resolve()
  await eventually(async () => (await held.find()).state === "succeeded", { message: "its outcome is stored" })
  await eventually(() => service.worker?.load.inFlight === 0)
  expect((await other.workers()).map(({ name }) => name)).toEqual([service.worker?.name])
})
