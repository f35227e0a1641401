/** A task as an AMQP message: Celery's library can read it, and reading it back gives the same task. */
import { expect, test } from "vitest"
import { fromAmqp, taskMessage } from "../../plugins/amqp/message.ts"

const body = Uint8Array.of(1, 2, 3)
const text = { content_type: "application/json", content_encoding: "utf-8" }

/** The value that a reader gets. The client library writes an object with a key `!` as its `value`, with that type of AMQP. */
const written = (value: unknown): unknown => {
  if (typeof value !== "object" || value === null) return value
  if (Array.isArray(value)) return value.map(written)
  if (!("!" in value && "value" in value)) return table(value)
  return typeof value.value === "object" && value.value !== null ? table(value.value) : value.value
}

const table = (value: object): object =>
  Object.fromEntries(Object.entries(value).map(([key, each]) => [key, written(each)]))

test("headers, properties and body come back, and integers have types that Celery's library reads", () => {
  const headers = {
    ...{
      id: "a",
      task: "lab.add",
      retries: 0,
      timelimit: [300, null],
      eta: null,
      deep: { "!": "int", value: [{ n: 1.5 }, true] },
    },
    ...{ big: 2 ** 40, low: -(2 ** 31), huge: 1e300, "!": "kept" },
  }
  const properties = {
    ...text,
    correlation_id: "a",
    reply_to: "b",
    priority: 3,
    delivery_mode: 2,
    expiration: "5",
    own: [1],
  }
  const { content, options } = taskMessage({ headers, properties, body }, "callboard:77", 3)
  expect(options.headers).toMatchObject({
    retries: { "!": "int", value: 0 },
    timelimit: [{ "!": "int", value: 300 }, null],
    big: { "!": "long", value: 2 ** 40 },
    huge: { "!": "double", value: 1e300 },
  })
  // With a time to live the server would drop an expired message.
  expect(options).not.toHaveProperty("expiration")
  const back = fromAmqp({
    content,
    fields: { redelivered: true, deliveryTag: 1, exchange: "", routingKey: "q" },
    properties: { ...options, headers: table(options.headers), expiration: undefined, timestamp: undefined } as never,
  })
  expect(back).toEqual({ message: { headers, properties, body }, sequence: 77, deliveries: 2, priority: 3 })
})

test("a number that is not finite has a type, without which the client library refuses it", () => {
  const headers = { id: "a", load: Number.NaN, min: [Number.NEGATIVE_INFINITY], half: 2 ** 51 + 0.5 }
  expect(taskMessage({ headers, properties: text, body }, "callboard:1").options.headers).toMatchObject({
    load: { "!": "double", value: Number.NaN },
    min: [{ "!": "double", value: Number.NEGATIVE_INFINITY }],
    half: { "!": "double", value: 2 ** 51 + 0.5 },
  })
})

test("a task that another program sends without a priority has the lowest, which RabbitMQ gives it", () => {
  const fields = { redelivered: false, deliveryTag: 1, exchange: "", routingKey: "q" }
  const priorityOf = (messageId: string) =>
    fromAmqp({ content: Buffer.from(body), fields, properties: { headers: { id: "a" }, messageId } as never }).message
      .properties.priority
  expect(priorityOf("theirs")).toBe(0)
  expect(priorityOf("callboard:77")).toBeUndefined()
})

test("what the server has noted about dead letters is read, and not sent again", () => {
  const noted = { "x-death": [{ count: 1 }], "x-first-death-queue": "q", "x-last-death-reason": "rejected" }
  const { options } = taskMessage({ headers: { id: "a", "x-deaths": "no", ...noted }, properties: text, body }, "m")
  expect(options.headers).toEqual({ id: "a", "x-deaths": "no" })
  const read = fromAmqp({
    content: Buffer.from(body),
    fields: { redelivered: false, deliveryTag: 1, exchange: "", routingKey: "q" },
    properties: { headers: { id: "a", ...noted } } as never,
  })
  expect(read.message.headers).toEqual({ id: "a", ...noted })
})
