/** Mutants of the store. */
import { Buffer } from "node:buffer"
import type { Entry, Store, StoreOperation } from "../../../../runtime/transport/store.ts"
import { sleep } from "../../stage.ts"
import { type DriverMutant, namespacesMixed, operations, storeBroken } from "./mutant.ts"

type Breaker = DriverMutant["breaker"]

const unchecked = ({ expect, ...operation }: StoreOperation): StoreOperation => operation

/** Answers that a value was written although it cannot be. */
const silent = storeBroken(() => (store) => ({
  write: async (each) => {
    try {
      return await store.write(each)
    } catch {
      return each.map(() => "1")
    }
  },
}))

const getting = (change: (entry: Entry) => Entry): Breaker =>
  storeBroken(() => (store) => ({
    get: async (keys) => (await store.get(keys)).map((entry) => entry && change(entry)),
  }))

const listing = (list: (store: Store, range: Parameters<Store["list"]>[0]) => ReturnType<Store["list"]>): Breaker =>
  storeBroken(() => (store) => ({ list: (range) => list(store, range) }))

/** Changes the operations of a write as a whole. */
const writes = (change: (each: ReadonlyArray<StoreOperation>) => ReadonlyArray<StoreOperation>): Breaker =>
  storeBroken(() => (store) => ({ write: (each) => store.write(change(each)) }))

const TWICE = "store: of two operations on one key the later one counts, and both expect what was there before"
const MANY = "store: a write does as many operations as it is given, and compares as many expectations"
const CHECKS =
  "store: an operation without a value only checks: it writes nothing, and stops the others if it does not hold"

export const storeMutants: ReadonlyArray<DriverMutant> = [
  {
    breaks: "store: a value comes back byte for byte, until it is removed",
    breaker: operations((operation) =>
      operation.value ? { ...operation, value: Buffer.from(Buffer.from(operation.value).toString("utf8")) } : operation,
    ),
  },
  {
    breaks: "store: several keys are answered in the order in which they were asked for, also absent ones",
    breaker: storeBroken(() => (store) => ({ get: (keys) => store.get([...keys].sort()) })),
  },
  {
    breaks: "store: each write has a revision of its own, told in the answer",
    breaker: getting((entry) => ({ ...entry, revision: Buffer.from(entry.value).toString("hex") })),
  },
  {
    breaks: "store: what was written later has the higher revision, whatever the key and connection",
    // Counts revisions for each key by itself.
    breaker: storeBroken(() => {
      const counts = new Map<string, number>()
      return (store) => ({
        write: async (each) => {
          const answer = await store.write(each)
          if (answer === "conflict") return answer
          return each.map(({ key }) => {
            const count = (counts.get(key) ?? 0) + 1
            counts.set(key, count)
            return String(count)
          })
        },
      })
    }),
  },
  {
    breaks: "store: what was written later has the higher revision, whatever the key and connection",
    // Cuts off the first digit: after revision 99 comes 00, which is lower by length and as text.
    breaker: storeBroken(() => {
      let count = 90
      return (store) => ({
        write: async (each) => {
          const answer = await store.write(each)
          return answer === "conflict" ? answer : each.map(() => `${++count}`.replace(/^1/, ""))
        },
      })
    }),
  },
  {
    breaks: "store: an expectation that does not hold is a conflict and writes nothing",
    breaker: operations(unchecked),
  },
  {
    breaks: CHECKS,
    // Treats an operation without a value as a removal.
    breaker: operations((operation) => ({ value: null, ...operation })),
  },
  {
    breaks: CHECKS,
    breaker: storeBroken(() => (store) => ({
      write: async (each) => {
        const writing = each.filter(({ value }) => value !== undefined)
        const answer = await store.write(writing)
        return answer === "conflict" ? answer : each.map((operation) => answer[writing.indexOf(operation)] ?? "")
      },
    })),
  },
  {
    breaks: "store: a write is done as a whole or not at all",
    breaker: storeBroken(() => (store) => ({
      write: async (each) => {
        const revisions: Array<string> = []
        for (const operation of each) {
          const answer = await store.write([operation])
          if (answer === "conflict") return answer
          revisions.push(...answer)
        }
        return revisions
      },
    })),
  },
  {
    breaks: MANY,
    breaker: storeBroken(() => (store) => ({
      write: async (each) => {
        const answer = await store.write(each.slice(0, 40))
        return answer === "conflict" ? answer : each.map((_, at) => answer[at] ?? "1")
      },
    })),
  },
  {
    breaks: MANY,
    breaker: writes((each) => each.map((operation, at) => (at < 40 ? operation : unchecked(operation)))),
  },
  { breaks: TWICE, breaker: writes((each) => [...each].reverse()) },
  {
    breaks: TWICE,
    // Compares each expectation with what the operations before it have written.
    breaker: storeBroken(() => (store) => ({
      write: async (each) => {
        const revisions: Array<string> = []
        for (const operation of each) {
          const answer = await store.write([operation])
          if (answer === "conflict") return answer
          revisions.push(...answer)
        }
        return revisions
      },
    })),
  },
  {
    breaks: "store: of writes that expect the same, one is written",
    breaker: storeBroken(() => (store) => ({
      write: async (each) => {
        const found = await store.get(each.map(({ key }) => key))
        const holds = each.every(({ expect }, at) => expect === undefined || expect === (found[at]?.revision ?? ""))
        await sleep(2)
        return holds ? store.write(each.map(unchecked)) : "conflict"
      },
    })),
  },
  {
    breaks: "store: a value is gone after its time to live, and not before; a write without one keeps it",
    breaker: storeBroken(() => (store) => ({
      write: async (each) => {
        for (const { key, ttl } of each) {
          if (ttl !== undefined) void sleep(ttl / 2).then(() => store.write([{ key, value: null }]).catch(() => []))
        }
        return store.write(each)
      },
    })),
  },
  {
    breaks: "store: a value is gone after its time to live, and not before; a write without one keeps it",
    breaker: storeBroken(() => {
      const ttls = new Map<string, number>()
      return (store) => ({
        write: (each) =>
          store.write(
            each.map((operation) => {
              const ttl = operation.ttl ?? ttls.get(operation.key)
              if (ttl !== undefined) ttls.set(operation.key, ttl)
              return { ...operation, ...(ttl === undefined ? {} : { ttl }) }
            }),
          ),
      })
    }),
  },
  {
    breaks: "store: a value is gone after its time to live, and not before; a write without one keeps it",
    // Removes what has expired only once in a while.
    breaker: operations((operation) =>
      operation.ttl === undefined ? operation : { ...operation, ttl: operation.ttl + 4_000 },
    ),
  },
  {
    breaks: "store: keys are listed in the order of their bytes",
    breaker: listing(async (store, range) => {
      const entries = [...(await store.list(range))].sort((a, b) => (a.key < b.key ? -1 : 1))
      return range.reverse ? entries.reverse() : entries
    }),
  },
  {
    breaks: "store: keys and prefixes are taken literally, whatever they hold",
    breaker: listing((store, range) => store.list({ ...range, prefix: range.prefix.replace(/[%*].*$/, "") })),
  },
  {
    breaks: "store: a list begins after a key and ends at its limit, in either direction",
    breaker: listing((store, { after, ...range }) =>
      store.list(after === undefined || range.reverse ? range : { ...range, after }),
    ),
  },
  {
    breaks: "store: changes under a prefix reach those who watch it, from any connection, until they stop",
    breaker: storeBroken(
      () =>
        ({ watch }) =>
          watch ? { watch: (prefix, listener, signal) => watch(prefix.slice(0, -1), listener, signal) } : {},
    ),
  },
  {
    breaks: "store: changes under a prefix reach those who watch it, from any connection, until they stop",
    // Says that it watches before the broker knows.
    breaker: storeBroken(() => ({ watch }) => {
      if (watch === undefined) return {}
      return {
        watch: async (prefix, listener, signal) => {
          void sleep(20).then(() => watch(prefix, listener, signal))
        },
      }
    }),
  },
  { breaks: "store: keys have 1 to 512 bytes", breaker: silent },
  {
    breaks: "store: a value that is too large is refused with all that is written beside it, and others are not",
    breaker: silent,
  },
  {
    breaks: "store: what the caller changes afterwards does not reach the store",
    breaker: storeBroken(() => {
      const kept = new Map<string, Uint8Array>()
      return (store) => ({
        write: (each) => {
          for (const { key, value } of each) if (value) kept.set(key, value)
          return store.write(each)
        },
        get: async (keys) =>
          (await store.get(keys)).map((entry) => entry && { ...entry, value: kept.get(entry.key) ?? entry.value }),
      })
    }),
  },
  {
    breaks: "store: a read sees every write that was answered before it began, by any connection",
    breaker: () => (connect) => async (options) => {
      const driver = await connect(options)
      const kept = new Map<string, ReturnType<Store["get"]>>()
      // Each connection caches what it has read.
      const get: Store["get"] = (keys) => {
        const found = kept.get(keys.join()) ?? driver.store.get(keys)
        kept.set(keys.join(), found)
        return found
      }
      return { ...driver, store: { ...driver.store, get } }
    },
  },
  {
    breaks: "store: the clock goes forward, near our own",
    breaker: storeBroken(() => {
      let asked = 0
      return (store) => ({ now: async () => (await store.now()) - 100 * asked++ })
    }),
  },
  { breaks: "store: namespaces are apart", breaker: namespacesMixed },
]
