/** What the server hands over to a thread that stands still for longer than a lease. */
import { afterEach, beforeEach, describe, expect, test } from "vitest"
import { generateId } from "../../../../runtime/id.ts"
import type { Transport } from "../../../../runtime/transport/job-store/transport.ts"
import { idOf, taskOf } from "../../../kit/task.ts"
import { block } from "../../../support/block.ts"
import { startNats } from "../../../support/servers/nats.ts"
import { eventually } from "../../../support/servers/process.ts"
import { connectNats } from "./connect-nats.ts"
import { type Proxy, startProxy } from "./proxy.ts"

const LEASE = 1_000
const never = new AbortController().signal

let resources: AsyncDisposableStack
let proxy: Proxy
/** Connected through a proxy that can be frozen. */
let worker: Transport
let other: Transport
let parked: boolean

beforeEach(async () => {
  resources = new AsyncDisposableStack()
  const server = resources.use(await startNats())
  parked = false
  proxy = await startProxy(
    () => server.port,
    (sent) => {
      if (sent.includes('"expires":')) parked = true
      return undefined
    },
  )
  resources.defer(() => proxy.stop())
  const options = { namespace: generateId(), lease: LEASE, name: "test", timeout: 5_000 }
  const open = async (url: string) => resources.adopt(await connectNats(url, options), (transport) => transport.close())
  other = await open(server.url)
  worker = await open(`nats://127.0.0.1:${proxy.port}`)
})

afterEach(() => resources.disposeAsync())

/** Resolves when the server has answered all earlier requests of the worker. */
const roundTrip = () => worker.store?.now()

const pull = (transport: Transport, wait: number, signal = never) =>
  transport.jobs.take({ queues: ["default"], max: 1, wait }, signal)

/** Starts a pull of the worker and resolves when it waits at the server. */
const waiting = async (signal: AbortSignal) => {
  const pulled = pull(worker, 20_000, signal)
  await eventually(() => parked, { every: 1 })
  await roundTrip()
  return { pulled }
}

describe("a task that came while the thread stood still", () => {
  test("is left to the delivery that has it once its lease has ended", async () => {
    const end = new AbortController()
    const { pulled } = await waiting(end.signal)
    const task = taskOf({ id: generateId(), queue: "default" })
    proxy.freeze()
    await other.jobs.publish([task])
    block(LEASE * 1.2)
    const [again] = await pull(other, 5_000)
    expect(again && idOf(again)).toBe(task.id)
    expect(again?.deliveries).toBeGreaterThan(1)
    proxy.thaw()
    await roundTrip()
    end.abort()
    expect(await pulled).toEqual([])
    // The worker has not returned the task either.
    expect(await pull(other, LEASE / 2)).toEqual([])
    const settled = await other.jobs.settle([{ token: again?.token ?? "", then: { kind: "ack" } }])
    expect(settled).toEqual([{ status: "ended" }])
  })

  test("comes again to the same worker when no other takes it, and later tasks come too", async () => {
    const { pulled } = await waiting(never)
    const [task, later] = [
      taskOf({ id: generateId(), queue: "default" }),
      taskOf({ id: generateId(), queue: "default" }),
    ]
    proxy.freeze()
    await other.jobs.publish([task])
    block(LEASE * 1.2)
    proxy.thaw()
    const [again] = await pulled
    expect(again && idOf(again)).toBe(task.id)
    expect(again?.deliveries).toBeGreaterThan(1)
    await other.jobs.publish([later])
    const [next] = await pull(worker, 5_000)
    expect(next && idOf(next)).toBe(later.id)
  })
})
