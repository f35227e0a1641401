/** Mutants of the store and of broadcast. */
import { Buffer } from "node:buffer"
import type { Entry, StoreOperation } from "../../../runtime/transport/lift/transport.ts"
import { sleep } from "../context.ts"
import { type Mutant, namespacesMixed, storeBroken, transportBroken } from "./mutant.ts"

const never = new AbortController().signal

/** Operations are changed before they are written. */
const operations = (change: (operation: StoreOperation) => StoreOperation): Mutant["breaker"] =>
  storeBroken(() => (store) => ({ write: (each) => store.write(each.map(change)) }))

const unchecked = ({ expect, ...operation }: StoreOperation): StoreOperation => operation

/** What cannot be written is said to be written. */
const silent = storeBroken(() => (store) => ({
  write: async (each) => {
    try {
      return await store.write(each)
    } catch {
      return "written"
    }
  },
}))

/** News under changed topics. */
const topics = (change: (topic: string) => string): Mutant["breaker"] =>
  transportBroken(() => (transport) => {
    const { broadcast } = transport
    if (broadcast === undefined) return transport
    return {
      ...transport,
      broadcast: {
        send: (topic, payload) => broadcast.send(change(topic), payload),
        listen: (topic, listener, signal) => broadcast.listen(change(topic), listener, signal),
      },
    }
  })

export const storeMutants: ReadonlyArray<Mutant> = [
  {
    breaks: "store: a value comes back byte for byte, until it is removed",
    breaker: operations((operation) =>
      operation.value ? { ...operation, value: Buffer.from(Buffer.from(operation.value).toString("utf8")) } : operation,
    ),
  },
  {
    breaks: "store: each write has a revision of its own",
    breaker: storeBroken(() => (store) => ({
      get: async (key) => {
        const entry = await store.get(key)
        return entry && { ...entry, revision: Buffer.from(entry.value).toString("hex") }
      },
    })),
  },
  {
    breaks: "store: an expectation that does not hold is a conflict and writes nothing",
    breaker: operations(unchecked),
  },
  {
    breaks: "store: a write is done as a whole or not at all",
    breaker: storeBroken(() => (store) => ({
      write: async (each) => {
        for (const operation of each) if ((await store.write([operation])) === "conflict") return "conflict"
        return "written"
      },
    })),
  },
  {
    breaks: "store: of writes that expect the same, one is written",
    breaker: storeBroken(() => (store) => ({
      write: async (each) => {
        const found = await Promise.all(each.map(({ key }) => store.get(key)))
        const holds = each.every(({ expect }, at) =>
          typeof expect === "object" ? found[at]?.revision === expect.revision : true,
        )
        await sleep(2)
        return holds ? store.write(each.map(unchecked)) : "conflict"
      },
    })),
  },
  {
    breaks: "store: a value is gone after its time to live, and not before",
    breaker: storeBroken(() => (store) => ({
      write: async (each) => {
        for (const { key, ttl } of each) {
          if (ttl !== undefined) setTimeout(() => void store.write([{ key }]).catch(() => "conflict"), ttl / 2)
        }
        return store.write(each)
      },
    })),
  },
  {
    breaks: "store: keys are listed in the order of their bytes",
    breaker: storeBroken(() => (store) => ({
      list: async (options) => {
        const entries = [...(await store.list(options))].sort((a, b) => (a.key < b.key ? -1 : 1))
        return options.reverse ? entries.reverse() : entries
      },
    })),
  },
  {
    breaks: "store: keys and prefixes are taken literally, whatever they hold",
    breaker: storeBroken(() => (store) => ({
      list: ({ prefix, ...options }) => store.list({ ...options, prefix: prefix.replace(/[%*].*$/, "") }),
    })),
  },
  {
    breaks: "store: a list begins after a key and ends at its limit, in either direction",
    breaker: storeBroken(() => (store) => ({
      list: ({ after, ...options }) =>
        store.list(after === undefined || options.reverse ? options : { ...options, after }),
    })),
  },
  {
    breaks: "store: changes under a prefix reach those who watch it, from any connection, until they stop",
    breaker: storeBroken(() => (store) => ({
      watch: (prefix, listener, signal) => store.watch(prefix.slice(0, -1), listener, signal),
    })),
  },
  { breaks: "store: keys have 1 to 512 bytes", breaker: silent },
  { breaks: "store: a value that is too large is refused, and others are not", breaker: silent },
  {
    breaks: "store: what the caller changes afterwards does not reach the store",
    breaker: storeBroken(() => (store) => {
      const kept = new Map<string, Uint8Array>()
      return {
        write: (each) => {
          for (const { key, value } of each) if (value) kept.set(key, value)
          return store.write(each)
        },
        get: async (key): Promise<Entry | undefined> => {
          const entry = await store.get(key)
          return entry && { ...entry, value: kept.get(key) ?? entry.value }
        },
      }
    }),
  },
  {
    breaks: "store: the clock goes forward, near our own",
    breaker: storeBroken(() => {
      let asked = 0
      return (store) => ({ now: async () => (await store.now()) - 100 * asked++ })
    }),
  },
  { breaks: "store: namespaces are apart", breaker: namespacesMixed },
  {
    breaks: "broadcast: news reach everyone who listens, the sender included, byte for byte",
    breaker: transportBroken(() => (transport) => {
      const { broadcast } = transport
      if (broadcast === undefined) return transport
      return {
        ...transport,
        broadcast: {
          ...broadcast,
          send: (topic, payload) => broadcast.send(topic, Buffer.from(Buffer.from(payload).toString("utf8"))),
        },
      }
    }),
  },
  {
    breaks: "broadcast: topics are apart, and taken literally",
    breaker: topics((topic) => topic.replace(/\.+/g, ".")),
  },
  {
    breaks: "broadcast: a topic outside of its alphabet is refused as invalid",
    breaker: topics((topic) => (/^[a-z0-9.-]{1,128}$/.test(topic) ? topic : "other")),
  },
  {
    breaks: "broadcast: listening ends with its signal",
    breaker: transportBroken(() => (transport) => {
      const { broadcast } = transport
      if (broadcast === undefined) return transport
      return {
        ...transport,
        broadcast: { ...broadcast, listen: (topic, listener) => broadcast.listen(topic, listener, never) },
      }
    }),
  },
  { breaks: "broadcast: namespaces are apart", breaker: namespacesMixed },
]
