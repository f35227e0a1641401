/** Which thread extends the leases, before the lease thread is connected and after. */
import { connect } from "callboard"
import { expect, onTestFinished, test, vi } from "vitest"
import { generateId } from "../../../../../runtime/id.ts"
import { makeLog } from "../../../../../runtime/log/log.ts"
import { collectLog } from "../../../../../runtime/testing/log.ts"
import { TransportError } from "../../../../../runtime/transport/errors.ts"
import type { Jobs } from "../../../../../runtime/transport/job-store/transport.ts"
import { ActiveDelivery, HeldDeliveries } from "../../../../../runtime/worker/active-delivery.ts"
import { keepLeases } from "../../../../../runtime/worker/leases/lease-keeper.ts"
import { taskOf } from "../../../../kit/task.ts"
import { block } from "../../../../support/block.ts"
import { memory } from "../../../../support/memory.ts"
import { eventually, freePort, temporaryFolder } from "../../../../support/servers/process.ts"

const LEASE = 1_000

/** A delivery, and how often the main thread has extended its lease. */
const holding = async () => {
  const options = { namespace: "test", lease: LEASE, name: "test", timeout: 5_000 }
  const { jobs } = await memory.connect(new URL(`memory://${generateId()}`), options)
  await jobs.publish([taskOf({ id: "job", queue: "q" })])
  const [delivery] = await jobs.take({ queues: ["q"], max: 1, wait: 0 }, new AbortController().signal)
  if (delivery === undefined) throw new Error("nothing was pulled")
  const seen = { extended: 0 }
  const counting: Jobs = Object.assign(Object.create(jobs), {
    extend: (tokens: ReadonlyArray<string>) => {
      seen.extended++
      return jobs.extend(tokens)
    },
  })
  const held = new HeldDeliveries()
  held.add(new ActiveDelivery(delivery, 0))
  return { seen, jobs: counting, held }
}

const tokensOf = (held: HeldDeliveries) => Array.from(held.values(), ({ delivery }) => delivery.token)

const target = { namespace: "test", heartbeat: undefined, extendsAlone: true }
const keeping = {
  worker: "w1",
  lease: LEASE,
  log: makeLog({ level: "none" }),
  runs: { leaseLost: (_: ActiveDelivery) => undefined, running: () => [], reported: () => undefined },
}

test("until its thread is connected, this one keeps the leases", async () => {
  const { seen, ...rest } = await holding()
  // No server answers at that address, so the thread tries again and again.
  const thread = { ...target, url: `nats://127.0.0.1:${await freePort()}` }
  const keeper = keepLeases({ ...keeping, ...rest, thread })
  try {
    await eventually(() => seen.extended >= 3, { message: "the lease is extended" })
  } finally {
    keeper.stop()
  }
})

test("beside a thread that does not know deliveries of this connection, this one keeps the leases", async () => {
  using folder = temporaryFolder()
  const { seen, ...rest } = await holding()
  const thread = { ...target, url: `sqlite:${folder.path}/board.db`, extendsAlone: false }
  const lost: Array<string> = []
  const keeper = keepLeases({
    ...keeping,
    ...rest,
    thread,
    runs: { ...keeping.runs, leaseLost: ({ delivery }) => lost.push(delivery.token) },
  })
  try {
    await eventually(() => seen.extended >= 8, { message: "the lease is extended, also after three leases" })
    expect(lost).toEqual([])
  } finally {
    keeper.stop()
  }
})

test("once its thread is connected, this one leaves them to it", async () => {
  using folder = temporaryFolder()
  const { seen, ...rest } = await holding()
  const keeper = keepLeases({ ...keeping, ...rest, thread: { ...target, url: `sqlite:${folder.path}/board.db` } })
  try {
    let before = -1
    const rests = () => {
      const same = seen.extended === before
      before = seen.extended
      return same
    }
    // The pause between two checks is four times the interval of extensions.
    await eventually(rests, { every: (LEASE / 3) * 4, message: "it extends no more" })
  } finally {
    keeper.stop()
  }
})

test("a worker without deliveries sets no timers for its thread", async () => {
  using folder = temporaryFolder()
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] })
  onTestFinished(() => void vi.useRealTimers())
  const { jobs, held } = await holding()
  const thread = { ...target, url: `sqlite:${folder.path}/board.db` }
  const keeper = keepLeases({ ...keeping, jobs, held, thread })
  try {
    await eventually(() => vi.getTimerCount() === 0, { message: "the thread is connected, and nothing is set" })
    keeper.added(tokensOf(held))
    keeper.deadline(performance.now() + 60_000)
    vi.advanceTimersByTime(LEASE)
    expect(vi.getTimerCount()).toBe(2)
    for (const each of held.values()) held.remove(each)
    keeper.deadline(Number.POSITIVE_INFINITY)
    vi.advanceTimersByTime(LEASE)
    expect(vi.getTimerCount()).toBe(0)
  } finally {
    keeper.stop()
  }
})

test("a delivery that came alone keeps its lease while this thread blocks at once", async () => {
  using folder = temporaryFolder()
  const url = `sqlite:${folder.path}/board.db?lease=1`
  const client = await connect(url)
  onTestFinished(() => client.close())
  const { jobs } = client.connection
  await client.submitMany(["first", "second"].map((id) => ({ task: "none", id })))
  const held = new HeldDeliveries()
  const lost: Array<string> = []
  const runs = { ...keeping.runs, leaseLost: ({ delivery }: ActiveDelivery) => lost.push(delivery.token) }
  const seen = { extended: 0 }
  const counting: Jobs = Object.assign(Object.create(jobs), {
    extend: (tokens: ReadonlyArray<string>) => {
      seen.extended++
      return jobs.extend(tokens)
    },
  })
  const thread = { ...target, namespace: undefined, url }
  const keeper = keepLeases({ ...keeping, jobs: counting, held, thread, runs })
  const pull = () => jobs.take({ queues: ["default"], max: 1, wait: 0 }, new AbortController().signal)
  const take = async () => {
    const [delivery] = await pull()
    if (delivery === undefined) throw new Error("nothing was pulled")
    held.add(new ActiveDelivery(delivery, 0))
    keeper.added([delivery.token])
  }
  try {
    await take()
    const connected = async () => {
      const before = seen.extended
      await new Promise((resolve) => setTimeout(resolve, LEASE / 2))
      return seen.extended === before
    }
    await eventually(connected, { message: "the thread is connected" })
    await jobs.settle(tokensOf(held).map((token) => ({ token, then: { kind: "ack" } })))
    for (const each of held.values()) held.remove(each)
    await take()
    block(3 * LEASE)
    expect(await pull()).toEqual([])
    expect(lost).toEqual([])
  } finally {
    keeper.stop()
  }
})

test("an outage in which the leases cannot be extended is one line of the log, and the next one is another", async () => {
  const { jobs, held } = await holding()
  const { log, lines } = collectLog()
  const state = { isAway: true, tries: 0 }
  const unsteady: Jobs = Object.assign(Object.create(jobs), {
    extend: async (tokens: ReadonlyArray<string>) => {
      state.tries++
      if (state.isAway) throw new TransportError("unavailable", "away")
      return jobs.extend(tokens)
    },
  })
  const tried = (count: number) => {
    const before = state.tries
    return eventually(() => state.tries >= before + count, { message: `${count} more tries` })
  }
  const keeper = keepLeases({ ...keeping, jobs: unsteady, held, log })
  try {
    await tried(3)
    state.isAway = false
    await tried(2)
    state.isAway = true
    await tried(3)
  } finally {
    keeper.stop()
  }
  expect(lines.map(({ message }) => message)).toEqual(Array(2).fill("leases could not be extended"))
})
