/** Durable steps while the store of a living worker cannot be reached. */
import { actor, type JobHandle } from "callboard"
import { TransportError } from "callboard/transport"
import { describe, expect, test } from "vitest"
import { journalPrefix } from "../../runtime/steps/page.ts"
import { faulty } from "../support/faulty-board.ts"
import { eventually } from "../support/servers/process.ts"
import { start, WAIT } from "./service.ts"

/** A board whose store takes, or gives, nothing of the journals for as long as `away` says so. */
const board = () => {
  const state = { away: false, refused: 0 }
  const isJournal = (key: string) => key.split("/")[0] === journalPrefix("x", 1).split("/")[0]
  const ask = async <A>(keys: ReadonlyArray<string>, work: () => Promise<A>): Promise<A> => {
    if (!state.away || !keys.some(isJournal)) return work()
    state.refused++
    throw new TransportError("unavailable", "away", { outcome: "unknown" })
  }
  const transports = faulty(({ store, ...transport }) => ({
    ...transport,
    store: {
      ...store,
      get: (keys) => ask(keys, () => store.get(keys)),
      write: (all) =>
        ask(
          all.map(({ key }) => key),
          () => store.write(all),
        ),
    },
  }))
  const ran: Array<string> = []
  const flow = actor("flow", {
    methods: {
      run: {
        timeLimit: "1 minute",
        run: async (_, job) => {
          for (const name of ["a", "b", "c"])
            await job.step(name, () => {
              ran.push(name)
              if (name === "b" && state.refused === 0) state.away = true
            })
        },
      },
      short: {
        timeLimit: "1 second",
        run: async (_, job) => {
          state.away = true
          await job.step("a", () => ran.push("a"))
        },
      },
    },
  })
  return { state, transports, ran, flow }
}

const stateOf = async (job: JobHandle): Promise<string> => (await job.find()).state

describe("while the store is away", () => {
  test("a step that has completed does not run again, and the next one waits", async () => {
    const { state, transports, ran, flow } = board()
    const { client } = await start([flow], { transports })
    const job = await client.submit("flow")
    await eventually(() => state.refused >= 8, { message: "the outcome of the second step is refused again and again" })
    expect(ran).toEqual(["a", "b"])
    state.away = false
    expect(await job.outcome(WAIT)).toMatchObject({ state: "succeeded" })
    expect(ran).toEqual(["a", "b", "c"])
    expect((await job.find()).transitions.map((each) => each.state)).toEqual(["queued", "started", "succeeded"])
  })

  test("the hard limit ends a handler that waits at a step", async () => {
    const { state, transports, ran, flow } = board()
    const { client } = await start([flow], { transports })
    const job = await client.submit("flow.short")
    expect(await job.outcome(WAIT)).toMatchObject({ state: "failed", error: { reason: "timeout" } })
    expect(state.away).toBe(true)
    expect(ran).toEqual(["a"])
  })

  test("a cancellation ends it", async () => {
    const { state, transports, ran, flow } = board()
    const { client, worker } = await start([flow], { transports })
    const job = await client.submit("flow")
    await eventually(() => state.refused >= 3, { message: "it waits" })
    await job.cancel()
    await eventually(() => worker?.describe().inFlight === 0, { message: "its slot is free" })
    expect(await stateOf(job)).toBe("cancelled")
    expect(ran).toEqual(["a", "b"])
  })

  test("a stop hands its job back, and no step that was stored runs again", async () => {
    const { state, transports, ran, flow } = board()
    const service = await start([flow], { transports, transport: "faulty://steps-stop" })
    const other = await start([], { transports, transport: "faulty://steps-stop" })
    const job = await service.client.submit("flow")
    await eventually(() => state.refused >= 6, { message: "it waits" })
    const began = performance.now()
    await service.stop({ now: true })
    expect(performance.now() - began).toBeLessThan(4_000)
    expect((await other.client.job(job.id).find()).state).toBe("queued")
    state.away = false
    await start([flow], { transports, transport: "faulty://steps-stop" })
    expect(await other.client.job(job.id).outcome(WAIT)).toMatchObject({ state: "succeeded" })
    expect(ran).toEqual(["a", "b", "b", "c"])
  })
})
