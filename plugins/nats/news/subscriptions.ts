/**
 * What the server sends by itself, one subscription per subject and process, however many listen: republished records and
 * values, tasks, broadcasts. A subscription lasts for as long as it has a listener.
 */
import type { Msg, Subscription } from "nats"
import type { Link } from "../connection/link.ts"

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
