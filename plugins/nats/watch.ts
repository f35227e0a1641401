/**
 * News from the server, one subscription per kind and process, however many listen: republished records and values, and
 * broadcasts. A subscription lasts for as long as somebody listens.
 */
import type { Msg, Subscription } from "nats"
import { decodeRecord, type JobRecord } from "../../runtime/protocol/record.ts"
import type { Link } from "./connection/link.ts"
import { KEPT_HEADER } from "./runs.ts"
import { escapeToken, type Names } from "./streams/names.ts"

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
      this.#leave(subject, listener)
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

  #leave(subject: string, listener: Listener): void {
    const shared = this.#shared.get(subject)
    if (shared === undefined || !shared.listeners.delete(listener) || shared.listeners.size > 0) return
    this.#shared.delete(subject)
    shared.subscription.unsubscribe()
  }
}

type RecordListener = (record: JobRecord) => void

/** Records as they change. A record is decoded once, and only if somebody watches its job. */
export class Watches {
  readonly #subscriptions: Subscriptions
  readonly #names: Names
  /** By token of the id; `""` for those who watch all. */
  readonly #listeners = new Map<string, Set<RecordListener>>()
  #stop: AbortController | undefined
  #begun: Promise<unknown> = Promise.resolve()

  constructor(subscriptions: Subscriptions, names: Names) {
    this.#subscriptions = subscriptions
    this.#names = names
  }

  /** Resolves once changes are heard. Fails with `unavailable` or `closed`. */
  async watch(id: string | undefined, listener: RecordListener, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return
    const key = id === undefined ? "" : escapeToken(id)
    const listeners = this.#listeners.get(key) ?? new Set()
    // The same function may listen more than once, each time with a signal of its own.
    const own: RecordListener = (record) => listener(record)
    this.#listeners.set(key, listeners.add(own))
    const stop = (): void => {
      signal.removeEventListener("abort", stop)
      listeners.delete(own)
      if (listeners.size === 0 && this.#listeners.get(key) === listeners) this.#listeners.delete(key)
      if (this.#listeners.size > 0) return
      this.#stop?.abort()
      this.#stop = undefined
    }
    signal.addEventListener("abort", stop)
    if (this.#stop === undefined) {
      const control = new AbortController()
      this.#stop = control
      const hear = (message: Msg): void => this.#hear(message)
      this.#begun = Promise.all([
        this.#subscriptions.listen(this.#names.event("t"), hear, control.signal),
        this.#subscriptions.listen(this.#names.event("r"), hear, control.signal),
      ])
      // Awaited below, by everybody who begins meanwhile.
      this.#begun.catch(() => undefined)
    }
    try {
      await this.#begun
    } catch (error) {
      stop()
      throw error
    }
  }

  #hear(message: Msg): void {
    const { subject } = message
    const tokens = subject.slice(this.#names.namespace.length).split(".")
    // `.ev.t.<class>.<id>.<queue>` or `.ev.r.<id>`
    const key = (tokens[2] === "t" ? tokens[4] : tokens[3]) ?? ""
    const one = this.#listeners.get(key)
    const all = this.#listeners.get("")
    if (one === undefined && all === undefined) return
    if (tokens[2] === "r" && message.headers?.has(KEPT_HEADER)) return
    const decoded = decodeRecord(message.data)
    if (decoded._tag === "Failure") return
    for (const listener of [...(one ?? []), ...(all ?? [])]) listener(decoded.success)
  }
}
