/** What a transport does by itself every few seconds: says that it is there, and clears away what is over, in slices. */
import type { NewsTable } from "./notify/news.ts"
import { BEAT_MS, type Presence } from "./notify/presence.ts"
import type { Sweeper } from "./records/sweep.ts"
import type { StoreTable } from "./store/store-table.ts"
import type { Transaction } from "./writing/transaction.ts"
import type { Writer } from "./writing/writer.ts"

const INTERVAL_MS = 5_000

/** A slice is followed by a pause of this many times its length, so that work goes first. */
const PAUSE = 3

export class Maintenance {
  readonly #writer: Writer
  readonly #presence: Presence
  readonly #news: NewsTable
  readonly #store: StoreTable
  readonly #sweeper: Sweeper
  readonly #timer: ReturnType<typeof setInterval>
  #busy = false
  #closed = false
  #beatAt = 0

  constructor(parts: {
    readonly writer: Writer
    readonly presence: Presence
    readonly news: NewsTable
    readonly store: StoreTable
    readonly sweeper: Sweeper
  }) {
    this.#writer = parts.writer
    this.#presence = parts.presence
    this.#news = parts.news
    this.#store = parts.store
    this.#sweeper = parts.sweeper
    this.#timer = setInterval(() => void this.#run(), INTERVAL_MS)
    this.#timer.unref()
  }

  close(): void {
    this.#closed = true
    clearInterval(this.#timer)
  }

  async #run(): Promise<void> {
    if (this.#busy) return
    this.#busy = true
    try {
      await this.#beat()
      const now = Date.now()
      if (this.#sweeper.isDue(now)) await this.#inSlices((transaction) => this.#sweeper.sweep(transaction))
      if (this.#store.nextEnd() <= now) await this.#inSlices((transaction) => this.#store.expire(transaction))
      if (this.#news.hasOld(now)) await this.#inSlices((transaction) => this.#news.prune(transaction))
    } catch {
      // Locked, full or closed: those who ask for something are told, and the next round tries again.
    } finally {
      this.#busy = false
    }
  }

  async #beat(): Promise<void> {
    const now = Date.now()
    if (!this.#presence.listens || now - this.#beatAt < BEAT_MS) return
    this.#beatAt = now
    await this.#writer.doLightly((transaction) => this.#presence.announce(transaction))
  }

  async #inSlices(slice: (transaction: Transaction) => boolean): Promise<void> {
    for (;;) {
      const start = performance.now()
      const more = await this.#writer.doLightly(slice)
      if (!more || this.#closed) return
      const pause = PAUSE * (performance.now() - start)
      await new Promise<void>((resolve) => setTimeout(resolve, pause).unref())
    }
  }
}
