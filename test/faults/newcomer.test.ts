/** A worker that starts when the lease of another worker's job is over: whether it takes the job, and when. */
import { actor, type Client, connect } from "callboard"
import { TransportError } from "callboard/transport"
import { describe, expect, onTestFinished, test } from "vitest"
import { WORKER_TTL_MS } from "../../runtime/cluster/directory.ts"
import { generateId } from "../../runtime/id.ts"
import { faulty, gate, withJobs } from "../support/faulty-board.ts"
import { eventually } from "../support/servers/process.ts"
import { start, WAIT } from "./service.ts"

const LEASE_MS = 1_000
const CAP_MS = 500
const reconnect = { base: 0.1, cap: CAP_MS / 1_000 }
/** How long a worker waits for those that are missing. */
const PATIENCE_MS = CAP_MS + WORKER_TTL_MS

const board = async () => {
  const name = generateId()
  const client = await connect(`memory://${name}?lease=1`)
  onTestFinished(() => client.close())
  return { transport: `faulty://${name}?lease=1`, client }
}

/** An actor whose job runs until `open` is called, and when its runs began. */
const holding = (onBegin: () => void = () => undefined) => {
  const { open, opened } = gate()
  const began: Array<number> = []
  const run = async () => {
    began.push(performance.now())
    onBegin()
    await opened
  }
  return { open, began, hold: actor("hold", { methods: { run, once: { onLost: "fail", run } } }) }
}

/** A worker that is cut off as soon as `state` says so. */
const cutOff = () => {
  const state = { isAway: false }
  const reach =
    <Args extends ReadonlyArray<unknown>, A>(call: (...args: Args) => Promise<A>) =>
    async (...args: Args): Promise<A> => {
      if (state.isAway) throw new TransportError("unavailable", "away", { outcome: "unknown" })
      return call(...args)
    }
  const transports = faulty(({ jobs, store, ...transport }) => ({
    ...transport,
    jobs: {
      ...jobs,
      take: reach(jobs.take),
      find: reach(jobs.find),
      extend: reach(jobs.extend),
      settle: reach(jobs.settle),
    },
    store: { ...store, get: reach(store.get), write: reach(store.write), list: reach(store.list) },
  }))
  return { state, transports }
}

/** The task of a job is held by a worker of another machine, which dies without a word, and begins its lease now. */
const takenElsewhere = async (client: Client) => {
  const job = await client.submit("hold")
  const request = { queues: ["default"], max: 1, wait: 1_000 }
  expect(await client.connection.jobs.take(request, new AbortController().signal)).toHaveLength(1)
  return { job, at: performance.now() }
}

const noted = ({ connection: { store } }: Client) =>
  store.write([{ key: "roster/elsewhere.1", value: new TextEncoder().encode(`{"name":"elsewhere","pid":1}`) }])

describe("a worker that starts after an outage", () => {
  test("leaves jobs to the living worker that began them, also such that must not run twice", async () => {
    const { transport, client } = await board()
    const { state, transports } = cutOff()
    const { hold, open, began } = holding(() => {
      state.isAway = began.length === 2
    })
    await start([hold], { transport, transports, reconnect })
    await eventually(async () => (await client.workers()).length === 1, { message: "the worker is registered" })
    const jobs = [await client.submit("hold"), await client.submit("hold.once")]
    await eventually(async () => began.length === 2 && (await client.workers()).length === 0, {
      message: "its entry has lapsed, as its leases have",
    })
    let handedOver = 0
    const counting = withJobs(({ take }) => ({
      take: async (request, signal) => {
        const deliveries = await take(request, signal)
        handedOver += deliveries.length
        return deliveries
      },
    }))
    await start([hold], { transport, transports: counting, reconnect })
    await eventually(() => handedOver >= 4, { message: "their tasks have come to the newcomer, again and again" })
    expect(began).toHaveLength(2)
    state.isAway = false
    await eventually(async () => (await client.workers()).length === 2, { message: "the first one is back" })
    open()
    for (const job of jobs) {
      expect(await job.outcome(WAIT)).toMatchObject({ state: "succeeded" })
      expect((await job.find()).attempts).toBe(1)
    }
    expect(began).toHaveLength(2)
  })

  test("takes the job of one that does not come back, once that had its time", async () => {
    const { transport, client } = await board()
    const { hold, open, began } = holding()
    await noted(client)
    await takenElsewhere(client)
    const at = performance.now()
    await start([hold], { transport, reconnect })
    await eventually(() => began.length === 1, { message: "it is taken" })
    expect((began[0] ?? 0) - at).toBeGreaterThan(PATIENCE_MS - 500)
    expect((began[0] ?? 0) - at).toBeLessThan(PATIENCE_MS + 5_000)
    open()
  })
})

describe("the job of a worker that died while the transport was there is taken as its lease ends", () => {
  test("by one that starts, when the death was seen", async () => {
    const { transport, client } = await board()
    const { hold, open, began } = holding()
    const { at } = await takenElsewhere(client)
    await start([hold], { transport, reconnect })
    await eventually(() => began.length === 1, { message: "it is taken" })
    expect((began[0] ?? 0) - at).toBeLessThan(LEASE_MS + 2_000)
    open()
  })

  test("by one that was there all the time", async () => {
    const { transport, client } = await board()
    const { hold, open, began } = holding()
    const { worker } = await start([hold], { transport, reconnect })
    const since = performance.now()
    await eventually(() => performance.now() - since > PATIENCE_MS + 500, { deadline: 20_000 })
    expect(worker?.removeQueue("default")).toBe(true)
    await noted(client)
    const { at } = await takenElsewhere(client)
    worker?.addQueue("default")
    await eventually(() => began.length === 1, { message: "it is taken" })
    expect((began[0] ?? 0) - at).toBeLessThan(LEASE_MS + 2_000)
    open()
  })
})

test("a worker that ends leaves nothing in the roster", async () => {
  const { transport, client } = await board()
  const { hold } = holding()
  const service = await start([hold], { transport })
  const { store } = client.connection
  const names = async () => (await store.list({ prefix: "roster/", limit: 10 })).length
  await eventually(async () => (await names()) === 1, { message: "it is noted" })
  await service.stop()
  expect(await names()).toBe(0)
})
