/** Tasks of Celery's clients that are larger than what Callboard itself submits, on both brokers. */
import { connect as connectAmqp } from "amqplib"
import { actor, serve } from "callboard"
import { createClient } from "redis"
import { expect, test } from "vitest"
import { keep } from "../support/servers/keep.ts"
import { eventually, temporaryFolder } from "../support/servers/process.ts"
import { startRabbitmq } from "../support/servers/rabbitmq.ts"
import { startRedis } from "../support/servers/redis.ts"

const MIB = 1024 * 1024

const lab = actor("lab", {
  methods: {
    size: { params: ["text"], run: ({ text }: { readonly text: string }) => text.length },
    again: {
      params: ["text"],
      retry: { max: 3 },
      run: (_: { readonly text: string }, job) => {
        throw job.retry({ after: 0.1, cause: new Error("not yet") })
      },
    },
  },
})

interface CeleryMessage {
  readonly id: string
  readonly body: Buffer
  readonly headers: Readonly<Record<string, unknown>>
}

const messageOf = (id: string, task: string, mib: number, more: object = {}): CeleryMessage => ({
  id,
  body: Buffer.from(JSON.stringify([["x".repeat(mib * MIB)], {}, null])),
  headers: { lang: "py", task, id, retries: 0, timelimit: [null, null], root_id: id, parent_id: null, ...more },
})

/** A broker of Celery: its URL, and how a Celery client publishes a task on it. */
interface Broker {
  readonly transport: string
  readonly publish: (message: CeleryMessage) => Promise<unknown>
  readonly left: () => Promise<number>
}

const onRedis = async (): Promise<Broker> => {
  const { url } = keep(await startRedis(["--save", "", "--appendonly", "no"]))
  const client = createClient({ url })
  await client.connect()
  keep({ [Symbol.asyncDispose]: async () => client.destroy() })
  return {
    transport: url,
    publish: ({ id, body, headers }) => {
      const info = { exchange: "", routing_key: "celery" }
      const properties = { correlation_id: id, delivery_tag: id, delivery_mode: 2, delivery_info: info, priority: 0 }
      const form = { "content-encoding": "utf-8", "content-type": "application/json" }
      const envelope = { body: body.toString("base64"), ...form, headers }
      return client.lPush(
        "celery",
        JSON.stringify({ ...envelope, properties: { ...properties, body_encoding: "base64" } }),
      )
    },
    left: async () => (await client.lLen("celery")) + (await client.hLen("unacked")),
  }
}

const onAmqp = async (): Promise<Broker> => {
  const server = await startRabbitmq()
  const folder = temporaryFolder()
  const connection = await connectAmqp(server.url)
  const channel = await connection.createConfirmChannel()
  await channel.assertQueue("celery", { durable: true })
  keep({
    [Symbol.asyncDispose]: async () => {
      await connection.close()
      await server.stop()
      folder.remove()
    },
  })
  return {
    transport: `${server.url}?records=sqlite:${folder.path}/jobs.db`,
    publish: ({ id, body, headers }) => {
      const form = { contentType: "application/json", contentEncoding: "utf-8" }
      channel.sendToQueue("celery", body, { ...form, correlationId: id, deliveryMode: 2, headers })
      return channel.waitForConfirms()
    },
    left: async () => (await channel.checkQueue("celery")).messageCount,
  }
}

test.each([
  ["redis", onRedis],
  ["amqp", onAmqp],
] as const)(
  "on %s each ends once, those that cannot be tried again with the reason",
  async (_name, start) => {
    const { transport, publish, left } = await start()
    const soon = new Date(Date.now() + 3_000).toISOString()
    // Together these tasks have more bytes than a Redis server buffers for a connection with subscriptions.
    const messages = [
      messageOf("runs", "lab.size", 8),
      messageOf("waits", "lab.size", 8, { eta: soon }),
      messageOf("again", "lab.again", 8),
      messageOf("unknown", "no.such", 8),
      messageOf("over", "lab.size", 20),
      messageOf("foreign", "go.task", 8, { lang: "go" }),
    ]
    for (const message of messages) await publish(message)
    const service = await serve({
      transport,
      queues: ["celery"],
      actors: [lab],
      maxBody: 16 * MIB,
      unknownGrace: "1 second",
      languages: { go: "gophers" },
      signals: false,
      logLevel: "none",
    })
    keep({ [Symbol.asyncDispose]: async () => void (await service.stop({ now: true })) })
    const found = (id: string) =>
      service.client
        .job(id)
        .find()
        .catch(() => undefined)
    const ended = async (id: string) => {
      await eventually(async () => /succeeded|failed/.test((await found(id))?.state ?? ""), {
        message: `the end of ${id}`,
        deadline: 60_000,
      })
      return found(id)
    }
    const once = { state: "succeeded", result: 8 * MIB, attempts: 1 }
    expect(await ended("runs")).toMatchObject(once)
    expect(await ended("waits")).toMatchObject(once)
    expect(await ended("again")).toMatchObject({
      state: "failed",
      attempts: 1,
      dead: "too-large",
      error: { message: expect.stringMatching(/^not yet \(and not tried again: the task has 8\d+ bytes/) },
    })
    expect(await ended("unknown")).toMatchObject({ state: "failed", dead: "unknown-actor" })
    expect(await ended("foreign")).toMatchObject({
      state: "failed",
      dead: "too-large",
      error: { message: expect.stringMatching(/and not moved to queue gophers: the task has 8\d+ bytes/) },
    })
    expect(await ended("over")).toMatchObject({ state: "failed", dead: "too-large" })
    await publish(messageOf("small", "lab.size", 1))
    expect(await ended("small")).toMatchObject({ state: "succeeded" })
    await eventually(async () => (await left()) === 0, { message: "an empty queue" })
  },
  200_000,
)
