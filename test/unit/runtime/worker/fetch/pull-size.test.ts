/**
 * How many tasks a worker pulls; the prefetch after a broken connection: the numbers and log lines of Celery's smoke tests.
 */
import { actor, type ReconnectOptions } from "callboard"
import { describe, expect, test } from "vitest"
import { isExhausted, reconnectDelay, retryNotice } from "../../../../../runtime/options/reconnect.ts"
import { settingsOf } from "../../../../../runtime/service/settings.ts"
import type { JobDelivery } from "../../../../../runtime/transport/job-store/transport.ts"
import { TransportError } from "../../../../../runtime/transport/mod.ts"
import { DeliveryBuffer } from "../../../../../runtime/worker/fetch/delivery-buffer.ts"
import {
  aheadOf,
  hasRoom,
  type PullState,
  pullSize,
  reducedAhead,
  reductionLines,
  restoredAhead,
  restoredLine,
} from "../../../../../runtime/worker/fetch/pull-size.ts"
import { eventually } from "../../../../support/servers/process.ts"
import { start } from "../../../../support/services.ts"
import { breakable } from "../breakable.ts"

/** An empty worker with 10 slots, whose buffer holds 4 tasks for each; 64 more may wait for limits. */
const state = (fields: Partial<PullState> = {}): PullState => ({
  slots: 10,
  prefetch: 4,
  stuck: 0,
  slow: 0,
  held: 0,
  limited: 0,
  ahead: Number.POSITIVE_INFINITY,
  spared: 0,
  jobsLeft: Number.POSITIVE_INFINITY,
  ...fields,
})

describe("a pull", () => {
  /** Of a worker with 100 slots and 200 places. */
  const large = (fields: Partial<PullState> = {}) => state({ slots: 100, prefetch: 2, ...fields })

  test.each<[string, PullState, looks: boolean, coming: number, size: number]>([
    ["of an empty worker fills all places", state(), false, 0, 40],
    ["fills the places that are free", state({ held: 25 }), false, 0, 15],
    ["of a full worker brings nothing", state({ held: 40 }), false, 0, 0],
    ["brings no more than may come in all", state({ jobsLeft: 3 }), false, 0, 3],
    ["leaves out the places of stuck handlers", state({ stuck: 3, held: 5 }), false, 0, 23],
    ["brings nothing if all handlers are stuck", state({ stuck: 10 }), false, 0, 0],
    ["fetches nothing ahead for slots with a long run", state({ slow: 4, held: 4 }), false, 0, 24],
    ["fetches ahead for them once nothing is here", state({ slow: 4 }), false, 0, 40],
    ["brings what a reduced prefetch allows", state({ ahead: 12, held: 5 }), false, 0, 7],
    ["does not count what ran when it was reduced", state({ ahead: 12, held: 5, spared: 5 }), false, 0, 12],
    ["does not count what waits for a limit", state({ held: 40, limited: 30 }), false, 0, 30],
    ["brings no more than may wait, if all have to", state({ held: 50, limited: 44 }), false, 0, 20],
    ["that looks behind the waiting tasks fills all slots", state({ held: 50, limited: 44 }), true, 0, 34],
    ["looks behind a crowd", state({ held: 48, limited: 48 }), false, 0, 40],
    ["of a large worker asks for a quarter", large(), true, 0, 50],
    ["of a large worker asks for all that fits, if that is less", large({ held: 170 }), true, 0, 30],
    ["of a crowded large worker is not cut", large({ held: 160, limited: 160 }), true, 0, 200],
    ["is sent behind a quarter that has come", large(), false, 50, 50],
    ["is sent behind what is here and has come", large({ held: 70 }), false, 50, 50],
    ["is not sent behind so much that little fits", large({ held: 70 }), false, 90, 0],
    ["is not sent behind another one, if a batch does not fit", state(), false, 10, 0],
    ["behind a crowd asks for what may wait", large({ held: 150, limited: 150 }), false, 10, 0],
  ])("%s", (_, each, looks, coming, size) => {
    expect(pullSize(each, looks, coming)).toBe(size)
  })

  test.each<[string, PullState, boolean]>([
    ["of an empty worker", state(), true],
    ["once a quarter of the places is free", state({ held: 30 }), true],
    ["not for less than a quarter", state({ held: 31 }), false],
    ["for the last tasks that may come", state({ held: 31, jobsLeft: 2 }), true],
    ["not if none may come", state({ jobsLeft: 0 }), false],
    ["for one task without a prefetch", state({ prefetch: 1, held: 9 }), true],
    ["not without a free slot", state({ prefetch: 1, held: 10 }), false],
    ["for a quarter of a reduced prefetch", state({ ahead: 8, held: 6 }), true],
    ["not if all handlers are stuck", state({ stuck: 10 }), false],
  ])("is worth its cost: %s", (_, each, expected) => {
    expect(hasRoom(each)).toBe(expected)
  })
})

describe("the prefetch count", () => {
  /** A worker with so many places, and what it may fetch ahead after a loss while so many handlers run. */
  const reduced = (places: number, prefetch: number, running: number): PullState => {
    const before = state({ slots: places / prefetch, prefetch })
    return { ...before, ahead: reducedAhead(before, running) }
  }
  const restored = (before: PullState): PullState => ({ ...before, ahead: restoredAhead(before) })

  test.each([1, 2, 3, 4, 5])("test_reducing_prefetch_count: of 10 with a multiplier of 2, while %i run", (running) => {
    expect(aheadOf(reduced(10, 2, running))).toBe(Math.max(2, 10 - running * 2))
  })

  test("the document's example: 20, a multiplier of 2 and 5 running make 10, and its words", () => {
    expect(aheadOf(reduced(20, 2, 5))).toBe(10)
    expect(reductionLines(10, 20, 5)).toEqual([
      "Temporarily reducing the prefetch count to 10 to avoid over-fetching since 5 tasks are currently being processed.",
      "The prefetch count will be gradually restored to 20 as the tasks complete processing.",
    ])
    expect(restoredLine(20)).toBe(
      "Resuming normal operations following a restart. Prefetch count has been restored to the maximum of 20",
    )
  })

  test("test_prefetch_count_restored: by one multiplier with each task that ends", () => {
    let now = reduced(20, 2, 5)
    const steps = Array.from({ length: 5 }, () => {
      now = restored(now)
      return { ahead: aheadOf(now), isRestored: now.ahead === Number.POSITIVE_INFINITY }
    })
    expect(steps.map(({ ahead }) => ahead)).toEqual([12, 14, 16, 18, 20])
    expect(steps.map(({ isRestored }) => isRestored)).toEqual([false, false, false, false, true])
  })

  test("with nothing running nothing is reduced", () => {
    expect(reduced(16, 4, 0).ahead).toBe(Number.POSITIVE_INFINITY)
  })

  test("a second loss reduces from the maximum again", () => {
    const again = restored(reduced(20, 2, 9))
    expect(reducedAhead(again, 3)).toBe(14)
  })
})

const delivery = (number: number): JobDelivery => ({
  token: `${number}`,
  fence: `${number}`,
  queue: "q",
  level: 4,
  sequence: number,
  fresh: true,
  deliveries: 1,
  message: { undecodable: "made for this test", raw: new Uint8Array() },
})

describe("buffers with a reduced prefetch", () => {
  const busy = (concurrency: number, prefetch: number, running: number) => {
    const buffer = new DeliveryBuffer({ queues: ["q"], concurrency, prefetch, rotate: false })
    buffer.add(Array.from({ length: running }, (_, at) => delivery(at)))
    const inFlight = Array.from({ length: running }, () => buffer.next())
    return { buffer, inFlight }
  }

  test("fetch ahead what the count says, besides what ran before", () => {
    const { buffer } = busy(10, 2, 5)
    expect(buffer.free).toBe(15)
    expect(buffer.reducePrefetch()).toBe(10)
    expect(buffer.free).toBe(10)
    buffer.add(Array.from({ length: 10 }, (_, at) => delivery(100 + at)))
    expect(buffer.free).toBe(0)
  })

  test("never leave a handler's slot empty for want of tasks, however few may be fetched", () => {
    const { buffer, inFlight } = busy(4, 2, 4)
    expect(buffer.reducePrefetch()).toBe(2)
    const [first] = inFlight
    if (first === undefined) throw new Error("four run")
    buffer.handlerEnded(first)
    buffer.drop(first)
    expect(buffer.free).toBeGreaterThanOrEqual(1)
  })

  test("never hold more than in good times", () => {
    const { buffer } = busy(4, 2, 1)
    buffer.reducePrefetch()
    expect(buffer.free + buffer.held.size).toBeLessThanOrEqual(buffer.capacity)
  })

  test("are back at the maximum when as many tasks have ended, and say so once", () => {
    const { buffer, inFlight } = busy(10, 2, 5)
    let said = 0
    buffer.onRestored = () => said++
    buffer.reducePrefetch()
    for (const each of inFlight) {
      if (each === undefined) throw new Error("five run")
      buffer.handlerEnded(each)
      buffer.drop(each)
    }
    expect(said).toBe(1)
    expect(buffer.free).toBe(20)
  })

  test("wake the consumer when a step gives room", async () => {
    const { buffer, inFlight } = busy(4, 1, 4)
    buffer.reducePrefetch()
    buffer.add([delivery(100)])
    let room = false
    void buffer.waitForRoom(new AbortController().signal).then(() => {
      room = true
    })
    const [first] = inFlight
    if (first === undefined) throw new Error("four run")
    buffer.handlerEnded(first)
    buffer.drop(first)
    expect(buffer.free).toBe(0)
    const next = buffer.next()
    if (next === undefined) throw new Error("one waits")
    buffer.handlerEnded(next)
    buffer.drop(next)
    await eventually(() => room)
  })
})

describe("a worker whose connection breaks", () => {
  const gates = () => {
    const open = new Map<number, () => void>()
    const waits = actor("waits", {
      methods: {
        run: (input: { n: number }) => new Promise<number>((resolve) => open.set(input.n, () => resolve(input.n))),
        quick: () => "done",
      },
    })
    return { open, waits }
  }

  test("reduces the prefetch when it is back, restores it as tasks end, and says both", async () => {
    const { open, waits } = gates()
    const line = breakable()
    const service = await start([waits], { ...line.options, concurrency: 10, prefetch: 2 })
    await service.client.submitMany(Array.from({ length: 5 }, (_, n) => ({ task: "waits", input: { n } })))
    await eventually(() => open.size === 5)
    line.cut()
    await eventually(() => service.worker?.listening === false)
    line.republishOrphans()
    await eventually(() => service.worker?.listening)
    expect(line.lines).toContain(
      "Temporarily reducing the prefetch count to 10 to avoid over-fetching since 5 tasks are currently being processed.",
    )
    expect(line.lines).toContain(
      "The prefetch count will be gradually restored to 20 as the tasks complete processing.",
    )
    // Everything that may be fetched is fetched: ten, beside the five that run.
    await service.client.submitMany(Array.from({ length: 30 }, (_, n) => ({ task: "waits", input: { n: 10 + n } })))
    await eventually(() => open.size === 10)
    expect(service.worker?.describe().inFlight).toBe(15)
    for (let n = 0; n < 5; n++) open.get(n)?.()
    const restored =
      "Resuming normal operations following a restart. Prefetch count has been restored to the maximum of 20"
    await eventually(() => line.lines.includes(restored))
    await eventually(() => service.worker?.describe().inFlight === 20)
    expect(line.lines.filter((each) => each === restored)).toHaveLength(1)
  })

  test("test_max_prefetch_passed_on_broker_restart: with cancelled tasks it fetches in full at once", async () => {
    const { open, waits } = gates()
    const line = breakable()
    const service = await start([waits], { ...line.options, concurrency: 2, prefetch: 1, cancelOnConnectionLoss: true })
    const jobs = await service.client.submitMany([0, 1].map((n) => ({ task: "waits", input: { n } })))
    await eventually(() => open.size === 2)
    line.cut()
    await eventually(() => line.lines.includes("the connection is lost: 2 running task(s) are handed back"))
    // Promises cannot be interrupted: these end when the test tells them to.
    for (const end of open.values()) end()
    open.clear()
    line.republishOrphans()
    await eventually(() => open.size === 2)
    expect(line.lines.join("\n")).not.toMatch(/prefetch count/)
    for (const end of open.values()) end()
    for (const job of jobs) {
      if (!("id" in job)) throw new Error("submitting failed")
      expect(await service.client.job(job.id).outcome({ timeout: 60 })).toMatchObject({ state: "succeeded" })
      // Given back, not retried.
      expect(await service.client.job(job.id).find()).toMatchObject({ retries: 0 })
    }
    expect(await (await service.client.submit("waits.quick")).result({ timeout: 60 })).toBe("done")
  })

  test("can be told not to reduce", async () => {
    const { open, waits } = gates()
    const line = breakable()
    const service = await start([waits], { ...line.options, concurrency: 2, prefetch: 2, prefetchReduction: false })
    await service.client.submit("waits", { input: { n: 0 } })
    await eventually(() => open.size === 1)
    line.cut()
    await eventually(() => service.worker?.listening === false)
    line.republishOrphans()
    await eventually(() => service.worker?.listening)
    expect(line.lines.join("\n")).not.toMatch(/prefetch count/)
    open.get(0)?.()
  })

  test("a full worker reconnects too, though it has nothing to ask for", async () => {
    const { open, waits } = gates()
    const line = breakable()
    const service = await start([waits], { ...line.options, concurrency: 1, prefetch: 1 })
    await service.client.submit("waits", { input: { n: 0 } })
    await eventually(() => open.size === 1)
    line.cut()
    await eventually(() => service.worker?.listening === false)
    line.republishOrphans()
    await eventually(() => service.worker?.listening)
    open.get(0)?.()
    expect(await (await service.client.submit("waits.quick")).result({ timeout: 60 })).toBe("done")
  })

  test("with reconnecting off, the loss ends the worker", async () => {
    const line = breakable()
    const service = await start([gates().waits], { ...line.options, reconnect: { enabled: false } })
    line.cut()
    expect(await service.failed).toMatchObject({ reason: "unavailable" })
    expect(line.lines.join("\n")).not.toMatch(/Trying again/)
  })

  test("counts tries in a row, not losses: many outages never exhaust them", async () => {
    const line = breakable()
    const service = await start([gates().waits], { ...line.options, reconnect: { maxTries: 2, base: 60, cap: 60 } })
    for (let times = 0; times < 10; times++) {
      line.cut()
      await eventually(() => service.worker?.listening === false)
      line.republishOrphans()
      await eventually(() => service.worker?.listening)
    }
    expect(line.lines.filter((each) => /Trying again in .* \(1\/2\)$/.test(each))).toHaveLength(10)
  })

  test("what it could not subscribe to is subscribed when the transport is back", async () => {
    const { open, waits } = gates()
    const line = breakable({ listensLater: true })
    const service = await start([waits], line.options)
    const job = await service.client.submit("waits", { input: { n: 0 } })
    await eventually(() => open.size === 1)
    await eventually(() => line.listens())
    await job.cancel()
    // A running handler ends only by the broadcast message.
    await eventually(() => service.worker?.describe().running.length === 0)
    open.get(0)?.()
  })
})

const resolveReconnect = (reconnect: ReconnectOptions) => settingsOf({ reconnect }).reconnect

describe("the waits between two tries", () => {
  const policy = resolveReconnect({ jitter: false })

  test("double from the base to the cap", () => {
    expect([1, 2, 3, 4, 5, 6, 7, 100].map((tries) => reconnectDelay(tries, policy))).toEqual([
      250, 500, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000,
    ])
  })

  test("are shortened by up to half with jitter", () => {
    const jittered = resolveReconnect({})
    expect(reconnectDelay(3, jittered, 0)).toBe(500)
    expect(reconnectDelay(3, jittered, 1)).toBe(1_000)
  })

  test("are told with two digits and the count; without a limit, with the count alone", () => {
    const error = new TransportError("unavailable", "gone")
    expect(retryNotice(error, 1_234, 3, policy)).toBe("gone. Trying again in 1.23 seconds… (3/100)")
    expect(retryNotice(error, 50, 3, resolveReconnect({ maxTries: 0 }))).toBe("gone. Trying again in 0.05 seconds… (3)")
  })

  test("end after the last try; 0 is for ever", () => {
    expect([100, 101].map((failures) => isExhausted(failures, policy))).toEqual([false, true])
    expect(isExhausted(1_000_000, resolveReconnect({ maxTries: 0 }))).toBe(false)
  })

  test.each([
    [{ maxTries: 0.5 }, "maxTries"],
    [{ base: 0 }, "base"],
    [{ base: 2, cap: 1 }, "cap"],
    [{ cap: "soon" }, "cap"],
  ])("%j is refused", (options, field) => {
    expect(() => resolveReconnect(options)).toThrow(`reconnect.${field}: `)
  })
})
