import { actor, connect, serve } from "callboard"
import { beforeEach, describe, expect, onTestFinished, test, vi } from "vitest"
import { generateId } from "../../../../../runtime/id.ts"
import type { JobDelivery } from "../../../../../runtime/transport/job-store/transport.ts"
import { PullSizer } from "../../../../../runtime/worker/fetch/consumer.ts"
import { DeliveryBuffer } from "../../../../../runtime/worker/fetch/delivery-buffer.ts"
import { freeIfLimitedOf } from "../../../../../runtime/worker/fetch/pull-size.ts"
import { Faults, faultyPlugin } from "../../../../support/faults.ts"
import { eventually } from "../../../../support/servers/process.ts"
import { start } from "../../../../support/services.ts"

const delivery = (sequence: number): JobDelivery => ({
  token: `${sequence}`,
  fence: `${sequence}`,
  queue: "low",
  level: 4,
  sequence,
  fresh: true,
  deliveries: 1,
  message: { undecodable: "made for this test", raw: new Uint8Array() },
})

/** A buffer with a hundred slots and room for a hundred tasks that wait for limits, of which this many do. */
const crowded = (waiting: number) => {
  const buffer = new DeliveryBuffer({ queues: ["low"], concurrency: 100, prefetch: 1, rotate: false })
  const pullSizer = new PullSizer(buffer)
  // The first pull looks behind the waiting tasks.
  expect(pullSizer.nextSize).toBe(100)
  buffer.add(Array.from({ length: waiting }, (_, at) => delivery(at)))
  for (let active = buffer.next(); active !== undefined; active = buffer.next()) buffer.waitForLimit(active)
  return { buffer, pullSizer }
}

const signal = new AbortController().signal

describe("pulls while tasks wait for their limits", () => {
  // Time stands still, so that a wait ends by what happens alone.
  beforeEach(() => void vi.useFakeTimers({ toFake: ["performance", "setTimeout", "clearTimeout"] }))

  test("ask for no more than still finds a place, so that few go back", () => {
    expect(crowded(60).pullSizer.nextSize).toBe(40)
  })

  test("look behind a crowd, which may keep others from their turn", () => {
    const { buffer, pullSizer } = crowded(80)
    expect(freeIfLimitedOf(buffer.state)).toBe(20)
    expect(pullSizer.nextSize).toBe(100)
  })

  test("wait after a look in vain, until the crowd has become smaller", async () => {
    const { buffer, pullSizer } = crowded(100)
    let isOver = false
    const pulled = pullSizer.pulled(100, 100, signal).then(() => {
      isOver = true
    })
    await new Promise((resolve) => setImmediate(resolve))
    expect(isOver).toBe(false)
    const all = buffer.held.values()
    for (const active of all.slice(0, 30)) {
      buffer.stopWaiting(active, "settling")
      buffer.drop(active)
    }
    await pulled
    expect(pullSizer.nextSize).toBe(30)
  })

  test("do not wait after one that has found something to start", async () => {
    const { buffer, pullSizer } = crowded(80)
    expect(pullSizer.nextSize).toBe(100)
    buffer.add([delivery(1_000)])
    await pullSizer.pulled(1, 1, signal)
  })
})

describe("pulls under load", () => {
  /** Submits tasks that no worker takes yet. Returns what a worker of their board needs. */
  const waiting = async (count: number) => {
    const faults = new Faults()
    const [transport, transports] = [`faulty://${generateId()}`, { faulty: faultyPlugin(faults) }]
    const client = await connect(transport, { transports })
    onTestFinished(() => client.close())
    await client.submitMany(Array.from({ length: count }, () => ({ task: "quick" })))
    return { faults, client, options: { transport, transports, concurrency: 100, prefetch: 2 } }
  }

  test("are sent before the tasks of the one before them begin", async () => {
    const { faults, options } = await waiting(400)
    const order: Array<"take" | "run"> = []
    faults.before = (call) => void (call === "jobs.take" && order.push("take"))
    await start([actor("quick", { methods: { run: () => void order.push("run") } })], options)
    await eventually(() => order.filter((each) => each === "run").length === 400)
    expect(order.indexOf("run")).toBe(2)
  })

  test("bring no more tasks than the worker may run, also when a queue is paused while one is under way", async () => {
    const { faults, client, options } = await waiting(400)
    const held = Promise.withResolvers<void>()
    let ran = 0
    let takes = 0
    let overtaken = false
    const quick = actor("quick", { methods: { run: () => (++ran === 1 ? held.promise : undefined) } })
    faults.after = async (call) => {
      if (call !== "jobs.take" || ++takes !== 2) return
      // The pull that follows is sent before the answer of this one comes.
      await client.pause("another")
      await eventually(() => takes > 2)
      overtaken = true
    }
    const service = await start([quick], { ...options, maxJobs: 100 })
    await eventually(() => overtaken && ran >= 100)
    held.resolve()
    await service.stopped
    expect(ran).toBe(100)
  })

  test("are waited for by a worker that ends with its queues, also when a queue is paused while one is under way", async () => {
    const { faults, client, options } = await waiting(50)
    let ran = 0
    let takes = 0
    let overtaken = false
    faults.after = async (call) => {
      if (call !== "jobs.take" || ++takes !== 1) return
      // The pull that follows finds the queue empty before the answer of this one comes.
      await client.pause("another")
      await eventually(() => takes > 3)
      overtaken = true
    }
    const service = await start([actor("quick", { methods: { run: () => void ran++ } })], { ...options, burst: true })
    await service.stopped
    expect({ overtaken, ran }).toEqual({ overtaken: true, ran: 50 })
  })

  test("leave no task behind when the worker stops before those that have come begin", async () => {
    const { faults, options } = await waiting(400)
    let ran = 0
    const quick = actor("quick", { methods: { run: () => void ran++ } })
    let takes = 0
    let stopped: Promise<unknown> | undefined
    faults.before = (call) => {
      if (call === "jobs.take" && ++takes === 2) stopped = service.stop({ now: true })
    }
    const service = await serve({ ...options, actors: [quick], signals: false, logLevel: "none" })
    await eventually(() => stopped !== undefined)
    await stopped
    faults.heal()
    // A task that was left would come back when its lease has ended, after half a minute.
    await start([quick], options)
    await eventually(() => ran === 400, { deadline: 15_000 })
  })
})
