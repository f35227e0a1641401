/** Clients, tools and workers of Celery and of Callboard on one RabbitMQ. */
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { connectCelery } from "../../runtime/mod.ts"
import { temporaryFolder } from "../support/servers/process.ts"
import { type RabbitmqServer, startRabbitmq } from "../support/servers/rabbitmq.ts"
import { type RedisServer, startRedis } from "../support/servers/redis.ts"
import { ourWorker, Sides, theirWorker } from "./sides.ts"

const folder = temporaryFolder()
let redis: RedisServer
let rabbitmq: RabbitmqServer

beforeAll(async () => {
  redis = await startRedis(["--save", "", "--appendonly", "no"])
  rabbitmq = await startRabbitmq()
}, 300_000)

afterAll(async () => {
  await rabbitmq?.stop()
  await redis?.stop()
  folder.remove()
})

const sidesWith = (name: string, backend: () => string): Sides =>
  new Sides(() => {
    const transport = `${rabbitmq.url}?records=sqlite:${folder.path}/${name}.db`
    const notes = `redis://127.0.0.1:${redis.port}/1`
    return { broker: rabbitmq.url, transport, backend: backend(), notes }
  })

describe("with results in Redis", () => {
  const sides = sidesWith("redis", () => `redis://127.0.0.1:${redis.port}/1`)
  ourWorker(sides, [
    ["5.6", 2],
    ["5.6", 1],
  ])
  theirWorker(sides)
})

describe("with results that are sent to the client", () => {
  const sides = sidesWith("rpc", () => "rpc://")
  // Clients of Celery 5.6 lose some of these results: https://github.com/celery/celery/pull/10285
  const clients = [
    ["5.5", 2],
    ["5.5", 1],
  ] as const
  ourWorker(sides, clients, { tools: false })

  test("a Callboard client gets the results of a Celery worker", async () => {
    await using worker = await sides.startTheirs("5.5", "sending@lab", ["sending"])
    const { broker, backend } = sides.place
    await using client = await connectCelery({ broker, resultBackend: backend, queue: "sending" })
    const jobs = await Promise.all([1, 2, 3].map((x) => client.submit<number>("lab.add", { args: [x, 1] })))
    expect(await Promise.all(jobs.map((job) => job.result()))).toEqual([2, 3, 4])
    const failing = await client.submit("lab.fail", { args: ["no", 7] })
    await expect(failing.result()).rejects.toMatchObject({ error: { name: "tasks.LabError", message: "no, 7" } })
    const last = await client.chain<number>({ task: "lab.add", args: [2, 3] }, { task: "lab.mul", args: [4] })
    expect(await last.result()).toBe(20)
    expect(worker.output).toContain("succeeded")
  }, 180_000)
})
