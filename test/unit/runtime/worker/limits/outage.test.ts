/** Limits around an outage of the store, in virtual time. */
import { actor, connect } from "callboard"
import { virtualClock } from "callboard/testing"
import { expect, test } from "vitest"
import { LIMIT_TOPIC } from "../../../../../runtime/connection/connection.ts"
import { generateId } from "../../../../../runtime/id.ts"
import { makeLog } from "../../../../../runtime/log/log.ts"
import { settingsOf } from "../../../../../runtime/service/settings.ts"
import { TransportError } from "../../../../../runtime/transport/mod.ts"
import { limitKey } from "../../../../../runtime/worker/limits/permits.ts"
import { startWorker } from "../../../../../runtime/worker/worker.ts"
import { faulty, sleep } from "../../../../support/faulty-board.ts"

const LEASE = 3

test("a task that waits for a permit starts once the entry of its worker is written again after an outage", async () => {
  const transports = faulty((transport) => ({
    ...transport,
    store: {
      ...transport.store,
      write: async (operations) => {
        if (isAway) throw new TransportError("unavailable", "the store is away", { outcome: "unknown" })
        return transport.store.write(operations)
      },
    },
  }))
  let isAway = false
  const url = `faulty://${generateId()}?lease=${LEASE}`
  // Loads what is loaded only once it is needed.
  await (await connect(url, { transports })).close()
  using clock = virtualClock()
  const client = await connect(url, { transports })
  const actors = [actor("limited", { methods: { run: { limit: { concurrency: 1 }, run: () => sleep(2_940) } } })]
  const worker = await clock.until(
    startWorker({
      ...settingsOf({ actors }),
      connection: client.connection,
      client,
      actors,
      name: "limited",
      leaseMs: LEASE * 1_000,
      log: makeLog({ level: "none" }),
      observers: [],
    }),
  )
  await clock.advance(0.01)
  await client.submit("limited")
  const second = await client.submit("limited")
  await clock.advance(0.6)
  // The entry was written after half a second. The first job ends when its worker doubts whether the entry still exists, and
  // before it has expired.
  isAway = true
  await clock.advance(2.36)
  // Another worker asks for permits: this one compares what it has with what is stored, and finds nothing to change.
  await client.connection.broadcast.send(LIMIT_TOPIC, new TextEncoder().encode(`other ${limitKey("limited.run", "")}`))
  await clock.advance(0.01)
  isAway = false
  const { state } = await clock.until(second.outcome({ timeout: "1 minute" }))
  expect(state).toBe("succeeded")
  await clock.until(worker.stop())
  await clock.until(client.close())
})
