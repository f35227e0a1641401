/** Stores for tests of limits: one in memory, and one with single operations replaced. */
import { connect } from "callboard"
import { generateId } from "../../../../../runtime/id.ts"
import { watchStore } from "../../../../../runtime/transport/job-store/watch-store.ts"
import type { Store } from "../../../../../runtime/transport/store.ts"
import { keep } from "../../../../support/servers/keep.ts"

/** An empty store, which is closed after the test. */
export const newStore = async (): Promise<Store> => {
  const client = keep(await connect(`memory://${generateId()}`))
  return client.connection.store
}

/** The same store, with some operations replaced. */
export const storeWith = (store: Store, operations: Partial<Store>): Store => ({
  get: (key) => store.get(key),
  write: (batch) => store.write(batch),
  list: (options) => store.list(options),
  watch: (prefix, listener, signal) => watchStore(store, prefix, listener, signal),
  now: () => store.now(),
  ...operations,
})
