/** A rate as several workers share it. */
import { expect, test } from "vitest"
import { generateId } from "../../../../runtime/id.ts"
import { makeLog } from "../../../../runtime/log.ts"
import type { Store } from "../../../../runtime/transport.ts"
import { RateLimit } from "../../../../runtime/worker/limits/rate-limit.ts"
import { newStore, storeWith } from "./stores.ts"

const KEY = "limit/a.run/"

const limitOver = (store: Store): RateLimit =>
  new RateLimit({ key: KEY, rate: { intervalMs: 1 }, store, log: makeLog({ level: "none" }) })

const ask = async (limit: RateLimit): Promise<number> => {
  const { granted } = await limit.ask({ place: generateId(), returning: false })
  return granted ? 1 : 0
}

test("a rate is taken in portions, and never more of it than it allows", async () => {
  const store = await newStore()
  let reads = 0
  const counted = storeWith(store, {
    get: (key) => {
      reads++
      return store.get(key)
    },
  })
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
