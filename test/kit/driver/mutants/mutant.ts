/** A mutant: a good driver with one promise broken, and the case that must notice. */
import type {
  Commit,
  Committed,
  Delivery,
  Driver,
  Posting,
  Receipt,
  TakeRequest,
} from "../../../../runtime/transport/driver.ts"
import type { Known } from "../../../../runtime/transport/known.ts"
import type { ConnectOptions } from "../../../../runtime/transport/mod.ts"
import type { Broadcast } from "../../../../runtime/transport/optional.ts"
import type { Store, StoreOperation } from "../../../../runtime/transport/store.ts"

import type { DriverHarness } from "../harness.ts"

export type Connect = (options: ConnectOptions) => Promise<Driver>

export interface DriverMutant {
  /** Title of the case that must fail. */
  readonly breaks: string
  /** Which driver the case runs on: see `bases.ts`. Defaults to `whole`. */
  readonly on?: "whole" | "least" | "stepwise" | "poor" | "line"
  /** Called once per run of the case: what it remembers is shared by the connections of that run. */
  breaker(): (connect: Connect) => Connect
  /** What is broken elsewhere than in a driver that is connected. */
  readonly harness?: (harness: DriverHarness) => Partial<DriverHarness>
}

type Breaker = DriverMutant["breaker"]

/** A breaker for what is broken elsewhere. */
export const whole: Breaker = () => (connect) => connect

/** Breaks each driver; `make` is called once per run. */
export const broken =
  (make: () => (driver: Driver) => Partial<Driver>): Breaker =>
  () => {
    const patch = make()
    return (connect) => async (options) => {
      const driver = await connect(options)
      return { ...driver, ...patch(driver) }
    }
  }

/** What remembers nothing from one connection to the next. */
export const breaking = (patch: (driver: Driver) => Partial<Driver>): Breaker => broken(() => patch)

export const storeBroken = (make: () => (store: Store) => Partial<Store>): Breaker =>
  broken(() => {
    const patch = make()
    return ({ store }) => ({ store: { ...store, ...patch(store) } })
  })

export const broadcastBroken = (patch: (broadcast: Broadcast) => Partial<Broadcast>): Breaker =>
  breaking(({ broadcast }) => (broadcast === undefined ? {} : { broadcast: { ...broadcast, ...patch(broadcast) } }))

/** Every posting is changed on its way in, alone or in a commit. */
export const postings = (change: (posting: Posting) => Posting): Breaker =>
  breaking(({ publish, commit }) => ({
    publish: (each) => publish(each.map(change)),
    commit: (each) => commit(each.map(({ post = [], ...rest }) => ({ ...rest, post: post.map(change) }))),
  }))

/** Batches that are published are changed; all is said to be stored. */
export const batches = (change: (postings: ReadonlyArray<Posting>) => ReadonlyArray<Posting>): Breaker =>
  breaking(({ publish }) => ({
    publish: async (each) => {
      await publish(change(each))
      return each.map((): Receipt => ({ status: "stored" }))
    },
  }))

export const requests = (change: (request: TakeRequest) => TakeRequest): Breaker =>
  breaking(({ take }) => ({ take: (request, signal) => take(change(request), signal) }))

export const deliveries = (change: (delivery: Delivery) => Delivery): Breaker =>
  breaking(({ take }) => ({
    take: async (request, signal) => {
      const { deliveries, ...rest } = await take(request, signal)
      return { ...rest, deliveries: deliveries.map(change) }
    },
  }))

/** Every commit is changed on its way in. */
export const commits = (change: (commit: Commit) => Commit): Breaker =>
  breaking(({ commit }) => ({ commit: (each) => commit(each.map(change)) }))

/** Every answer to a commit is changed, perhaps after something else was done. */
export const answers = (
  change: (answer: Committed, commit: Commit, driver: Driver) => Committed | Promise<Committed>,
): Breaker =>
  breaking((driver) => ({
    commit: async (each) => {
      const found = await driver.commit(each)
      return Promise.all(each.map((commit, at) => change(found[at] ?? { status: "conflict" }, commit, driver)))
    },
  }))

/** What is known of a job is changed. */
export const known = (change: (known: Known | undefined, id: string) => Known | undefined): Breaker =>
  breaking(({ read }) => ({
    read: async (ids, what) => (await read(ids, what)).map((each, at) => change(each, ids[at] ?? "")),
  }))

export const operations = (change: (operation: StoreOperation) => StoreOperation): Breaker =>
  storeBroken(() => (store) => ({ write: (each) => store.write(each.map(change)) }))

/** Namespaces that differ only in their ends become one. */
export const namespacesMixed: Breaker = () => (connect) => (options) =>
  connect({ ...options, namespace: options.namespace.slice(0, "kit-".length + 36) })
