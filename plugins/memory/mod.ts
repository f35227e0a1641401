/**
 * The transport inside one process: nothing survives its end. The reference for plugin authors and the default of
 * tests. `memory:` and `memory://name` with the same name and namespace are one board.
 */
import type { Capabilities, Driver, Plugin } from "../../runtime/transport/driver.ts"
import { type ConnectOptions, TransportError } from "../../runtime/transport/mod.ts"
import { Board } from "./board.ts"
import { MemoryStore } from "./store.ts"

export const capabilities: Capabilities = {
  durability: "none",
  reach: "process",
  atomic: true,
  waits: false,
  dedupeWindow: Number.POSITIVE_INFINITY,
  delay: Number.POSITIVE_INFINITY,
  bands: 10,
  front: true,
  maxTask: 4 * 1024 * 1024,
  maxRecord: 16 * 1024 * 1024,
  leaseResolution: 20,
  dueResolution: 20,
}

/** What all connections of one name and namespace share, for as long as the process lives. */
class Place {
  readonly board = new Board(capabilities)
  readonly store = new MemoryStore(capabilities.maxRecord)
  readonly listeners = new Set<{ readonly topic: string; readonly listener: (payload: Uint8Array) => void }>()
}

const places = new Map<string, Place>()

const NAMESPACE = /^[A-Za-z0-9_-]{1,64}$/
const TOPIC = /^[a-z0-9.-]{1,128}$/

/** The board behind a URL and a namespace: for tests that look behind the contract. */
export const placeOf = (url: URL, namespace: string): Place => {
  const key = `${url.host}${url.pathname} ${namespace}`
  let place = places.get(key)
  if (place === undefined) {
    place = new Place()
    places.set(key, place)
  }
  return place
}

export const plugin: Plugin = {
  schemes: ["memory"],
  connect: async (url, options) => connect(url, options),
}

export default plugin

const connect = (url: URL, { namespace, lease }: ConnectOptions): Driver => {
  if (!NAMESPACE.test(namespace)) throw new TransportError("invalid", "a namespace is 1 to 64 of A-Z a-z 0-9 _ -")
  if (!(lease >= 1_000)) throw new TransportError("invalid", `a lease is at least 1,000 milliseconds, not ${lease}`)
  const { board, store, listeners } = placeOf(url, namespace)
  const closing = new AbortController()

  /** Each call in one turn of the event loop, unless this connection was closed. */
  const open = <T>(run: () => T): Promise<T> =>
    new Promise((resolve) => {
      if (closing.signal.aborted) throw new TransportError("closed", "this transport was closed")
      resolve(run())
    })

  /** Keeps a subscription until its signal or the end of the connection. */
  const until = (signal: AbortSignal, subscribe: () => () => void): Promise<void> =>
    open(() => {
      if (signal.aborted) return
      AbortSignal.any([signal, closing.signal]).addEventListener("abort", subscribe(), { once: true })
    })

  return {
    name: "memory",
    capabilities,
    publish: (postings) => open(() => board.publish(postings)),
    take: (request, signal) => open(() => (signal.aborted ? { deliveries: [] } : board.take(request, lease))),
    extend: (tokens) => open(() => tokens.map((token) => board.extend(token, lease))),
    read: (ids, what) => open(() => ids.map((id) => board.read(id, what))),
    commit: (commits) => open(() => commits.map((commit) => board.commit(commit))),
    query: (query) => open(() => board.query(query)),
    queues: () => open(() => board.queues()),
    waiting: (what, max) => open(() => board.waiting(what, max)),
    listen: (interest, listener, signal) => until(signal, () => board.listen(interest, listener)),
    store: {
      get: (keys) => open(() => keys.map((key) => store.get(key))),
      write: (operations) => open(() => store.write(operations)),
      list: (options) => open(() => store.list(options)),
      watch: (prefix, listener, signal) => until(signal, () => store.watch(prefix, listener)),
      now: () => open(() => Date.now()),
    },
    broadcast: {
      send: (topic, payload) =>
        open(() => {
          checkTopic(topic)
          for (const each of listeners) {
            if (each.topic !== topic) continue
            const copy = payload.slice()
            queueMicrotask(() => each.listener(copy))
          }
        }),
      listen: (topic, listener, signal) =>
        until(signal, () => {
          checkTopic(topic)
          const entry = { topic, listener }
          listeners.add(entry)
          return () => void listeners.delete(entry)
        }),
    },
    // Memory is always within reach.
    onStatus: () => () => undefined,
    close: async () => closing.abort(),
  }
}

const checkTopic = (topic: string): void => {
  if (!TOPIC.test(topic)) throw new TransportError("invalid", `not a topic: ${JSON.stringify(topic.slice(0, 128))}`)
}
