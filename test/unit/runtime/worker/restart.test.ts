/**
 * Actors that fail to start or break while they run: they are restarted, their tasks are given back meanwhile, and
 * other actors are not affected.
 */
import { actor } from "callboard"
import { describe, expect, test } from "vitest"
import { eventually } from "../../../support/servers/process.ts"
import { start } from "../../../support/services.ts"

const healthy = actor("healthy", { methods: { run: () => "fine" } })
const FAST = { backoff: { base: 0.02, max: 0.05 } } as const

describe("an actor", () => {
  test("that does not start at first is started again, and its waiting job runs once, uncounted", async () => {
    let starts = 0
    const shaky = actor("shaky", {
      restart: FAST,
      start: () => {
        if (++starts < 3) throw new Error("no connection yet")
        return { starts }
      },
      methods: { run: (_input: unknown, job) => ({ starts: job.use.starts, attempt: job.attempt }) },
    })
    const { client } = await start([shaky, healthy])
    const job = await client.submit("shaky")
    expect(await (await client.submit("healthy")).result({ timeout: 60 })).toBe("fine")
    expect(await job.result({ timeout: 60 })).toEqual({ starts: 3, attempt: 1 })
  })

  test("whose resource breaks is stopped and started anew, after the handlers that use it", async () => {
    const steps: Array<string> = []
    let generation = 0
    let breakIt: ((cause: unknown) => void) | undefined
    const gate = Promise.withResolvers<void>()
    const fragile = actor("fragile", {
      restart: FAST,
      start: (scope) => {
        breakIt = scope.fail
        steps.push(`start ${++generation}`)
        return generation
      },
      stop: (use) => {
        steps.push(`stop ${use}`)
      },
      methods: {
        run: (_input: unknown, job) => job.use,
        hold: async (_input: unknown, job) => {
          await gate.promise
          steps.push(`handler ${job.use}`)
          return job.use
        },
      },
    })
    const { client, worker } = await start([fragile])
    expect(await (await client.submit("fragile")).result({ timeout: 60 })).toBe(1)
    const holding = await client.submit("fragile.hold")
    await eventually(() => worker?.describe().running.length === 1, { message: "the handler holds the resource" })
    breakIt?.(new Error("connection lost"))
    gate.resolve()
    expect(await holding.result({ timeout: 60 })).toBe(1)
    expect(await (await client.submit("fragile")).result({ timeout: 60 })).toBe(2)
    expect(steps).toEqual(["start 1", "handler 1", "stop 1", "start 2"])
  })

  test("that fails too often is unhealthy: its queue is not pulled, its jobs do not fail, and others work", async () => {
    let open = false
    let starts = 0
    const broken = actor("broken", {
      queue: "broken",
      restart: { max: 1, ...FAST },
      start: () => {
        starts++
        if (!open) throw new Error("down")
      },
      methods: { run: () => "up" },
    })
    const { client, worker } = await start([broken, healthy])
    const job = await client.submit("broken")
    await eventually(() => starts > 3, { message: "it is tried again and again" })
    expect(await (await client.submit("healthy")).result({ timeout: 60 })).toBe("fine")
    expect(await job.find()).toMatchObject({ state: "queued", attempts: 0 })
    expect(worker?.listening).toBe(true)
    open = true
    expect(await job.result({ timeout: 60 })).toBe("up")
  })

  test("that does not start and is alone fails the start of the service, with the reason", async () => {
    const alone = actor("alone", {
      start: () => {
        throw new Error("no licence")
      },
      methods: { run: () => 1 },
    })
    await expect(start([alone])).rejects.toMatchObject({
      _tag: "ActorStartFailed",
      message: expect.stringContaining("no licence"),
    })
  })

  test("is the only one of its name", async () => {
    await expect(start([healthy, actor("healthy", { methods: { run: () => 2 } })])).rejects.toMatchObject({
      _tag: "ActorStartFailed",
    })
  })
})
