/**
 * Reads a stream from its end, newest message first. The server only reads upward, so that windows of sequences are read
 * from the top down: small ones where there is much, wide ones where there is little.
 */
import type { Reader, StoredMessage } from "../streams/reader.ts"

/** Messages per answer at most; a window of so many sequences never holds more. */
const BATCH = 256

/** How much wider a window gets that was nearly empty. */
const WIDEN = 8

export class ReverseScan {
  readonly #reader: Reader
  readonly #filter: string
  #first = 1
  /** All sequences from here on have been read. */
  #below: number
  #width = BATCH
  /** Read and not taken, the next one last. */
  #ready: Array<StoredMessage> = []
  #bounded = false

  /** Begins below a sequence; `Infinity` is the end of the stream. */
  constructor(reader: Reader, filter: string, below: number) {
    this.#reader = reader
    this.#filter = filter
    this.#below = below
  }

  /** Where another scan goes on: everything from there on was taken. 0: there is no more. */
  get position(): number {
    const next = this.#ready[this.#ready.length - 1]
    if (next !== undefined) return next.seq + 1
    return this.#bounded && this.#below <= this.#first ? 0 : this.#below
  }

  /** The next message without taking it; `undefined` at the end, or when the time is over. */
  async peek(end: number): Promise<StoredMessage | undefined> {
    if (!this.#bounded && this.#below > 0) {
      const { first, last } = await this.#reader.bounds()
      this.#first = Math.max(first, 1)
      this.#below = Math.min(this.#below, last + 1)
    }
    this.#bounded = true
    while (this.#ready.length === 0 && this.#below > this.#first && Date.now() < end) await this.#read()
    return this.#ready[this.#ready.length - 1]
  }

  take(): void {
    this.#ready.pop()
  }

  async #read(): Promise<void> {
    const low = Math.max(this.#first, this.#below - this.#width)
    const { messages, more } = await this.#reader.from(low, this.#filter, BATCH)
    const inside = messages.filter(({ seq }) => seq < this.#below)
    const last = messages[messages.length - 1]?.seq ?? Infinity
    // Fewer came than there are in the window: its upper part, which comes first, was not read.
    if (more > 0 && last < this.#below - 1 && this.#width > 1) {
      this.#width = Math.max(Math.floor(Math.min(this.#width, this.#below - low) / WIDEN), 1)
      return
    }
    this.#below = low
    this.#ready = inside
    if (inside.length < BATCH / WIDEN) this.#width *= WIDEN
  }
}
