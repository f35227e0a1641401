/** A database that is removed or replaced while it is open: the loss is noticed and reported, and the next file is used. */

import { existsSync, mkdirSync, renameSync, rmSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { actor, connect as connectClient, serve } from "callboard"
import { afterAll, afterEach, describe, expect, test } from "vitest"
import { plugin } from "../../../../plugins/sqlite/mod.ts"
import type { Driver } from "../../../../runtime/transport/driver.ts"
import { TransportError } from "../../../../runtime/transport/mod.ts"
import { listingLog } from "../../../support/listing-log.ts"
import { eventually, temporaryFolder } from "../../../support/servers/process.ts"
import { ack, find, idOf, never, publish, take } from "./helpers.ts"

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

const connect = async (path: string): Promise<Driver> => {
  const driver = await plugin.connect(new URL(`sqlite:${path}`), options)
  opened.push(() => driver.close())
  return driver
}

/** Records the changes of a driver's status. The returned function waits for one. */
const follow = (driver: Driver) => {
  const told: Array<string> = []
  driver.onStatus((status, why) => told.push(why === undefined ? status : `${status}: ${why.message}`))
  return { told, until: (count: number) => eventually(() => told.length >= count, { message: `${count} changes` }) }
}

describe("a file that is removed", () => {
  test("is noticed within a second by waiting calls, which get the reason, and made anew", async () => {
    const path = freshFile()
    const driver = await connect(path)
    const { told, until } = follow(driver)
    await publish(driver, "before")
    await take(driver)
    const waiting = take(driver, { wait: 20_000 }).catch((error: unknown) => error)
    const began = performance.now()
    remove(path)
    const error = await waiting
    expect(performance.now() - began).toBeLessThan(1_000)
    expect(error).toBeInstanceOf(TransportError)
    expect(error).toMatchObject({ reason: "unavailable", message: expect.stringContaining("was removed or replaced") })
    await expect(find(driver, "before")).rejects.toBe(error)
    await until(2)
    expect(told).toEqual([expect.stringMatching(/^disconnected: .*\.db was removed or replaced/), "connected"])
    expect(existsSync(path)).toBe(true)
    expect(await find(driver, "before")).toBeUndefined()
    expect(await publish(driver, "after")).toEqual([{ status: "stored" }])
    const other = await connect(path)
    expect((await find(other, "after"))?.task).toBeDefined()
  })

  test("takes in nothing that is submitted later than a moment after", async () => {
    const path = freshFile()
    const driver = await connect(path)
    await publish(driver, "before")
    remove(path)
    const removed = performance.now()
    await eventually(() => performance.now() - removed > 100, { every: 5 })
    const [receipt] = await publish(driver, "late").catch((error: unknown) => [{ status: "failed", error }])
    expect(receipt).toMatchObject({ status: "failed", error: { reason: "unavailable", outcome: "none" } })
  })

  test("leaves listeners listening", async () => {
    const path = freshFile()
    const driver = await connect(path)
    const heard = new Set<string>()
    const ends = new AbortController()
    await driver.broadcast?.listen("news", (payload) => heard.add(new TextDecoder().decode(payload)), never)
    await driver.broadcast?.listen("news", () => heard.add("ended"), ends.signal)
    await driver.store.watch?.("key", ({ key }) => heard.add(key), never)
    await driver.listen({ kind: "jobs" }, (news) => heard.add("id" in news ? news.id : news.kind), never)
    ends.abort()
    const { until } = follow(driver)
    remove(path)
    await until(2)
    const other = await connect(path)
    const waiting = take(driver, { wait: 10_000 })
    await eventually(
      async () => {
        await other.broadcast?.send("news", new TextEncoder().encode("payload"))
        await other.store.write([{ key: "key-1", value: new Uint8Array(1) }])
        return heard.size >= 3
      },
      { message: "broadcast and store are heard" },
    )
    await publish(other, "job")
    expect(await waiting).toHaveLength(1)
    await eventually(() => heard.has("job"), { message: "jobs are heard" })
    expect([...heard].sort()).toEqual(["job", "key-1", "missed", "payload"])
  })

  test("ends with it what its deliveries meant: none of them is taken for one of the next", async () => {
    const path = freshFile()
    const driver = await connect(path)
    const { until } = follow(driver)
    await publish(driver, "old")
    const [old] = await take(driver)
    remove(path)
    await until(2)
    await publish(driver, "new")
    const [next] = await take(driver)
    expect(next?.token).not.toBe(old?.token)
    expect(await driver.extend([old?.token ?? "", next?.token ?? ""])).toEqual([false, true])
    expect(await driver.commit(old === undefined ? [] : [ack(old)])).toEqual([
      { status: "committed", revision: "", gone: true },
    ])
    expect(await driver.queues?.()).toMatchObject([{ queue: "q", held: 1 }])
  })

  test("with its folder is waited for", async () => {
    const inside = join(folder.path, `folder-${++files}`)
    mkdirSync(inside)
    const path = join(inside, "board.db")
    const driver = await connect(path)
    const { told, until } = follow(driver)
    rmSync(inside, { recursive: true })
    await until(1)
    await eventually(
      () =>
        take(driver)
          .then(() => false)
          .catch((error: Error) => /there is no such folder/.test(error.message)),
      {
        message: "it says what is missing",
      },
    )
    mkdirSync(inside)
    await until(2)
    expect(told[1]).toBe("connected")
    expect(await take(driver)).toEqual([])
  })

  test("and is closed meanwhile, stays closed", async () => {
    const path = freshFile()
    const driver = await connect(path)
    const { until } = follow(driver)
    remove(path)
    await until(1)
    await driver.close()
    expect(existsSync(path)).toBe(false)
    await expect(take(driver)).rejects.toMatchObject({ reason: "closed" })
  })
})

test("a file that another takes the place of is gone on with, and one that only moved for a moment is kept", async () => {
  const path = freshFile()
  const driver = await connect(path)
  const { told, until } = follow(driver)
  const fresh = freshFile()
  const other = await plugin.connect(new URL(`sqlite:${fresh}`), options)
  await publish(other, "theirs")
  await other.close()
  renameSync(path, `${path}.away`)
  renameSync(`${path}.away`, path)
  expect(await take(driver)).toEqual([])
  expect(told).toEqual([])
  remove(path, SIDES.slice(1))
  renameSync(fresh, path)
  await until(2)
  expect((await take(driver)).map(idOf)).toEqual(["theirs"])
})

test("a connection of the application stays lost, and says what to do", async () => {
  const path = freshFile()
  const handle = new DatabaseSync(path)
  handle.exec("PRAGMA journal_mode = WAL")
  opened.push(() => handle.close())
  const driver = await plugin.adopt?.(handle, options)
  if (driver === undefined) throw new Error("not adopted")
  opened.push(() => driver.close())
  const { told, until } = follow(driver)
  remove(path)
  await until(1)
  expect(told).toEqual([expect.stringMatching(/open the new file and start again$/)])
  await expect(take(driver)).rejects.toMatchObject({ reason: "unavailable" })
})

test("a worker whose file is removed says so, is red, and consumes what others submit to the file that comes after", {
  timeout: 40_000,
}, async () => {
  const path = freshFile()
  const { lines, log } = listingLog()
  const gate = Promise.withResolvers<void>()
  const steps = actor("steps", { methods: { run: () => "done", wait: () => gate.promise.then(() => "waited") } })
  const service = await serve({
    transport: `sqlite:${path}`,
    actors: [steps],
    signals: false,
    http: { port: 0 },
    log,
    // The first try to connect again makes the file anew, after the submission below.
    reconnect: { base: 1, cap: 1 },
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
  // A handler that ran when its job was lost ends, and its slot is free again.
  gate.resolve()
  await eventually(async () => (await held.find()).state === "succeeded", { message: "its outcome is stored" })
  await eventually(() => service.worker?.load.inFlight === 0)
  expect((await other.workers()).map(({ name }) => name)).toEqual([service.worker?.name])
})
