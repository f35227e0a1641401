/** Celery's other messages (events, commands, replies) over a real RabbitMQ that is killed and whose queues are deleted. */
import { afterAll, beforeAll, expect, test } from "vitest"
import { celery } from "../../plugins/amqp/mod.ts"
import { openResults } from "../../runtime/celery/results.ts"
import type { Message } from "../../runtime/protocol/message.ts"
import type { CeleryMessages } from "../../runtime/transport/celery.ts"
import { keep } from "../support/servers/keep.ts"
import { eventually } from "../support/servers/process.ts"
import { type RabbitmqServer, startRabbitmq } from "../support/servers/rabbitmq.ts"

let server: RabbitmqServer

beforeAll(async () => {
  server = await startRabbitmq()
}, 300_000)

afterAll(() => server?.stop())

const open = async (namespace = "callboard"): Promise<CeleryMessages> => {
  const messages = await celery.messages?.(new URL(server.url), { namespace, name: "test", timeout: 5_000 })
  if (messages === undefined) throw new Error("amqp carries no messages")
  keep({ [Symbol.asyncDispose]: () => messages.close() })
  return messages
}

const messageOf = (text: string, more: Message["headers"] = {}): Message => ({
  headers: { clock: 7, ...more },
  properties: { content_type: "text/plain", content_encoding: "utf-8", delivery_mode: 1, priority: 0 },
  body: new TextEncoder().encode(text),
})

/** A listener, the texts that it has received so far, and the controller that ends its subscription. */
const collector = () => {
  const heard: Array<string> = []
  const stop = new AbortController()
  return { heard, stop, listener: ({ body }: Message) => void heard.push(new TextDecoder().decode(body)) }
}

test("a task without a priority has the lowest, as with Celery", async () => {
  const messages = await open()
  expect([null, 0, 3, 12].map((given) => messages.priorityOf(given))).toEqual([0, 0, 3, 9])
})

test("a broadcast reaches all its listeners, and any other message only its queue", async () => {
  const [one, other, external] = [await open(), await open(), await open("other")]
  const [events, commands, elsewhere, replies] = [collector(), collector(), collector(), collector()]
  await one.listen("celeryev", events.listener, events.stop.signal)
  await other.listen("celeryev", events.listener, events.stop.signal)
  await one.listen("celery.pidbox", commands.listener, commands.stop.signal)
  await external.listen("celery.pidbox", elsewhere.listener, elsewhere.stop.signal)
  await one.receive(
    { exchange: "reply.celery.pidbox", routingKey: "me", queue: "me.reply" },
    replies.listener,
    replies.stop.signal,
  )
  await other.broadcast("celeryev", "task.multi", messageOf("event"))
  await other.broadcast("celery.pidbox", "", messageOf("command"))
  await other.send("reply.celery.pidbox", "me", messageOf("reply"))
  await other.send("reply.celery.pidbox", "missing", messageOf("lost"))
  await other.send("", "me.reply", messageOf("to the queue"))
  await eventually(() => events.heard.length === 2 && commands.heard.length === 1 && replies.heard.length === 2)
  expect([events.heard, commands.heard, replies.heard]).toEqual([
    ["event", "event"],
    ["command"],
    ["reply", "to the queue"],
  ])
  events.stop.abort()
  await other.broadcast("celeryev", "task.multi", messageOf("unheard"))
  await other.broadcast("celery.pidbox", "", messageOf("last"))
  await eventually(() => commands.heard.length === 2)
  expect(events.heard).toHaveLength(2)
  expect(elsewhere.heard).toEqual([])
})

test("a listener hears nothing once its signal has fired, although messages are on their way", async () => {
  const [listening, sending] = [await open(), await open()]
  const { heard, stop, listener } = collector()
  const hear = (message: Message): void => {
    listener(message)
    stop.abort()
  }
  await listening.listen("celeryev", hear, stop.signal)
  await Promise.all(Array.from({ length: 50 }, () => sending.broadcast("celeryev", "task.multi", messageOf("event"))))
  const after = collector()
  await listening.listen("celeryev", after.listener, after.stop.signal)
  await sending.broadcast("celeryev", "task.multi", messageOf("last"))
  await eventually(() => after.heard.includes("last"))
  expect(heard).toEqual(["event"])
})

test("an invalid message is refused, and the connection still works", async () => {
  const messages = await open()
  const { heard, stop, listener } = collector()
  await messages.listen("celeryev", listener, stop.signal)
  const refusals = [
    messages.send("nowhere", "a", messageOf("a")),
    messages.send("reply.celery.pidbox", "a", messageOf("a", { ["k".repeat(300)]: 1 })),
  ]
  for (const each of refusals) await expect(each).rejects.toMatchObject({ reason: "invalid" })
  await messages.broadcast("celeryev", "worker.online", messageOf("here"))
  await eventually(() => heard.includes("here"))
  await expect(openResults("rpc://", { name: "test" }, undefined)).rejects.toMatchObject({ reason: "unsupported" })
  await messages.close()
  await expect(messages.broadcast("celeryev", "a", messageOf("a"))).rejects.toMatchObject({ reason: "closed" })
})

test("subscriptions work again after the server was killed, and after a queue was deleted", async () => {
  const messages = await open()
  const [events, replies] = [collector(), collector()]
  await messages.listen("celeryev", events.listener, events.stop.signal)
  await messages.receive(
    { exchange: "reply.celery.pidbox", routingKey: "again", queue: "again.reply" },
    replies.listener,
    replies.stop.signal,
  )
  const heardAgain = (what: string) =>
    eventually(
      async () => {
        await messages.broadcast("celeryev", "worker.online", messageOf(what)).catch(() => undefined)
        await messages.send("reply.celery.pidbox", "again", messageOf(what)).catch(() => undefined)
        return events.heard.includes(what) && replies.heard.includes(what)
      },
      { message: `a message ${what}`, deadline: 60_000 },
    )
  await server.kill()
  await expect(messages.broadcast("celeryev", "a", messageOf("a"))).rejects.toMatchObject({ reason: "unavailable" })
  await server.restart()
  await heardAgain("after the kill")
  await server.control("delete_queue", "again.reply")
  await heardAgain("after the deletion")
}, 180_000)
