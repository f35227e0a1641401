/** The store that the runtime uses, over that of a driver. */

import { TransportError } from "../mod.ts"
import type { DriverStore, StoreOperation } from "../store.ts"
import { poll } from "./poll.ts"
import type { Store } from "./transport.ts"

/** Entries that are counted at a time. */
const PAGE = 1_000

export const storeOver = (store: DriverStore, closing: AbortSignal): Store => ({
  get: async (key) => (await store.get([key]))[0],
  write: async (operations) => {
    const written = await store.write(
      operations.map(({ key, value, expect, ttl }): StoreOperation => {
        const revision = expect === "absent" ? "" : expect?.revision
        return {
          key,
          value: value ?? null,
          ...(revision === undefined ? {} : { expect: revision }),
          ...(ttl === undefined ? {} : { ttl }),
        }
      }),
    )
    return written === "conflict" ? "conflict" : "written"
  },
  list: (range) => store.list(range),
  count: async (prefix) => {
    let count = 0
    let after: string | undefined
    for (;;) {
      const page = await store.list({ prefix, limit: PAGE, ...(after === undefined ? {} : { after }) })
      count += page.length
      after = page.at(-1)?.key
      if (page.length < PAGE) return count
    }
  },
  watch: async (prefix, listener, signal) => {
    if (closing.aborted) throw new TransportError("closed", "this transport was closed")
    await watchStore(store, prefix, listener, AbortSignal.any([signal, closing]))
  },
  now: () => store.now(),
})

/** Changes below a prefix, told by the driver or found by looking. */
export const watchStore = (
  store: DriverStore,
  prefix: string,
  listener: Parameters<Store["watch"]>[1],
  signal: AbortSignal,
): Promise<void> =>
  store.watch === undefined ? poll(store, prefix, listener, signal) : store.watch(prefix, listener, signal)
