/** The nats driver by itself: one that is connected directly, one whose bytes are seen and changed, and what both are asked. */
import type { NatsConnection } from "nats"
import { afterAll, afterEach, beforeAll, beforeEach, expect } from "vitest"
import { plugin } from "../../../../plugins/nats/mod.ts"
import { generateId } from "../../../../runtime/id.ts"
import { encodeEnvelope } from "../../../../runtime/protocol/envelope.ts"
import { publishKey } from "../../../../runtime/protocol/message.ts"
import type { Commit, Delivery, Driver, Posting } from "../../../../runtime/transport/driver.ts"
import type { Index } from "../../../../runtime/transport/known.ts"
import { taskOf } from "../../../kit/task.ts"
import { type NatsServer, startNats } from "../../../support/servers/nats.ts"
import { type Proxy, startProxy } from "./proxy.ts"

export const closing = (client: NatsConnection): NatsConnection & AsyncDisposable =>
  Object.assign(client, { [Symbol.asyncDispose]: () => client.close() })

const never = new AbortController().signal
export const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text)
export const textOf = (bytes: Uint8Array | undefined): string | undefined =>
  bytes === undefined ? undefined : new TextDecoder().decode(bytes)

export const postingOf = (fields: Partial<Parameters<typeof taskOf>[0]> = {}): Posting => {
  const posting = taskOf({ id: generateId(), queue: "q", ...fields })
  const frame = encodeEnvelope(posting.message)
  if (frame._tag === "Failure") throw new Error(frame.failure.message)
  const { id, queue, level, due, expires, message } = posting
  return {
    id,
    key: publishKey(posting),
    queue,
    level,
    index: indexOf(due === undefined ? "queued" : "scheduled", { queue }),
    frame: frame.success,
    message,
    ...(due === undefined ? {} : { due }),
    ...(expires === undefined ? {} : { expires }),
  }
}

export const indexOf = (state: Index["state"], fields: Partial<Index> = {}): Index => ({
  state,
  queue: "q",
  task: "a",
  at: 1_700_000_000_000,
  ...fields,
})

export const publish = async (driver: Driver, ...postings: ReadonlyArray<Posting>): Promise<void> => {
  expect(await driver.publish(postings)).toEqual(postings.map(() => ({ status: "stored" })))
}

export const takeAll = async (driver: Driver, max: number, wait = 5_000): Promise<ReadonlyArray<Delivery>> => {
  const { deliveries } = await driver.take({ queues: ["q"], max, wait, rotate: false }, never)
  return deliveries
}

export const take = async (driver: Driver, wait = 5_000): Promise<Delivery> => {
  const [delivery] = await takeAll(driver, 1, wait)
  if (delivery === undefined) throw new Error("a task must come")
  return delivery
}

export const commit = async (driver: Driver, one: Commit) => {
  const [committed] = await driver.commit([one])
  if (committed === undefined) throw new Error("one answer per commit")
  return committed
}

/** Stores a record. Resolves with its revision; fails if it is not stored. */
export const store = async (
  driver: Driver,
  id: string,
  state: Index["state"],
  expect_ = "",
  rest: Partial<Commit> & { readonly keep?: number } = {},
): Promise<string> => {
  const { keep, ...more } = rest
  const record = {
    expect: expect_,
    bytes: bytesOf(state),
    index: indexOf(state),
    ...(keep === undefined ? {} : { keep }),
  }
  const committed = await commit(driver, { id, record, ...more })
  if (committed.status !== "committed") throw new Error(`${id} must be committed: ${JSON.stringify(committed)}`)
  return committed.revision
}

export const read = async (driver: Driver, id: string, what: "record" | "all" = "all") =>
  (await driver.read([id], what))[0]

/**
 * Starts a server for the tests of a file, which calls this once: each test has a namespace of its own, and what it opens ends with
 * it. `wire`: what the driver behind the proxy has sent, and what replaces it.
 */
export const driversOnNats = () => {
  let server: NatsServer
  let proxy: Proxy
  let resources: AsyncDisposableStack
  let namespace: string
  const wire: {
    /** All bytes that the driver behind the proxy has sent. */
    sent: string
    /** Replaces text that the driver sends; `undefined` leaves it unchanged. */
    tap: ((text: string) => string) | undefined
  } = { sent: "", tap: undefined }

  beforeAll(async () => {
    server = await startNats()
    proxy = await startProxy(
      () => server.port,
      (text) => {
        wire.sent += text
        return wire.tap === undefined ? undefined : Promise.resolve(wire.tap(text))
      },
    )
  })

  afterAll(async () => {
    await proxy?.stop()
    await server?.stop()
  })

  beforeEach(() => {
    resources = new AsyncDisposableStack()
    namespace = generateId()
    wire.sent = ""
    wire.tap = undefined
  })

  afterEach(() => resources.disposeAsync())

  const open = async (url: string, lease = 30_000): Promise<Driver> =>
    resources.adopt(
      await plugin.connect(new URL(url), { namespace, lease, name: "test", timeout: 5_000 }),
      (opened: Driver) => opened.close(),
    )

  return {
    wire,
    open,
    direct: (lease?: number) => open(server.url, lease),
    wired: (lease?: number) => open(`nats://127.0.0.1:${proxy.port}`, lease),
    get server() {
      return server
    },
    get proxy() {
      return proxy
    },
    get resources() {
      return resources
    },
    get namespace() {
      return namespace
    },
  }
}
