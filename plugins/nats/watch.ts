/**
 * What the server sends by itself: republished records, newly published tasks, and broadcasts. A record is reported
 * once it is stored, a task when it is published.
 */

import type { Msg, Subscription } from "nats"
import type { Interest, News } from "../../runtime/transport/driver.ts"
import { TransportError } from "../../runtime/transport/mod.ts"
import type { Broadcast } from "../../runtime/transport/optional.ts"
import { copyOf } from "./connection/answers.ts"
import type { NatsLink } from "./connection/link.ts"
import type { Names } from "./streams/names.ts"

export interface ListeningParts {
  readonly link: NatsLink
  readonly names: Names
  readonly subscriptions: Subscriptions
}

/** Resolves once changes are reported. Fails with `unavailable` or `closed`. */
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
    const { id, ends } = interest
    const onRecord = ({ data }: Msg) => listener({ kind: "job", id, record: copyOf(data) })
    if (ends) await subscriptions.listen(names.event("t", id), onRecord, signal, names.event("t"))
    else
      await Promise.all([
        subscriptions.listen(names.event("t", id), onRecord, signal),
        // A job without a record changes by its tasks.
        ...(["j", "s"] as const).map((kind) =>
          subscriptions.listen(names.tasksOf(id, kind), () => listener({ kind: "job", id }), signal),
        ),
      ])
  } else {
    const onRecord = ({ subject, data }: { readonly subject: string; readonly data: Uint8Array }) =>
      listener({ kind: "job", id: names.idIn(subject), record: copyOf(data) })
    await subscriptions.listen(names.event("t"), onRecord, signal)
  }
  if (signal.aborted) return
  const stop = link.onStatus((status) => {
    if (status === "connected") listener({ kind: "missed" })
  })
  signal.addEventListener("abort", stop, { once: true })
}

// ── broadcast ────────────────────────────────────────────────────────────────────────────────────────────────────────

const TOPIC = /^[a-z0-9.-]{1,128}$/

const checked = (topic: string): string => {
  if (TOPIC.test(topic)) return topic
  throw new TransportError("invalid", `not a topic: ${JSON.stringify(topic.slice(0, 128))}`)
}

/** Broadcasts over core NATS: they reach the processes that listen now, and are not kept. */
export const makeBroadcast = (link: NatsLink, names: Names, subscriptions: Subscriptions): Broadcast => ({
  send: async (topic, payload) => {
    await link.tell(names.topic(checked(topic)), payload)
  },
  listen: async (topic, listener, signal) =>
    subscriptions.listen(names.topic(checked(topic)), (message) => listener(copyOf(message.data)), signal),
})

// ── subscriptions ────────────────────────────────────────────────────────────────────────────────────────────────────

type Listener = (message: Msg) => void

/** One subscription and its listeners. */
interface Shared {
  /** Absent until it is sent. */
  subscription: Subscription | undefined
  readonly listeners: Set<Listener>
  /** Why the server does not allow it. */
  refusal?: TransportError
}

/**
 * Subscriptions to core NATS: one per subject and process, shared by all listeners, and kept for as long as there is
 * one.
 */
export class Subscriptions {
  readonly #link: NatsLink
  readonly #shared = new Map<string, Shared>()
  /** Families of subjects to which the server has allowed a subscription. */
  readonly #allowed = new Set<string>()

  constructor(link: NatsLink) {
    this.#link = link
    // The permissions may have changed meanwhile.
    link.onStatus(() => this.#allowed.clear())
  }

  /**
   * Resolves once the server has the subscription. Ends with the signal, or with the link. Fails with `unauthorized`
   * when the server does not allow it.
   *
   * With `family`, a name for the subject and others like it, it resolves before that, except for the first subject of the
   * family, which shows whether they are allowed: the server has the subscription before it reads what is sent from then
   * on. The servers of a cluster tell each other of a subscription, so that there every one is waited for.
   */
  async listen(subject: string, listener: Listener, signal: AbortSignal, family?: string): Promise<void> {
    if (!this.#link.isReady) await this.#link.ready()
    if (signal.aborted) return
    const shared = this.#open(subject, listener, family !== undefined)
    const stop = (): void => {
      signal.removeEventListener("abort", stop)
      this.#link.closing.removeEventListener("abort", stop)
      this.#remove(subject, listener)
    }
    signal.addEventListener("abort", stop)
    this.#link.closing.addEventListener("abort", stop)
    if (family !== undefined && this.#allowed.has(family) && !this.#link.hasCluster) return
    try {
      await this.#link.flush()
      if (shared.refusal !== undefined) throw shared.refusal
      if (family !== undefined) this.#allowed.add(family)
    } catch (error) {
      stop()
      throw error
    }
  }

  #open(subject: string, listener: Listener, soon: boolean): Shared {
    const found = this.#shared.get(subject)
    if (found !== undefined) {
      found.listeners.add(listener)
      return found
    }
    const listeners = new Set<Listener>([listener])
    const receive = (message: Msg): void => {
      // Listeners run in microtasks of their own, because an error must not end the client's reading.
      for (const listener of [...listeners]) queueMicrotask(() => listener(message))
    }
    const refuse = (error: TransportError): void => {
      opened.refusal = error
      this.#allowed.clear()
      // The next listener tries anew.
      if (this.#shared.get(subject) === opened) this.#shared.delete(subject)
    }
    const opened: Shared = { subscription: undefined, listeners }
    const subscribe = (): void => {
      opened.subscription = this.#link.subscribe(subject, receive, refuse)
    }
    const subscribeLate = (): void => {
      if (listeners.size === 0) return
      try {
        // Also while the connection is lost: the client subscribes when it is back.
        subscribe()
      } catch {
        // The connection was closed meanwhile, so there is nothing to subscribe to.
      }
    }
    if (soon) this.#link.soon(subscribeLate)
    else subscribe()
    this.#shared.set(subject, opened)
    return opened
  }

  #remove(subject: string, listener: Listener): void {
    const shared = this.#shared.get(subject)
    if (shared === undefined || !shared.listeners.delete(listener) || shared.listeners.size > 0) return
    this.#shared.delete(subject)
    // A subscription that was not sent yet is never sent.
    this.#link.soon(() => shared.subscription?.unsubscribe())
  }
}
