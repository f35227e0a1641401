/** Limits around an outage of the store, in virtual time. */
import { actor, connect } from "callboard"
import { virtualClock } from "callboard/testing"
import { expect, test } from "vitest"
import { LIMIT_TOPIC } from "../../../../../runtime/connection/connection.ts"
import { generateId } from "../../../../../runtime/id.ts"
import { makeLog } from "../../../../../runtime/log/log.ts"
import { settingsOf } from "../../../../../runtime/service/settings.ts"
import { TransportError } from "../../../../../runtime/transport/mod.ts"
import { decodeState, limitKey } from "../../../../../runtime/worker/limits/permits.ts"
import { startWorker } from "../../../../../runtime/worker/worker.ts"
import { faulty, sleep } from "../../../../support/faulty-board.ts"

const LEASE = 6

/** A board whose store can be away, and workers on it with an actor whose handler runs for `seconds`. */
const boardOf = async (lease: number, seconds: number, prefetch = 1) => {
  let away: ReadonlyArray<string> = []
  const transportsOf = (name: string) =>
    faulty((transport) => ({
      ...transport,
      store: {
        ...transport.store,
        write: async (operations) => {
          if (!away.includes(name)) return transport.store.write(operations)
          throw new TransportError("unavailable", "the store is away", { outcome: "unknown" })
        },
      },
    }))
  const url = `faulty://${generateId()}?lease=${lease}`
  // Loads what is loaded only once it is needed.
  await (await connect(url, { transports: transportsOf("none") })).close()
  const running: Array<string> = []
  let max = 0
  const worker = async (name: string) => {
    const client = await connect(url, { transports: transportsOf(name) })
    const run = async () => {
      running.push(name)
      max = Math.max(max, running.length)
      await sleep(1_000 * seconds)
      running.splice(running.indexOf(name), 1)
    }
    const actors = [actor("limited", { methods: { run: { limit: { concurrency: 1 }, run } } })]
    const started = await startWorker({
      ...settingsOf({ actors, concurrency: 1, prefetch }),
      connection: client.connection,
      client,
      actors,
      name,
      leaseMs: lease * 1_000,
      log: makeLog({ level: "none" }),
      observers: [],
    })
    const stop = () => started.stop().then(() => client.close())
    return { client, stop }
  }
  const setAway = (...names: ReadonlyArray<string>) => {
    away = names
  }
  return { worker, setAway, running, max: () => max }
}

test("a task that waits for a permit starts once the entry of its worker is written again after an outage", async () => {
  const board = await boardOf(LEASE, 5.2, 4)
  using clock = virtualClock()
  const { client, stop } = await clock.until(board.worker("limited"))
  await clock.advance(0.01)
  await client.submit("limited")
  const second = await client.submit("limited")
  await clock.advance(0.6)
  // The first job ends when its worker doubts whether other workers still know that it is alive.
  board.setAway("limited")
  await clock.advance(4.7)
  // Another worker asks for permits: this one compares what it has with what is stored, and finds nothing to change.
  await client.connection.broadcast.send(LIMIT_TOPIC, new TextEncoder().encode(`other ${limitKey("limited.run", "")}`))
  await clock.advance(0.01)
  board.setAway()
  const { state } = await clock.until(second.outcome({ timeout: "1 minute" }))
  expect(state).toBe("succeeded")
  await clock.until(stop())
})

test.each([2, 6, 7, 30])(
  "a worker keeps its permit over an outage in which its entry expires, with a lease of %i s",
  async (lease) => {
    const board = await boardOf(lease, 20)
    using clock = virtualClock()
    const first = await clock.until(board.worker("first"))
    const job = await first.client.submit("limited")
    await clock.advance(1)
    const second = await clock.until(board.worker("second"))
    await clock.advance(1)
    expect(board.running).toEqual(["first"])
    const next = await second.client.submit("limited")
    board.setAway("first", "second")
    await clock.advance(6)
    // It needs longer than the other worker to connect again.
    board.setAway("first")
    await clock.advance(2)
    board.setAway()
    for (let looks = 0; looks < 12; looks++) {
      await clock.advance(0.25)
      const [state] = await second.client.connection.store.get([limitKey("limited.run", "")])
      expect([...decodeState(state?.value).held.keys()]).toEqual([expect.stringMatching(/\/first$/)])
    }
    for (const each of [job, next])
      expect((await clock.until(each.outcome({ timeout: "2 minutes" }))).state).toBe("succeeded")
    expect(board.max()).toBe(1)
    await clock.until(Promise.all([first.stop(), second.stop()]))
  },
)
