/** A service from start to stop, and the promises that it offers. */
import { actor, CallboardError, connect, type ServeOptions, type Service, serve } from "callboard"
import { TransportError } from "callboard/transport"
import { afterEach, describe, expect, test } from "vitest"
import { checkConfig } from "../../../../runtime/config/file.ts"
import { generateId } from "../../../../runtime/id.ts"
import { collectLog } from "../../../../runtime/testing/log.ts"
import { faulty, gate, sleep, withJobs } from "../../../support/faulty-board.ts"
import { eventually } from "../../../support/servers/process.ts"

const services: Array<Service> = []
afterEach(async () => {
  await Promise.allSettled(services.splice(0).map((service) => service.stop({ now: true })))
})

const quick = actor("quick", { methods: { run: () => "done" } })

const start = async (options: ServeOptions = {}): Promise<Service> => {
  const service = await serve({
    transport: `faulty://${generateId()}`,
    transports: faulty((same) => same),
    actors: [quick],
    signals: false,
    logLevel: "none",
    ...options,
  })
  services.push(service)
  return service
}

/** Pulls that find the transport down. */
const unreachable = () =>
  withJobs(() => ({ take: () => Promise.reject(new TransportError("unavailable", "nobody is there")) }))

const fail = (): never => {
  throw new Error("not now")
}

const waits = (finish: Promise<void>) => actor("waits", { methods: { run: () => finish } })
const running = (service: Service) =>
  eventually(() => service.worker?.describe().running.length === 1, { message: "it runs" })

describe("options", () => {
  test.each<[options: ServeOptions, field: string, code?: string]>([
    [{ concurrency: 0 }, "concurrency"],
    [{ concurrency: 1.5 }, "concurrency"],
    [{ concurrency: Number.NaN }, "concurrency"],
    [{ prefetch: 0 }, "prefetch"],
    [{ queues: ["high", "a b"] }, "queues[1]"],
    [{ queues: [""] }, "queues[0]"],
    [{ lostCap: 0 }, "lostCap"],
    [{ maxBody: 0 }, "maxBody"],
    [{ reconnect: { maxTries: -1 } }, "reconnect.maxTries"],
    [{ grace: -1 }, "grace"],
    [{ grace: "soon" }, "grace"],
    [{ unknownGrace: "x" }, "unknownGrace"],
    [{ resultTtl: "-1 day" }, "resultTtl"],
    [{ failureTtl: Number.NaN }, "failureTtl"],
    [{ queues: [] }, "queues"],
    [{ queues: ["q".repeat(512)] }, "queues[0]"],
    [{ name: "n".repeat(512) }, "name"],
    [{ name: "" }, "name"],
    [{ autoscale: "16..2" }, "autoscale"],
    [{ autoscale: { min: 0, max: 2 } }, "autoscale"],
    [{ maxJobs: 0 }, "maxJobs"],
    [{ http: { port: 65_536 } }, "http.port"],
    [{ http: { tokens: [{ token: "", scopes: ["read"] }] } }, "http.tokens[0].token"],
    [Object.fromEntries([["order", "zz"]]), "order"],
    [Object.fromEntries([["burst", "no"]]), "burst"],
    [Object.fromEntries([["concurency", 2]]), "concurency", "unknown-field"],
    [Object.fromEntries([["http", { prot: 1 }]]), "http.prot", "unknown-field"],
    [Object.fromEntries([["http", true]]), "http"],
    [Object.fromEntries([["reconnect", { tries: 1 }]]), "reconnect.tries", "unknown-field"],
    [Object.fromEntries([["actors", [{}]]]), "actors[0]"],
    [Object.fromEntries([["actors", "text"]]), "actors"],
    [Object.fromEntries([["onFailure", () => true]]), "onFailure"],
    [Object.fromEntries([["logLevel", "loud"]]), "logLevel"],
    [Object.fromEntries([["signals", 1]]), "signals"],
  ])("%j is refused by its name, before anything is connected", async (options, field, code = "invalid-input") => {
    let connected = 0
    const transports = faulty((same) => {
      connected++
      return same
    })
    await expect(start({ transports, ...options })).rejects.toMatchObject({ code, details: { field } })
    expect(connected).toBe(0)
  })

  test.each<[option: string, value: unknown, why: RegExp]>([
    ["order", "zz", /"strict" or "rotate" or "random"/],
    ["burst", "no", /true or false/],
    ["queues", [], /at least one queue/],
    ["name", "n".repeat(512), /1 to 255 characters/],
    ["concurrency", 0, /1 to 10000/],
    ["grace", "soon", /"soon" is not a duration/],
  ])("%s: %j is refused in the words of the configuration, which say what is allowed", async (option, value, why) => {
    const options: object = Object.fromEntries([[option, value]])
    const refused: unknown = await start(options).catch((error: unknown) => error)
    if (!(refused instanceof CallboardError)) throw new Error("it was accepted")
    expect(refused.message).toMatch(why)
    expect(() => checkConfig("callboard.config.ts", options)).toThrow(`callboard.config.ts: ${refused.message}`)
  })

  test("an option that is misspelt is named with the one that is meant; what is undefined is not given", async () => {
    await expect(start(Object.fromEntries([["concurency", 2]]))).rejects.toThrow(
      /^concurency is not an option of serve\(\).*concurrency/,
    )
    const open: object = { name: undefined, reconnect: undefined, http: { tokens: undefined, port: 0 } }
    expect((await start(open)).worker).toBeDefined()
  })

  test("works on the queues that its actors name, and the default one", async () => {
    const busy = actor("busy", { queue: "a", methods: { run: () => 1, other: { queue: "b", run: () => 2 } } })
    expect((await start({ actors: [busy] })).worker?.queues).toEqual(["a", "b", "default"])
    expect((await start({ actors: [busy], queues: ["b"] })).worker?.queues).toEqual(["b"])
  })

  test("without actors there is no worker, and it is ready at once", async () => {
    const service = await start({ actors: [] })
    await service.ready()
    expect(service.worker).toBeUndefined()
    expect(await service.stop()).toEqual({ finished: 0, handedBack: 0, stuck: 0, lost: 0 })
  })
})

describe("ready", () => {
  test("waits until it consumes", async () => {
    const service = await start()
    await service.ready()
    expect(service.worker?.listening).toBe(true)
  })

  test("is one line of log, which tells no password", async () => {
    const { log, lines } = collectLog()
    const service = await start({
      log,
      transport: `faulty://ada:secret@${generateId()}`,
      queues: ["high", "low"],
      name: "w1",
      http: { port: 0 },
    })
    const line = await eventually(() => lines.find(({ message }) => message === "ready"), { message: "the line" })
    expect(line).toMatchObject({
      level: "info",
      fields: {
        logger: "callboard.service",
        worker: "w1",
        queues: "high,low",
        actors: "quick",
        transport: expect.stringMatching(/^faulty:.*\(durable: none\)$/),
        url: service.url,
      },
    })
    expect(JSON.stringify(lines)).not.toContain("secret")
  })

  test("the consumer starts last: nothing is pulled before the actors have what they need, and they let go after it", async () => {
    const order: Array<string> = []
    const slow = actor("slow", {
      start: async () => {
        await sleep(50)
        order.push("started")
      },
      stop: () => void order.push("stopped"),
      methods: { run: () => "done" },
    })
    const transports = withJobs((jobs) => ({
      take: (request, signal) => {
        order.push("pull")
        return jobs.take(request, signal)
      },
    }))
    const service = await start({ actors: [slow], transports, onReady: () => void order.push("ready") })
    await eventually(() => order.includes("ready"), { message: "it is ready" })
    await service.stop()
    expect(order.slice(0, 2)).toEqual(["started", "pull"])
    expect(order.at(-1)).toBe("stopped")
  })

  test("onReady is called once, with the service, when it consumes and listens", async () => {
    const seen: Array<readonly [Service, boolean | undefined, number]> = []
    const onReady = async (service: Service) => {
      const { status } = await fetch(`${service.url}/readyz`)
      seen.push([service, service.worker?.listening, status])
    }
    const service = await start({ http: { port: 0 }, onReady })
    await eventually(() => seen.length > 0, { message: "it is called" })
    await (await service.client.submit("quick")).result()
    expect(seen).toEqual([[service, true, 200]])
  })

  test.each<readonly [string, () => unknown]>([
    ["throws", () => fail()],
    ["rejects", async () => fail()],
  ])("an onReady that %s is logged, and the service goes on", async (_how, onReady) => {
    const { log, lines } = collectLog()
    const service = await start({ log, onReady })
    const line = await eventually(() => lines.find(({ message }) => message === "onReady failed"))
    expect(line).toMatchObject({ level: "error", fields: { cause: "not now" } })
    expect(await (await service.client.submit("quick")).result()).toBe("done")
  })

  test("onReady is not called when it never comes to that", async () => {
    let called = 0
    const service = await start({ transports: unreachable(), reconnect: { maxTries: 1 }, onReady: () => called++ })
    await service.failed
    await service.stop()
    expect(called).toBe(0)
  })

  test("fails when the worker gives up", async () => {
    const service = await start({ transports: unreachable(), reconnect: { maxTries: 1 } })
    await expect(service.ready()).rejects.toMatchObject({ reason: "unavailable" })
    expect(await service.failed).toMatchObject({ reason: "unavailable" })
  })

  test("fails when it is stopped before", async () => {
    const service = await start({ transports: unreachable() })
    const ready = expect(service.ready()).rejects.toMatchObject({ reason: "closed" })
    await service.stop()
    await ready
    await expect(service.ready()).rejects.toMatchObject({ reason: "closed" })
  })
})

describe("stop", () => {
  test("twice is once; a second call with `now` hurries", async () => {
    const finish = gate()
    const service = await start({ actors: [waits(finish.opened)] })
    await service.ready()
    await service.client.submit("waits")
    await running(service)
    const soft = service.stop()
    const began = performance.now()
    expect(service.stop({ now: true })).toBe(soft)
    expect(await soft).toMatchObject({ finished: 0, handedBack: 1, stuck: 1 })
    expect(await service.stopped).toEqual(await soft)
    expect(performance.now() - began).toBeLessThan(5_000)
    finish.open()
  })

  test("while the transport is down comes to an end", async () => {
    let isDown = false
    const down = () => Promise.reject(new TransportError("unavailable", "down"))
    const transports = withJobs((jobs) => ({
      take: (request, signal) => (isDown ? down() : jobs.take(request, signal)),
      settle: (all) => (isDown ? down() : jobs.settle(all)),
    }))
    const finish = gate()
    const service = await start({ actors: [waits(finish.opened)], transports, grace: 0.2, concurrency: 1 })
    await service.ready()
    await service.client.submitMany([{ task: "waits" }, { task: "waits" }])
    await running(service)
    isDown = true
    const began = performance.now()
    expect(await service.stop()).toMatchObject({ finished: 0, handedBack: 0, lost: 2 })
    expect(performance.now() - began).toBeLessThan(8_000)
    finish.open()
  })

  test("whoever waits for the end gets one, also when closing the transport fails", async () => {
    let closed = 0
    const transports = faulty((transport) => ({
      ...transport,
      close: async () => {
        closed++
        await transport.close()
        throw new Error("it did not like that")
      },
    }))
    const service = await start({ transports })
    await service.ready()
    await expect(service.stop()).rejects.toThrow("it did not like that")
    // `stopped` resolves all the same.
    await service.stopped
    expect(closed).toBe(1)
  })

  test("`await using` stops it", async () => {
    let stopped: Service["stopped"] | undefined
    {
      await using service = await start()
      stopped = service.stopped
    }
    expect(await stopped).toMatchObject({ stuck: 0 })
  })

  test("a job that submits afterwards is told that the transport is closed", async () => {
    const finish = gate()
    let told: unknown
    const late = actor("late", {
      methods: {
        run: async (_input, job) => {
          await finish.opened
          told = await job.submit("quick").catch((cause: unknown) => cause)
        },
      },
    })
    const service = await start({ actors: [late] })
    await service.ready()
    await service.client.submit("late")
    await running(service)
    expect(await service.stop({ now: true })).toMatchObject({ stuck: 1 })
    finish.open()
    await eventually(() => told)
    expect(told).toMatchObject({ code: "transport-unavailable", details: { outcome: "none" } })
  })
})

describe("starting", () => {
  test("that fails closes what it has opened", async () => {
    let closed = 0
    const transports = faulty((transport) => ({
      ...transport,
      close: () => {
        closed++
        return transport.close()
      },
    }))
    const broken = actor("broken", { start: () => Promise.reject(new Error("no")), methods: { run: () => 1 } })
    await expect(start({ transports, actors: [broken] })).rejects.toMatchObject({ _tag: "ActorStartFailed" })
    expect(closed).toBe(1)
    // Found before anything is opened.
    await expect(start({ transports, http: { port: -1 } })).rejects.toMatchObject({ code: "invalid-input" })
    expect(closed).toBe(1)
  })

  test("an actor that does not start lets go of what it took until then", async () => {
    const released: Array<string> = []
    const broken = actor("broken", {
      start: (scope) => {
        scope.onStop(() => void released.push("first"))
        scope.onStop(() => void released.push("second"))
        scope.signal.addEventListener("abort", () => released.push("signal"))
        throw new Error("no")
      },
      methods: { run: () => 1 },
    })
    await expect(start({ actors: [broken] })).rejects.toMatchObject({ _tag: "ActorStartFailed" })
    expect(released).toEqual(["signal", "second", "first"])
  })

  test("two services of one process are two workers", async () => {
    const transport = `faulty://${generateId()}`
    const first = await start({ transport })
    const second = await start({ transport })
    expect(first.worker?.name).not.toBe(second.worker?.name)
    await using client = await connect(transport, { transports: faulty((same) => same) })
    await eventually(async () => (await client.workers()).length === 2, { message: "both are listed" })
    await first.stop()
    expect((await client.workers()).map(({ name }) => name)).toEqual([second.worker?.name])
  })
})
