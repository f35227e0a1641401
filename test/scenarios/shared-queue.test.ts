/** Workers that share a queue and serve different actors, or different versions of one. */
import { type ActorDefinition, actor, type Client, connect, type ServeOptions, type Service, serve } from "callboard"
import { afterEach, expect, test } from "vitest"
import { eventually } from "../support/servers/process.ts"
import { onEveryBoard } from "./boards.ts"

const running: Array<Service> = []
const clients: Array<Client> = []
afterEach(async () => {
  await Promise.all(clients.splice(0).map((client) => client.close()))
  await Promise.all(running.splice(0).map((service) => service.stop({ now: true })))
})

const start = async (actors: ReadonlyArray<ActorDefinition>, options: ServeOptions): Promise<Service> => {
  const service = await serve({ actors, signals: false, logLevel: "none", unknownGrace: "1 second", ...options })
  running.push(service)
  await service.ready()
  return service
}

const WAIT = { timeout: 30 }

const left = actor("left", { methods: { run: () => "left" } })

onEveryBoard((newBoard, transport) => {
  test("a task is not given up while a living worker serves it, and its record tells of no attempt elsewhere", {
    timeout: 120_000,
  }, async () => {
    const url = newBoard()
    const gates: Array<() => void> = []
    const right = actor("right", {
      methods: { run: () => new Promise<string>((resolve) => gates.push(() => resolve("right"))) },
    })
    const other = await start([left], { transport: url })
    const own = await start([right], { transport: url, concurrency: 1, prefetch: 1 })
    const first = await own.client.submit("right")
    await eventually(() => gates.length === 1, { deadline: 20_000 })
    const second = await own.client.submit("right")
    const since = Date.now()
    // The worker that serves it is busy, so that the other one takes it, again and again.
    await eventually(() => other.worker?.postpone(second.id).some(({ until }) => until > since + 1_500), {
      deadline: 20_000,
      message: "the task is given back for longer than the grace",
    })
    gates[0]?.()
    expect(await first.result(WAIT)).toBe("right")
    await eventually(() => gates.length === 2, { deadline: 60_000 })
    gates[1]?.()
    expect(await second.result(WAIT)).toBe("right")
    const { transitions, attempts } = await second.find()
    expect(transitions.map(({ state }) => state)).toEqual(["queued", "started", "succeeded"])
    expect(attempts).toBe(1)
  })

  // What the directory says is the same over every transport; above it is seen to arrive.
  if (transport !== "memory") return

  test("it is given up once no living worker of the queue serves its method", async () => {
    const url = newBoard()
    const older = actor("right", { methods: { run: () => "right" } })
    const { client } = await start([left], { transport: url })
    await start([older], { transport: url })
    await start([actor("right", { methods: { added: () => "right" } })], { transport: url, queues: ["elsewhere"] })
    const job = await client.submit("right.added", { queue: "default" })
    expect(await job.outcome(WAIT)).toMatchObject({ state: "failed", error: { reason: "unknown-actor" } })
    const { transitions, dead } = await job.find()
    expect(transitions.map(({ state }) => state)).toEqual(["queued", "failed"])
    expect(dead).toBe("unknown-actor")
  })

  test("a method that no worker has is refused at once, with the nearest name; one that another version has is not", async () => {
    const url = newBoard()
    await start([actor("right", { methods: { run: () => "older" } })], { transport: url, unknownGrace: 60 })
    const client = await connect(url)
    clients.push(client)
    await expect(client.submit("right.rnu")).rejects.toMatchObject({
      code: "unknown-actor",
      message: expect.stringContaining("actor right has no method rnu (did you mean run?)"),
      details: { field: "task" },
    })
    await expect(client.submit("right.added")).rejects.toMatchObject({ code: "unknown-actor" })
    const early = await client.submit("right.added", {}, { lenient: true })
    await start([actor("right", { methods: { run: () => "newer", added: () => "added" } })], { transport: url })
    // The client still knows the description of the older version.
    expect(await (await client.submit("right.added")).result({ timeout: 60 })).toBe("added")
    expect(await early.result({ timeout: 60 })).toBe("added")
  })
})
