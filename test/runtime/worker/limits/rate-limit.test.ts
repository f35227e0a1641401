/** A rate as several workers share it. */
import { connect } from "callboard"
import { afterEach, expect, test } from "vitest"
import { generateId } from "../../../../runtime/id.ts"
import { makeLog } from "../../../../runtime/log.ts"
import type { Store } from "../../../../runtime/transport.ts"
import { RateLimit } from "../../../../runtime/worker/limits/rate-limit.ts"

const KEY = "limit/a.run/"
const open: Array<AsyncDisposable> = []
afterEach(async () => {
  for (const resource of open.splice(0)) await resource[Symbol.asyncDispose]()
})

const newStore = async (): Promise<Store> => {
  const client = await connect(`memory://${generateId()}`)
  open.push(client)
  return client.board.store
}

const limitOver = (store: Store): RateLimit =>
  new RateLimit({ key: KEY, rate: { intervalMs: 1 }, store, log: makeLog({ level: "none" }) })

const ask = async (limit: RateLimit): Promise<number> => {
  const { granted } = await limit.ask({ place: generateId(), returning: false })
  return granted ? 1 : 0
}

test("a rate is taken in portions, and never more of it than it allows", async () => {
  const store = await newStore()
  let reads = 0
  const counted: Store = {
    get: (key) => {
      reads++
      return store.get(key)
    },
    write: (operations) => store.write(operations),
    list: (options) => store.list(options),
    count: (prefix) => store.count(prefix),
    watch: (prefix, listener, signal) => store.watch(prefix, listener, signal),
    now: () => store.now(),
  }
  const alone = limitOver(counted)
  for (let count = 0; count < 50; count++) expect(await ask(alone)).toBe(1)
  expect(reads).toBeLessThan(5)
  const workers = [limitOver(counted), limitOver(counted)]
  const began = performance.now()
  let granted = 0
  while (granted < 600) for (const limit of workers) granted += await ask(limit)
  const took = performance.now() - began
  // A burst of 100, of which some is taken already.
  expect(granted).toBeLessThanOrEqual(took + 100 + 1)
  expect(took).toBeLessThan(3_000)
})
