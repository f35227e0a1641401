/** What becomes of a settlement that the transport does not take. */
import { connect } from "callboard"
import { Effect } from "effect"
import { expect, test } from "vitest"
import { Connectivity } from "../../../../../runtime/connection/connectivity.ts"
import { generateId } from "../../../../../runtime/id.ts"
import { collectLog } from "../../../../../runtime/testing/log.ts"
import { TransportError } from "../../../../../runtime/transport/errors.ts"
import type { Jobs, Settlement } from "../../../../../runtime/transport/job-store/transport.ts"
import { SettlementStore } from "../../../../../runtime/worker/run/settlement-store.ts"
import { keep } from "../../../../support/servers/keep.ts"

const TOKEN = "token"
const SUCCEEDED: Settlement = { token: TOKEN, then: { kind: "ack" } }
const FAILED: Settlement = { token: TOKEN, then: { kind: "ack" } }

/** A store of settlements over a transport that answers each with an error. */
const storeThatFails = async (error: TransportError) => {
  const { connection } = keep(await connect(`memory://${generateId()}`))
  const tried: Array<Settlement> = []
  const jobs: Jobs = Object.assign(Object.create(connection.jobs), {
    settle: async (settlements: ReadonlyArray<Settlement>) => {
      tried.push(...settlements)
      return settlements.map(() => ({ status: "failed", error }))
    },
  })
  const { log, lines } = collectLog()
  const connectivity = new Connectivity(connection.transport, new AbortController().signal)
  return { store: new SettlementStore(jobs, log, connectivity), tried, lines }
}

test("once the worker has stopped, an error inside the transport is no refusal: the task is delivered again", async () => {
  const { store, tried, lines } = await storeThatFails(new TransportError("internal", "a fault"))
  store.stop()
  const result = await Effect.runPromise(store.store(SUCCEEDED, { job: "job", replace: () => FAILED }))
  expect(result).toBe("lost")
  expect(tried).toEqual([SUCCEEDED])
  expect(lines.map(({ message }) => message)).toEqual([
    "an outcome could not be stored; the task will be delivered again",
  ])
})

test("a result that is too large is replaced, also while the worker stops", async () => {
  const { store, tried } = await storeThatFails(new TransportError("too-large", "a result"))
  store.stop()
  expect(await Effect.runPromise(store.store(SUCCEEDED, { job: "job", replace: () => FAILED }))).toBe("lost")
  expect(tried).toEqual([SUCCEEDED, FAILED])
})
