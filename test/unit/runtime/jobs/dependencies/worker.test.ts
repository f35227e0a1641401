/** How a worker releases the dependents of its jobs, also while its transport is slow or away. */
import { actor, connect } from "callboard"
import { afterEach, describe, expect, test } from "vitest"
import { generateId } from "../../../../../runtime/id.ts"
import { EdgeWatch } from "../../../../../runtime/jobs/dependencies/edge-watch.ts"
import { writeEdges } from "../../../../../runtime/jobs/dependencies/edges.ts"
import { makeLog } from "../../../../../runtime/log/log.ts"
import { TransportError } from "../../../../../runtime/transport/mod.ts"
import type { Store } from "../../../../../runtime/transport/store.ts"
import { Dependents } from "../../../../../runtime/worker/maintenance/dependents.ts"
import { Faults, faultyPlugin } from "../../../../support/faults.ts"
import { eventually } from "../../../../support/servers/process.ts"
import { start } from "../../../../support/services.ts"
import { type Bench, failing, openBench, unavailable } from "./bench.ts"

const ends: Array<AbortController> = []
afterEach(() => {
  for (const end of ends.splice(0)) end.abort()
})
const untilEnd = (): AbortSignal => {
  const end = new AbortController()
  ends.push(end)
  return end.signal
}

const log = makeLog({ level: "none" })

const step = actor("step", { methods: { run: ({ name }: { readonly name: string }) => name } })

test("a worker that ends when nothing is left waits for what its own jobs let go of, however slow the transport is", async () => {
  const faults = new Faults()
  const transport = `faulty://${generateId()}`
  const transports = { faulty: faultyPlugin(faults) }
  await using client = await connect(transport, { transports })
  await client.submit("step.run", { id: "a", input: { name: "a" } })
  await client.submit("step.run", { id: "b", input: { name: "b" }, after: "a" })
  await client.submit("step.run", { id: "c", input: { name: "c" }, after: "b" })
  faults.before = async (call) => {
    if (call === "store.list" || call === "jobs.decide") await new Promise((resolve) => setTimeout(resolve, 50))
  }
  await (await start([step], { transport, transports, burst: true })).stopped
  expect((await client.jobs()).jobs.map(({ state }) => state)).toEqual(["succeeded", "succeeded", "succeeded"])
})

describe("what a worker cannot do at once", () => {
  const setUp = async () => {
    const bench = await openBench(`memory://${generateId()}`)
    const parent = await bench.submit("parent")
    const child = await bench.submit("child", { after: parent.id })
    const dependents = new Dependents({ connection: bench.faulty, log, signal: untilEnd() })
    await eventually(() => !dependents.isBusy, { message: "it has read all edges" })
    return { bench, parent, child, dependents }
  }
  const isAway = ({ faults }: Bench) => {
    faults.before = (call) => {
      if (call !== "store.watch") throw unavailable()
    }
  }

  test("it does at the next round", async () => {
    const { bench, child, dependents } = await setUp()
    isAway(bench)
    dependents.stored(await bench.end("succeeded"))
    await dependents.end()
    expect(await bench.stateOf(child)).toBe("deferred")
    await expect(dependents.look()).rejects.toMatchObject({ reason: "unavailable" })
    bench.faults.heal()
    await dependents.look()
    await dependents.end()
    expect(await bench.stateOf(child)).toBe("queued")
  })

  test("it asks for once, not for each job that ends meanwhile", async () => {
    const { bench, dependents } = await setUp()
    const others = [await bench.submit("other"), await bench.submit("other")]
    for (const { id } of others) await bench.submit("child", { after: id })
    isAway(bench)
    dependents.stored(await bench.end("succeeded"))
    await dependents.end()
    const calls = bench.faults.calls.get("store.list")
    for (const _other of others) dependents.stored(await bench.end("succeeded"))
    await dependents.end()
    expect(bench.faults.calls.get("store.list")).toBe(calls)
  })

  test("and never can, it leaves to the sweep, so that the others need not wait", async () => {
    const { bench, dependents } = await setUp()
    const other = await bench.submit("other")
    const child = await bench.submit("child", { after: other.id })
    bench.faults.before = failing("store.list", 1, () => new TransportError("internal", "a fault of the plugin")).strike
    dependents.stored(await bench.end("succeeded"))
    await dependents.end()
    dependents.stored(await bench.end("succeeded"))
    await dependents.end()
    expect(await bench.stateOf(child)).toBe("queued")
  })

  test("another one's sweep does, should it end before", async () => {
    const { bench, child, dependents } = await setUp()
    isAway(bench)
    dependents.stored(await bench.end("succeeded"))
    await dependents.end()
    bench.faults.heal()
    await bench.look()
    expect(await bench.stateOf(child)).toBe("queued")
  })
})

describe("the filter of who is waited for", () => {
  const watchOf = async (bench: Bench, connection = bench.faulty) => {
    const late: Array<string> = []
    const watch = new EdgeWatch({
      connection,
      log,
      onLate: (parent) => late.push(parent),
      signal: untilEnd(),
    })
    return { watch, late }
  }

  test("knows those from before and those from now on, and hardly anybody else", async () => {
    await using bench = await openBench(`memory://${generateId()}`)
    const before = Array.from({ length: 2_000 }, () => generateId())
    await writeEdges(
      bench.connection.store,
      before.map((parent) => ({ parent, child: "child" })),
      Date.now(),
    )
    const { watch } = await watchOf(bench)
    await watch.ready
    const after = generateId()
    await writeEdges(bench.connection.store, [{ parent: after, child: "child" }], Date.now())
    await eventually(() => watch.ended(after), { message: "news of the edge" })
    expect(before.filter((parent) => !watch.ended(parent))).toEqual([])
    const strangers = Array.from({ length: 2_000 }, () => generateId()).filter((id) => watch.ended(id))
    expect(strangers.length).toBeLessThan(40)
  })

  test("tells of one that had ended before its edge was known", async () => {
    await using bench = await openBench(`memory://${generateId()}`)
    const { watch, late } = await watchOf(bench)
    await watch.ready
    expect([watch.isEmpty, watch.ended("quick")]).toEqual([true, false])
    await writeEdges(bench.connection.store, [{ parent: "quick", child: "child" }], Date.now())
    await eventually(() => late.length > 0, { message: "news of the edge" })
    expect([late, watch.isEmpty]).toEqual([["quick"], false])
  })

  test("is made anew when the transport is back, since news were lost", async () => {
    await using bench = await openBench(`memory://${generateId()}`)
    const store: Store = new Proxy(bench.faulty.store, {
      get: (target, key, receiver) => (key === "watch" ? async () => undefined : Reflect.get(target, key, receiver)),
    })
    const { watch, late } = await watchOf(bench, { ...bench.faulty, store })
    await watch.ready
    expect(watch.ended("parent")).toBe(false)
    await writeEdges(bench.connection.store, [{ parent: "parent", child: "child" }], Date.now())
    expect(watch.ended("parent")).toBe(false)
    bench.faults.status("connected")
    await eventually(() => watch.ended("parent"), { message: "the edges were read again" })
    expect(late).toEqual(["parent"])
  })

  test("is made anew now and then, and forgets then who is waited for no more", async () => {
    await using bench = await openBench(`memory://${generateId()}`)
    const { watch } = await watchOf(bench)
    await watch.ready
    await writeEdges(bench.connection.store, [{ parent: "parent", child: "child" }], Date.now())
    await eventually(() => watch.ended("parent"), { message: "news of the edge" })
    await bench.connection.store.write(
      (await bench.connection.store.list({ prefix: "after/", limit: 10 })).map(({ key }) => ({ key, value: null })),
    )
    watch.renew(performance.now() + 599_000)
    expect(watch.isEmpty).toBe(false)
    watch.renew(performance.now() + 601_000)
    await eventually(() => watch.isEmpty, { message: "the filter was made anew" })
  })
})
