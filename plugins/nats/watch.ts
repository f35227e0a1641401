/** News of tasks and records, for those who listen. Records are told of once they are stored, tasks as they are published. */

import type { Msg, Subscription } from "nats"
import type { Interest, News } from "../../runtime/transport/driver.ts"
import { TransportError } from "../../runtime/transport/mod.ts"
import type { Broadcast } from "../../runtime/transport/optional.ts"
import type { Link } from "./connection/link.ts"
import type { Names } from "./streams/names.ts"

export interface ListeningParts {
  readonly link: Link
  readonly names: Names
  readonly subscriptions: Subscriptions
}

/** Resolves once changes are heard. Fails with `unavailable` or `closed`. */
export const listen = async (
  { link, names, subscriptions }: ListeningParts,
  interest: Interest,
  listener: (news: News) => void,
  signal: AbortSignal,
): Promise<void> => {
  if (signal.aborted) return
  if (interest.kind === "queues") {
    const subscribe = (queue: string) =>
      subscriptions.listen(names.tasksIn("j", queue), () => listener({ kind: "queue", queue }), signal)
    await Promise.all(interest.queues.map(subscribe))
  } else if (interest.kind === "job") {
    const { id } = interest
    await Promise.all([
      subscriptions.listen(
        names.event("t", id),
        ({ data }) => listener({ kind: "job", id, record: data.slice() }),
        signal,
      ),
      // A job that nothing is stored about is changed by its task.
      ...(["j", "s"] as const).map((kind) =>
        subscriptions.listen(names.tasksOf(id, kind), () => listener({ kind: "job", id }), signal),
      ),
    ])
  } else {
    const onRecord = ({ subject, data }: { readonly subject: string; readonly data: Uint8Array }) =>
      listener({ kind: "job", id: names.idIn(subject), record: data.slice() })
    await subscriptions.listen(names.event("t"), onRecord, signal)
  }
  if (signal.aborted) return
  const stop = link.onStatus((status) => {
    if (status === "connected") listener({ kind: "missed" })
  })
  signal.addEventListener("abort", stop, { once: true })
}

// ── broadcast ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** News on core NATS: to whoever listens now, kept nowhere. */
const TOPIC = /^[a-z0-9.-]{1,128}$/

const checked = (topic: string): string => {
  if (TOPIC.test(topic)) return topic
  throw new TransportError("invalid", `not a topic: ${JSON.stringify(topic.slice(0, 128))}`)
}

export const makeBroadcast = (link: Link, names: Names, subscriptions: Subscriptions): Broadcast => ({
  send: async (topic, payload) => {
    const subject = names.topic(checked(topic))
    await link.ready()
    link.send(subject, payload)
  },
  listen: (topic, listener, signal) =>
    subscriptions.listen(names.topic(checked(topic)), (message) => listener(message.data.slice()), signal),
})

// ── subscriptions ────────────────────────────────────────────────────────────────────────────────────────────────────

/**
 * What the server sends by itself, one subscription per subject and process, however many listen: republished records and
 * values, tasks, broadcasts. A subscription lasts for as long as it has a listener.
 */
type Listener = (message: Msg) => void

/** Subscriptions by subject, shared by their listeners. */
export class Subscriptions {
  readonly #link: Link
  readonly #shared = new Map<string, { readonly subscription: Subscription; readonly listeners: Set<Listener> }>()

  constructor(link: Link) {
    this.#link = link
  }

  /** Resolves once the server knows. Ends with the signal, or with the link. */
  async listen(subject: string, listener: Listener, signal: AbortSignal): Promise<void> {
    await this.#link.ready()
    if (signal.aborted) return
    const { listeners } = this.#open(subject)
    listeners.add(listener)
    const stop = (): void => {
      signal.removeEventListener("abort", stop)
      this.#link.closing.removeEventListener("abort", stop)
      this.#remove(subject, listener)
    }
    signal.addEventListener("abort", stop)
    this.#link.closing.addEventListener("abort", stop)
    try {
      await this.#link.flush()
    } catch (error) {
      stop()
      throw error
    }
  }

  #open(subject: string) {
    const found = this.#shared.get(subject)
    if (found !== undefined) return found
    const listeners = new Set<Listener>()
    const subscription = this.#link.subscribe(subject, (message) => {
      // A listener that throws must not end the client's reading.
      for (const listener of [...listeners]) queueMicrotask(() => listener(message))
    })
    const opened = { subscription, listeners }
    this.#shared.set(subject, opened)
    return opened
  }

  #remove(subject: string, listener: Listener): void {
    const shared = this.#shared.get(subject)
    if (shared === undefined || !shared.listeners.delete(listener) || shared.listeners.size > 0) return
    this.#shared.delete(subject)
    shared.subscription.unsubscribe()
  }
}
