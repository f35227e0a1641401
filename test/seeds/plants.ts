/** Planted bugs: drivers that break one rule each, as a worker or a plugin might. Seeds have to find every one of them. */
import { EDGE_PREFIX } from "../../runtime/jobs/dependencies/edges.ts"
import { isTerminal } from "../../runtime/protocol/state.ts"
import type { Commit, Committed, Driver } from "../../runtime/transport/driver.ts"
import { decodeStored } from "../../runtime/transport/job-store/codec.ts"
import type { Store } from "../../runtime/transport/store.ts"
import { LIMIT_PREFIX } from "../../runtime/worker/limits/permits.ts"

type Plant = (driver: Driver) => Partial<Driver>

/** Commits one by one, each changed. */
const eachCommit =
  (change: (commit: Commit, driver: Driver) => Promise<Committed>): Plant =>
  (driver) => ({ commit: (commits) => Promise.all(commits.map((commit) => change(commit, driver))) })

const one = async (driver: Driver, commit: Commit): Promise<Committed> => {
  const [committed] = await driver.commit([commit])
  if (committed === undefined) throw new Error("the driver gave no answer")
  return committed
}

/** Commits over whatever is stored, where the record is one of these. */
const uncompared = (isMeant: (state: ReturnType<typeof decodeStored>["state"]) => boolean): Plant =>
  eachCommit(async (commit, driver) => {
    const committed = await one(driver, commit)
    const { id, record } = commit
    if (committed.status !== "conflict" || record === undefined || !isMeant(decodeStored(record.bytes).state)) {
      return committed
    }
    const [known] = await driver.read([id], "record")
    return one(driver, { ...commit, record: { ...record, expect: known?.revision ?? "" } })
  })

const overStore =
  (change: (store: Store) => Partial<Store>): Plant =>
  (driver) => ({ store: { ...driver.store, ...change(driver.store) } })

const decoder = new TextDecoder()

export const plants = {
  /** The task is acked before the record of its job is stored. */
  "ack before the record": eachCommit(async (commit, driver) => {
    const { id, record, post = [], task } = commit
    if (record === undefined || task?.kind !== "ack") return one(driver, commit)
    await one(driver, { id, task })
    return one(driver, { id, record, post })
  }),

  /** A follow-up is posted before the record that names it is stored. */
  "follow-up before the record": eachCommit(async (commit, driver) => {
    const { post = [], record } = commit
    if (record === undefined || post.length === 0) return one(driver, commit)
    await driver.publish(post)
    return one(driver, commit)
  }),

  /** A claim is stored whatever another worker has stored meanwhile. */
  "claim without comparison": uncompared((state) => state === "started"),

  /** An outcome is stored although another worker has the job, or has decided it. */
  "outcome without comparison": uncompared(isTerminal),

  /** Leases are said to be extended, and are not. */
  "lease never extended": () => ({ extend: async (tokens) => tokens.map(() => true) }),

  /** The permit of a limit is returned by a write that is never sent. */
  "permit not given back": overStore((store) => ({
    write: async (operations) => {
      const [operation] = operations
      const isReturn =
        operation?.key.startsWith(LIMIT_PREFIX) &&
        operation.value instanceof Uint8Array &&
        !decoder.decode(operation.value).includes("held")
      return isReturn ? operations.map(({ expect = "" }) => expect) : store.write(operations)
    },
  })),

  /** A worker that asks for permits overwrites what another one has written meanwhile. */
  "permits without comparison": overStore((store) => ({
    write: (operations) =>
      store.write(
        operations.map(({ expect, ...operation }) =>
          expect === undefined || operation.key.startsWith(LIMIT_PREFIX) ? operation : { ...operation, expect },
        ),
      ),
  })),

  /** The edges between jobs that wait for each other cannot be seen. */
  "edges lost": overStore((store) => {
    const { watch } = store
    return {
      list: async (range) => (range.prefix.startsWith(EDGE_PREFIX) ? [] : store.list(range)),
      ...(watch === undefined
        ? {}
        : {
            watch: async (prefix, listener, signal) =>
              prefix.startsWith(EDGE_PREFIX) ? undefined : watch(prefix, listener, signal),
          }),
    }
  }),
} satisfies Readonly<Record<string, Plant>>

export type PlantName = keyof typeof plants
/** From which seed on each is found soon, so that the tests need not look far. Changes of the runtime move that. */
export const near: Readonly<Record<PlantName, number>> = {
  "ack before the record": 60,
  "follow-up before the record": 235,
  "claim without comparison": 498,
  "outcome without comparison": 150,
  "lease never extended": 565,
  "permit not given back": 1,
  "permits without comparison": 575,
  "edges lost": 18,
}

export const plantNames = Object.keys(plants)
export const isPlant = (name: string): name is PlantName => Object.hasOwn(plants, name)
