/** A mutant: a correct driver with one promise broken, and the case that has to fail. */
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
  /** Called once per run of the case; its state is shared by the connections of that run. */
  breaker(): (connect: Connect) => Connect
  /** Changes the harness, for promises that are not broken in a connected driver. */
  readonly harness?: (harness: DriverHarness) => Partial<DriverHarness>
}

type Breaker = DriverMutant["breaker"]

/** A breaker that leaves connected drivers as they are. */
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

/** A breaker without state that is shared by connections. */
export const breaking = (patch: (driver: Driver) => Partial<Driver>): Breaker => broken(() => patch)

export const storeBroken = (make: () => (store: Store) => Partial<Store>): Breaker =>
  broken(() => {
    const patch = make()
    return ({ store }) => ({ store: { ...store, ...patch(store) } })
  })

export const broadcastBroken = (patch: (broadcast: Broadcast) => Partial<Broadcast>): Breaker =>
  breaking(({ broadcast }) => (broadcast === undefined ? {} : { broadcast: { ...broadcast, ...patch(broadcast) } }))

/** Changes each posting before it is stored, published or in a commit. */
export const postings = (change: (posting: Posting) => Posting): Breaker =>
  breaking(({ publish, commit }) => ({
    publish: (each) => publish(each.map(change)),
    commit: (each) => commit(each.map(({ post = [], ...rest }) => ({ ...rest, post: post.map(change) }))),
  }))

/** Changes published batches, and reports all of their tasks as stored. */
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

/** Changes each commit before it is sent. */
export const commits = (change: (commit: Commit) => Commit): Breaker =>
  breaking(({ commit }) => ({ commit: (each) => commit(each.map(change)) }))

/** Changes each answer to a commit, and may do more before that. */
export const answers = (
  change: (answer: Committed, commit: Commit, driver: Driver) => Committed | Promise<Committed>,
): Breaker =>
  breaking((driver) => ({
    commit: async (each) => {
      const found = await driver.commit(each)
      return Promise.all(each.map((commit, at) => change(found[at] ?? { status: "conflict" }, commit, driver)))
    },
  }))

/** Changes what `read` returns about a job. */
export const known = (change: (known: Known | undefined, id: string) => Known | undefined): Breaker =>
  breaking(({ read }) => ({
    read: async (ids, what) => (await read(ids, what)).map((each, at) => change(each, ids[at] ?? "")),
  }))

export const operations = (change: (operation: StoreOperation) => StoreOperation): Breaker =>
  storeBroken(() => (store) => ({ write: (each) => store.write(each.map(change)) }))

/** Cuts namespaces, so that two that differ only at their ends become one. */
export const namespacesMixed: Breaker = () => (connect) => (options) =>
  connect({ ...options, namespace: options.namespace.slice(0, "kit-".length + 36) })
