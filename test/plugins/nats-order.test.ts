/**
 * Strict order on nats at the worst moments: high jobs are accepted exactly while a request of a pull is on its way to the
 * server. A wire between worker and server holds that request until they are.
 */
import { actor, connect } from "callboard"
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest"
import { plugin } from "../../plugins/nats/mod.ts"
import { generateId } from "../../runtime/id.ts"
import type { Transport } from "../../runtime/transport.ts"
import { idOf, taskOf } from "../kit/task.ts"
import { start } from "../runtime/worker/services.ts"
import { type NatsServer, startNats } from "../servers/nats.ts"
import { eventually } from "../servers/process.ts"
import { type Proxy, startProxy } from "./nats/proxy.ts"

const never = new AbortController().signal

/** Throws of high jobs, each at the next of as many moments. */
const THROWS = 50
const MOMENTS = 10
const HIGH = 20

let server: NatsServer
let proxy: Proxy
/** How many requests of pulls still pass before one is held, and what happens meanwhile. */
let held: { requests: number; readonly act: (sent: string) => Promise<string> } | undefined

beforeAll(async () => {
  server = await startNats()
  proxy = await startProxy(
    () => server.port,
    (sent) => {
      if (held === undefined || !sent.includes(".CONSUMER.MSG.NEXT.") || held.requests-- > 0) return undefined
      const { act } = held
      held = undefined
      return act(sent)
    },
  )
})

afterAll(async () => {
  await proxy?.stop()
  await server?.stop()
})

/** Resolves when a request of a pull was held and `act` has ended; `pass` says what is sent then. */
const whileHeld = <T>(requests: number, act: () => Promise<T>, pass = (sent: string) => sent): Promise<T> =>
  new Promise((resolve, reject) => {
    const hold = (sent: string) =>
      act()
        .then(resolve, reject)
        .then(() => pass(sent))
    held = { requests, act: hold }
  })

const names = (prefix: string, count: number): ReadonlyArray<string> =>
  Array.from({ length: count }, (_, at) => `${prefix}-${at}`)

describe.each([
  { between: "queues", high: { queue: "high" }, low: { queue: "low" }, queues: ["high", "low"] },
  { between: "priorities", high: { priority: 9 }, low: { priority: 0 }, queues: ["default"] },
])("between $between", ({ high, low, queues }) => {
  test.each([1, 16])(
    "with %i handlers: no low job starts after high ones were accepted, while those wait",
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
      const overtakers: Array<string> = []
      for (let at = 0; at < THROWS; at++) {
        // A new backlog each time: a task that is handed over for the first time starts in the turn in which it comes.
        const before = started.length
        await submit(low, `low-${at}`, 12 * concurrency)
        await eventually(() => started.length >= before + 2 * concurrency, { every: 1 })
        // One pull runs at a time, and it is the one that is held: no other task is on its way to a handler.
        const accepted = await whileHeld(at % MOMENTS, async () => {
          await submit(high, `high-${at}`, HIGH)
          return started.length
        })
        await eventually(() => started.length === submitted.length, { every: 1 })
        const since = started.slice(accepted)
        const isHigh = (name: string) => name.startsWith("high")
        overtakers.push(...since.slice(0, since.findLastIndex(isHigh)).filter((name) => !isHigh(name)))
      }
      expect(overtakers).toEqual([])
      // What was handed back was neither lost nor doubled, waited for no lease, and counts no attempt.
      expect(started.toSorted()).toEqual(submitted.toSorted())
      expect([...attempts]).toEqual([1])
    },
    60_000,
  )
})

describe("a pull", () => {
  const options = { lease: 30_000, name: "test", timeout: 5_000 }
  const tasks = (queue: string, count: number) =>
    names(`${queue}-${generateId()}`, count).map((id) => taskOf({ id, queue }))
  const ids = (postings: ReadonlyArray<{ readonly id: string }>) => postings.map(({ id }) => id)
  let worker: Transport
  let other: Transport
  let resources: AsyncDisposableStack

  beforeEach(async () => {
    resources = new AsyncDisposableStack()
    const namespace = generateId()
    const open = async (url: string) =>
      resources.adopt(await plugin.connect(new URL(url), { ...options, namespace }), (transport) => transport.close())
    other = await open(server.url)
    worker = await open(`nats://127.0.0.1:${proxy.port}`)
  })

  afterEach(() => resources.disposeAsync())

  const pull = (max: number) => worker.queue.pull({ queues: ["high", "low"], max, wait: 5_000 }, never)

  test("brings what is handed back for higher tasks again at once, in its order, and never claimed", async () => {
    const [low, high] = [tasks("low", 12), tasks("high", 5)]
    await other.queue.publish(low)
    expect((await pull(2)).map(idOf)).toEqual(ids(low.slice(0, 2)))
    // The next pull begins where the last one found something; high ones come while it asks there.
    const accepting = whileHeld(0, () => other.queue.publish(high))
    expect((await pull(4)).map(idOf)).toEqual(ids(high.slice(0, 4)))
    await accepting
    expect((await pull(3)).map(idOf)).toEqual(ids([...high.slice(4), ...low.slice(2, 4)]))
    const rest = await pull(8)
    expect(rest.map(idOf)).toEqual(ids(low.slice(4)))
    // Handed over twice, as the broker counts; nothing is stored about them.
    expect(rest.map(({ deliveries }) => deliveries)).toEqual([2, 2, 1, 1, 1, 1, 1, 1])
    const records = await Promise.all(ids(low.slice(4)).map((id) => other.records?.find(id)))
    expect(records.map((found) => found?.record.state)).toEqual(rest.map(() => "queued"))
  })

  test.each([1, 3])("of %i looks at all lanes again where one consumer was too late", async (max) => {
    const [low, high] = [tasks("low", 4), tasks("high", max)]
    await other.queue.publish(low)
    expect((await pull(1)).map(idOf)).toEqual(ids(low.slice(0, 1)))
    // First it asks for a task, then it looks at the lanes above it: here one look has no time, but not that at `high`.
    const looked = whileHeld(
      1,
      async () => {},
      (sent) => sent.replace(/"expires":(\d+)/, (_, { length }) => `"expires":2${" ".repeat(length - 1)}`),
    )
    const pulled = pull(max)
    await looked
    // High ones come after their lane was seen empty, and before the late one has answered.
    await whileHeld(0, () => other.queue.publish(high))
    expect((await pulled).map(idOf)).toEqual(ids(high))
    expect((await pull(4)).map(idOf)).toEqual(ids(low.slice(1)))
  })
})
