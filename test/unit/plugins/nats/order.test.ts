/**
 * The order of tasks on nats at the worst moments: high jobs are accepted exactly while a request of a pull is on its way to the
 * server. A proxy between worker and server holds that request until the jobs are accepted and the server counts them.
 */
import { actor, connect } from "callboard"
import { connect as dial, type NatsConnection } from "nats"
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest"
import { Names } from "../../../../plugins/nats/mod.ts"
import { Bands } from "../../../../plugins/nats/streams/names.ts"
import { generateId } from "../../../../runtime/id.ts"
import type { Transport } from "../../../../runtime/transport/job-store/transport.ts"
import { idOf, taskOf } from "../../../kit/task.ts"
import { type NatsServer, startNats } from "../../../support/servers/nats.ts"
import { eventually } from "../../../support/servers/process.ts"
import { start } from "../../../support/services.ts"
import { connectNats } from "./connect-nats.ts"
import { type Proxy, startProxy } from "./proxy.ts"

const never = new AbortController().signal

/** How many times high jobs are submitted, at how many different moments of a pull, and how many of them each time. */
const THROWS = 50
const MOMENTS = 10
const HIGH = 20

let server: NatsServer
let proxy: Proxy
/** A client of the server for the test itself. */
let admin: NatsConnection
/** Gets the text that the worker sends. Resolves with the text to send in its place; `undefined` sends it unchanged. */
let tap: ((sent: string) => Promise<string> | undefined) | undefined

beforeAll(async () => {
  server = await startNats()
  admin = await dial({ servers: server.url })
  proxy = await startProxy(
    () => server.port,
    (sent) => tap?.(sent),
  )
})

afterAll(async () => {
  await admin?.close()
  await proxy?.stop()
  await server?.stop()
})

/** Resolves when the consumer of a lane counts `count` tasks or more that it has not handed over yet. */
const heard = (namespace: string, queue: string, band: number, count: number): Promise<unknown> => {
  const names = new Names(namespace)
  const subject = `$JS.API.CONSUMER.INFO.${names.queueStream}.${names.consumer(queue, band)}`
  const pending = async () => (await admin.request(subject)).json<{ num_pending?: number }>().num_pending ?? 0
  return eventually(async () => (await pending()) >= count, { every: 1 })
}

/** Lets `requests` requests of pulls pass, and holds the next one until `act` has ended. */
const whileHeld = <T>(requests: number, act: () => Promise<T>): Promise<T> =>
  new Promise((resolve, reject) => {
    let passing = requests
    tap = (sent) => {
      if (!sent.includes(".CONSUMER.MSG.NEXT.") || passing-- > 0) return undefined
      tap = undefined
      return act()
        .then(resolve, reject)
        .then(() => sent)
    }
  })

const names = (prefix: string, count: number): ReadonlyArray<string> =>
  Array.from({ length: count }, (_, at) => `${prefix}-${at}`)

describe.each([
  { between: "queues", high: { queue: "high" }, low: { queue: "low" }, queues: ["high", "low"], lane: ["high", 4] },
  { between: "priorities", high: { priority: 9 }, low: { priority: 0 }, queues: ["default"], lane: ["default", 7] },
] as const)("between $between", ({ high, low, queues, lane: [queue, band] }) => {
  test.each([1, 16])(
    "with %i handlers: high jobs are overtaken by what one pull brings at most",
    async (concurrency) => {
      const ns = generateId()
      await using client = await connect(`${server.url}?ns=${ns}`)
      const started: Array<string> = []
      const attempts = new Set<number>()
      const note = actor("order", {
        methods: {
          run: (name: string, job) => {
            started.push(name)
            attempts.add(job.attempt)
          },
        },
      })
      const submitted: Array<string> = []
      const submit = async (kind: typeof high | typeof low, prefix: string, count: number) => {
        const batch = names(prefix, count)
        const answers = await client.submitMany(batch.map((name) => ({ task: "order", args: [name], ...kind })))
        expect(answers.filter((answer) => answer instanceof Error)).toEqual([])
        submitted.push(...batch)
      }
      await start([note], { transport: `nats://127.0.0.1:${proxy.port}?ns=${ns}`, queues, concurrency, prefetch: 1 })
      for (let at = 0; at < THROWS; at++) {
        // Each round has a new backlog, since a task that is handed over for the first time starts without a claim.
        const before = started.length
        await submit(low, `low-${at}`, 12 * concurrency)
        await eventually(() => started.length >= before + 2 * concurrency, { every: 1 })
        // Only one pull runs at a time, and it is held: no other task is on its way to a handler.
        const accepted = await whileHeld(at % MOMENTS, async () => {
          await submit(high, `high-${at}`, HIGH)
          // One of the tasks may have been handed over to a parked request.
          await heard(ns, queue, band, HIGH - 1)
          return started.length
        })
        await eventually(() => started.length === submitted.length, { every: 1 })
        const since = started.slice(accepted)
        const isHigh = (name: string) => name.startsWith("high")
        const overtakers = since.slice(0, since.findLastIndex(isHigh)).filter((name) => !isHigh(name))
        expect(overtakers.length).toBeLessThanOrEqual(concurrency)
      }
      // Tasks that were handed back are neither lost nor doubled, do not wait for a lease, and count no attempt.
      expect(started.toSorted()).toEqual(submitted.toSorted())
      expect([...attempts]).toEqual([1])
    },
    180_000,
  )
})

describe("a pull", () => {
  const options = { lease: 30_000, name: "test", timeout: 5_000 }
  const tasks = (queue: string, count: number, priority = 4) =>
    names(`${queue}-${generateId()}`, count).map((id) => taskOf({ id, queue, priority }))
  const ids = (postings: ReadonlyArray<{ readonly id: string }>) => postings.map(({ id }) => id)
  const queues = ["high", "mid", "low"]
  const bands = new Bands(3)
  let namespace: string
  let worker: Transport
  let other: Transport
  let resources: AsyncDisposableStack

  beforeEach(async () => {
    resources = new AsyncDisposableStack()
    namespace = generateId()
    const open = async (url: string) =>
      resources.adopt(await connectNats(url, { ...options, namespace }), (transport) => transport.close())
    other = await open(server.url)
    worker = await open(`nats://127.0.0.1:${proxy.port}`)
  })

  afterEach(() => resources.disposeAsync())

  const pull = (max: number, wait = 5_000) => worker.jobs.take({ queues, max, wait }, never)

  /** Publishes tasks of one queue and priority. Resolves once the consumer counts them. */
  const publish = async (postings: ReturnType<typeof tasks>): Promise<void> => {
    const [{ queue, level } = { queue: "", level: 0 }] = postings
    await other.jobs.publish(postings)
    await heard(namespace, queue, bands.of(level), postings.length)
  }

  /** Number of requests that wait at the consumer of a lane. */
  const waiting = async (queue: string, level: number): Promise<number> => {
    const names = new Names(namespace)
    const subject = `$JS.API.CONSUMER.INFO.${names.queueStream}.${names.consumer(queue, bands.of(level))}`
    return (await admin.request(subject)).json<{ num_waiting?: number }>().num_waiting ?? 0
  }

  test("brings what was accepted before it in strict order, whatever the last ones found", async () => {
    let sizes = [1, 4, 2, 16, 3, 8]
    for (let round = 0; round < 12; round++) {
      const kinds = queues.flatMap((queue) =>
        [9, 4, 0].map((priority) => tasks(queue, (round * priority) % 4, priority)),
      )
      // The lowest tasks are published first, so that the order of publication differs from the expected one.
      for (const kind of kinds.toReversed()) if (kind.length > 0) await publish(kind)
      const expected = ids(kinds.flat())
      const came: Array<string> = []
      while (came.length < expected.length) {
        const [max = 1, ...rest] = sizes
        sizes = [...rest, max]
        const deliveries = await pull(max)
        expect(deliveries).toHaveLength(Math.min(max, expected.length - came.length))
        came.push(...deliveries.map(idOf))
        await other.jobs.settle(deliveries.map(({ token }) => ({ token, then: { kind: "ack" } })))
      }
      expect(came).toEqual(expected)
    }
  })

  test("may bring lower tasks than those that are accepted while it is under way, which come next", async () => {
    const [mid, low, high] = [tasks("mid", 2), tasks("low", 6), tasks("high", 2)]
    await publish(mid)
    await publish(low)
    expect((await pull(1)).map(idOf)).toEqual(ids(mid.slice(0, 1)))
    // The held request is the second one of the pull, which has already found `high` empty.
    const accepting = whileHeld(1, () => publish(high))
    expect((await pull(4)).map(idOf)).toEqual(ids([...mid.slice(1), ...low.slice(0, 3)]))
    await accepting
    expect((await pull(4)).map(idOf)).toEqual(ids([...high, ...low.slice(3, 5)]))
  })

  test("of a busy queue is one write, whatever the number of lanes, and brings nothing too many", async () => {
    const low = tasks("low", 22)
    await publish(low)
    expect((await pull(2)).map(idOf)).toEqual(ids(low.slice(0, 2)))
    let writes = 0
    tap = (sent) => {
      if (sent.includes(".CONSUMER.MSG.NEXT.")) writes++
      return undefined
    }
    const came = [...(await pull(4)), ...(await pull(4)), ...(await pull(4)), ...(await pull(4)), ...(await pull(4))]
    tap = undefined
    expect(came.map(idOf)).toEqual(ids(low.slice(2)))
    expect(writes).toBe(5)
    expect(came.map(({ deliveries }) => deliveries)).toEqual(came.map(() => 1))
  })

  test("hands back what comes too many, at once, in its order, and never claimed", async () => {
    const [low, high] = [tasks("low", 12), tasks("high", 5)]
    await publish(low)
    expect((await pull(2)).map(idOf)).toEqual(ids(low.slice(0, 2)))
    // The next pull expects `high` to be empty, and asks it together with `low`.
    const accepting = whileHeld(0, () => publish(high))
    expect((await pull(4)).map(idOf)).toEqual(ids(high.slice(0, 4)))
    await accepting
    expect((await pull(3)).map(idOf)).toEqual(ids([...high.slice(4), ...low.slice(2, 4)]))
    const rest = await pull(8)
    expect(rest.map(idOf)).toEqual(ids(low.slice(4)))
    // The broker has handed two of them over twice; nothing is stored about that.
    expect(rest.map(({ deliveries }) => deliveries)).toEqual([2, 2, 1, 1, 1, 1, 1, 1])
    const records = await Promise.all(ids(low.slice(4)).map((id) => other.jobs.find(id)))
    expect(records.map((found) => found?.record.state)).toEqual(rest.map(() => "queued"))
  })

  test("that does not wait brings what the consumer has not heard of yet when it is asked", async () => {
    const low = tasks("low", 1)
    await publish(low)
    // Another lane, which is empty, answers in place of the lane that has the task.
    const names = new Names(namespace)
    const [asked, answering] = [names.consumer("low", 4), names.consumer("high", 4)]
    tap = (sent) =>
      sent.includes('"no_wait":true') ? Promise.resolve(sent.replaceAll(`.${asked} `, `.${answering} `)) : undefined
    const came = await pull(1, 0)
    tap = undefined
    expect(came.map(idOf)).toEqual(ids(low))
  })

  test("brings what is there while the consumer of another lane cannot be made", async () => {
    const idle = pull(1)
    await eventually(async () => (await waiting("low", 0)) > 0, { every: 1 })
    const [one, two, high] = [tasks("low", 1), tasks("low", 1), tasks("high", 1)]
    await other.jobs.publish(one)
    expect((await idle).map(idOf)).toEqual(ids(one))
    // The consumer of one lane cannot be made, as in a cluster that has no leader for it.
    const own = new Names(namespace)
    const away = own.consumer("high", 4)
    const creation = new RegExp(
      `PUB \\S+\\.CONSUMER\\.CREATE\\.${own.queueStream}\\.${away} \\S+ \\d+\r\n\\{.*\\}\r\n`,
      "g",
    )
    let lost = 0
    tap = (sent) => {
      if (!creation.test(sent)) return undefined
      lost++
      return Promise.resolve(sent.replaceAll(creation, ""))
    }
    try {
      await admin.request(`$JS.API.CONSUMER.DELETE.${own.queueStream}.${away}`)
      // Parked requests are told that the consumer is gone. This pull uses them up, so the next one has to find that out.
      await pull(1, 0).catch(() => undefined)
      await other.jobs.publish(two)
      const began = performance.now()
      expect((await pull(1, 10_000)).map(idOf)).toEqual(ids(two))
      expect(performance.now() - began).toBeLessThan(5_000)
      expect(lost).toBeGreaterThan(0)
      await expect(pull(1)).rejects.toMatchObject({ reason: "unavailable" })
    } finally {
      tap = undefined
    }
    await other.jobs.publish(high)
    expect((await eventually(() => pull(1), { deadline: 10_000 })).map(idOf)).toEqual(ids(high))
  }, 30_000)

  test("that waits asks again when its requests got lost without a word", async () => {
    const parkings = /PUB \S+ \S+ \d+\r\n\{"batch":1,"expires":5000000000\}\r\n/g
    const lost = new Promise<void>((resolve) => {
      tap = (sent) => {
        if (!parkings.test(sent)) return undefined
        tap = undefined
        resolve()
        return Promise.resolve(sent.replaceAll(parkings, ""))
      }
    })
    const pulled = pull(1, 15_000)
    await lost
    const began = performance.now()
    const [task] = tasks("low", 1)
    if (task === undefined) throw new Error("there is one")
    await other.jobs.publish([task])
    expect((await pulled).map(idOf)).toEqual([task.id])
    expect(performance.now() - began).toBeLessThan(8_000)
  }, 20_000)
})
