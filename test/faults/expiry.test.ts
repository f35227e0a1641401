/** `expires` of a job whose worker has begun it and cannot say so. */
import { actor, connect } from "callboard"
import { TransportError } from "callboard/transport"
import { describe, expect, onTestFinished, test } from "vitest"
import { generateId } from "../../runtime/id.ts"
import { faulty, gate } from "../support/faulty-board.ts"
import { eventually } from "../support/servers/process.ts"
import { start, WAIT } from "./service.ts"

const away = () => new TransportError("unavailable", "away", { outcome: "unknown" })

/** A worker that is cut off as soon as its job, which expires after a second, has begun; and a client that is not. */
const cutOff = async (lease: number) => {
  const name = generateId()
  const state = { isAway: false }
  const reach =
    <Args extends ReadonlyArray<unknown>, A>(call: (...args: Args) => Promise<A>) =>
    async (...args: Args): Promise<A> => {
      if (state.isAway) throw away()
      return call(...args)
    }
  const transports = faulty(({ jobs, store, ...transport }) => ({
    ...transport,
    jobs: {
      ...jobs,
      take: reach(jobs.take),
      find: reach(jobs.find),
      extend: reach(jobs.extend),
      report: reach(jobs.report),
      settle: reach(jobs.settle),
    },
    store: { ...store, get: reach(store.get), write: reach(store.write), list: reach(store.list) },
  }))
  const { open, opened } = gate()
  let runs = 0
  const hold = actor("hold", {
    methods: {
      run: async () => {
        runs++
        state.isAway = true
        await opened
        return "done"
      },
    },
  })
  await start([hold], { transport: `faulty://${name}?lease=${lease}`, transports })
  const client = await connect(`memory://${name}?lease=${lease}`)
  onTestFinished(() => client.close())
  await eventually(async () => (await client.workers()).length === 1, { message: "the worker is registered" })
  const job = await client.submit("hold", { expires: 1 })
  await eventually(() => runs === 1, { message: "it runs" })
  return { client, job, state, open, runs: () => runs }
}

describe("a job that has begun does not expire, although its worker is cut off", () => {
  test("while it has its lease", async () => {
    const { job, state, open, runs } = await cutOff(30)
    await new Promise((resolve) => setTimeout(resolve, 1_700))
    expect((await job.find()).state).toBe("queued")
    state.isAway = false
    open()
    expect(await job.result(WAIT)).toBe("done")
    expect(runs()).toBe(1)
  })

  test("after its lease, and after its entry in the list of workers", async () => {
    const { job, client, state, open, runs } = await cutOff(1)
    await eventually(async () => (await client.workers()).length === 0, { message: "its entry has lapsed" })
    const known = await client.connection.jobs.find(job.id)
    expect(known).toMatchObject({ taken: "before", record: { state: "queued" } })
    expect((await job.find()).state).toBe("queued")
    state.isAway = false
    open()
    expect(await job.result(WAIT)).toBe("done")
    expect(runs()).toBe(1)
  })

  test("while one that no worker has taken does", async () => {
    const { client, state, open } = await cutOff(30)
    const other = await client.submit("hold", { queue: "other", expires: 0.2 })
    expect(await other.outcome(WAIT)).toMatchObject({ state: "expired" })
    state.isAway = false
    open()
  })
})
