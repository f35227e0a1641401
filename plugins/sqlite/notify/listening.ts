/** Listening, here and across processes: says what this transport waits for, and reads what others bring. */

import type { Writer } from "../writing/writer.ts"
import type { Doorbell } from "./doorbell.ts"
import type { NewsTable } from "./news.ts"
import { type Presence, QUEUES } from "./presence.ts"

export class Listening {
  readonly #presence: Presence
  readonly #news: NewsTable
  readonly #doorbell: Doorbell
  readonly #writer: Writer
  readonly #closing: AbortSignal
  /** Called when a task may have come that rang no bell. */
  readonly #look: () => void

  constructor(parts: {
    readonly presence: Presence
    readonly news: NewsTable
    readonly doorbell: Doorbell
    readonly writer: Writer
    readonly closing: AbortSignal
    readonly look: () => void
  }) {
    this.#presence = parts.presence
    this.#news = parts.news
    this.#doorbell = parts.doorbell
    this.#writer = parts.writer
    this.#closing = parts.closing
    this.#look = parts.look
  }

  /** Resolves once others tell this transport of such things. */
  async start(kind: number): Promise<void> {
    if (this.#presence.has(kind)) return
    // First, because others ring as soon as they know of this transport.
    await this.#doorbell.start()
    try {
      await this.#writer.doLightly((transaction) => {
        this.#presence.announce(transaction, kind)
        this.#news.listenFrom(transaction)
      })
    } catch (error) {
      this.#presence.retract(kind)
      throw error
    }
    if (this.#closing.aborted) return
    // What came before this was known rang no bell.
    if (kind === QUEUES) this.#look()
  }

  /** Keeps a subscription until its signal or the transport ends it. `begin` returns how to stop. */
  async subscribe(kind: number, signal: AbortSignal, begin: () => () => void): Promise<void> {
    if (signal.aborted) return
    const stop = begin()
    const end = (): void => {
      stop()
      signal.removeEventListener("abort", end)
      this.#closing.removeEventListener("abort", end)
    }
    signal.addEventListener("abort", end)
    this.#closing.addEventListener("abort", end)
    try {
      await this.start(kind)
    } catch (error) {
      end()
      throw error
    }
  }

  /** Tells those who listen here what others wrote; the rest of a long list in the next turns of the event loop. */
  readonly read = (): void => {
    if (this.#closing.aborted) return
    try {
      this.#news.lookAtQueues()
      if (this.#news.read()) setImmediate(this.read)
    } catch {
      // Locked for a moment: the next look reads it.
    }
  }
}
