/**
 * The transport inside one process: nothing survives its end. The reference for plugin authors and the default of
 * tests. `memory:` and `memory://name` with the same name and namespace are one board.
 */
import {
  type Capabilities,
  type ConnectOptions,
  type Delivery,
  type Plugin,
  type PullRequest,
  type Transport,
  TransportError,
} from "../../runtime/transport/mod.ts"
import { Board, type Waiter } from "./board.ts"
import { MemoryStore } from "./store.ts"

export const capabilities: Capabilities = {
  durability: "none",
  dedupeWindow: Infinity,
  delay: true,
  priorityBands: 10,
  front: true,
  keyed: false,
  maxTask: 4 * 1024 * 1024,
  maxRecord: 16 * 1024 * 1024,
  leaseResolution: 20,
  dueResolution: 20,
  reach: "process",
  atomicSettle: true,
  browse: true,
}

/** What all transports of one name and namespace share, for as long as the process lives. */
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

const connect = (url: URL, { namespace, lease }: ConnectOptions): Transport => {
  if (!NAMESPACE.test(namespace)) throw new TransportError("invalid", "a namespace is 1 to 64 of A-Z a-z 0-9 _ -")
  if (!(lease >= 1_000)) throw new TransportError("invalid", `a lease is at least 1,000 milliseconds, not ${lease}`)
  const { board, store, listeners } = placeOf(url, namespace)
  const closing = new AbortController()

  /** Each call in one turn of the event loop, unless this transport was closed. */
  const open = <T>(run: () => T | Promise<T>): Promise<T> =>
    new Promise((resolve) => {
      if (closing.signal.aborted) throw new TransportError("closed", "this transport was closed")
      resolve(run())
    })

  /** Keeps a subscription until its signal or the transport ends it. */
  const until = (signal: AbortSignal, subscribe: () => () => void): void => {
    if (signal.aborted) return
    const stop = subscribe()
    AbortSignal.any([signal, closing.signal]).addEventListener("abort", stop, { once: true })
  }

  const pull = (request: PullRequest, signal: AbortSignal): Promise<ReadonlyArray<Delivery>> => {
    if (signal.aborted || request.max < 1) return Promise.resolve([])
    const deliveries = board.take(request, lease)
    if (deliveries.length > 0 || request.wait <= 0) return Promise.resolve(deliveries)
    return new Promise((resolve) => {
      const end = (found: ReadonlyArray<Delivery>): void => {
        clearTimeout(timer)
        signal.removeEventListener("abort", giveUp)
        closing.signal.removeEventListener("abort", giveUp)
        board.leave(waiter)
        resolve(found)
      }
      const giveUp = (): void => end([])
      const waiter: Waiter = { request, lease, resolve: end }
      const timer = setTimeout(giveUp, request.wait)
      signal.addEventListener("abort", giveUp)
      closing.signal.addEventListener("abort", giveUp)
      board.wait(waiter)
    })
  }

  return {
    name: "memory",
    capabilities,
    queue: {
      publish: (postings) => open(() => board.publish(postings)),
      pull: (request, signal) => open(() => pull(request, signal)),
      claim: (claims) => open(() => claims.map((claim) => board.claim(claim))),
      report: (reports) => open(() => reports.forEach((report) => void board.report(report))),
      settle: (settlements) => open(() => settlements.map((settlement) => board.settle(settlement))),
      extend: (tokens) => open(() => tokens.map((token) => board.extend(token))),
      stats: () => open(() => board.stats()),
      overdue: (now, max) => open(() => board.overdue(now, max)),
      waiting: (queue, max) => open(() => board.waiting(queue, max)),
    },
    records: {
      find: (id) => open(() => board.jobs.find(id, Date.now())),
      change: (changes) => open(() => changes.map((change) => board.change(change))),
      query: (query) => open(() => board.jobs.query(query, Date.now())),
      watch: (filter, listener, signal) => open(() => until(signal, () => board.jobs.watch(filter.id, listener))),
    },
    store: {
      get: (key) => open(() => store.get(key)),
      write: (operations) => open(() => store.write(operations)),
      list: (options) => open(() => store.list(options)),
      count: (prefix) => open(() => store.count(prefix)),
      watch: (prefix, listener, signal) => open(() => until(signal, () => store.watch(prefix, listener))),
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
        open(() => {
          checkTopic(topic)
          until(signal, () => {
            const entry = { topic, listener }
            listeners.add(entry)
            return () => void listeners.delete(entry)
          })
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
