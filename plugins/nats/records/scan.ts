/**
 * Reads a stream from its end, newest message first, although the server only reads upwards. What one request costs the
 * server is bounded, however many messages the stream holds: a message by its sequence costs the same everywhere, but a
 * request with a filter looks through every block of the stream up to the first message that matches. So a filter is only
 * asked for from where it is known that something matches above, or that the end of the stream is near.
 */
import type { StoredMessage, StreamBounds, StreamReader } from "../streams/reader.ts"

export type IsOver = (ms: number) => boolean

export interface ReverseScan {
  /** The `below` for a scan that goes on here; 0 if there are no more messages. */
  readonly position: number
  /** How many messages were read. */
  readonly scanned: number
  /**
   * The next message, which stays; `undefined` at the end of the stream, or where the search is over before it is read.
   * `isOver` is asked whether there is time for so many milliseconds more.
   */
  peek(isOver: IsOver): Promise<StoredMessage | undefined>
  take(): void
}

/** Largest factor by which a window grows when it was nearly empty, or shrinks when it was too full. */
const FACTOR = 8

abstract class Scan implements ReverseScan {
  protected readonly reader: StreamReader
  /** The first sequence of the stream that may hold a message. */
  protected first = 1
  /** All sequences from this one on were read. */
  protected below: number
  /** Messages that were read and not taken, the next one last. */
  protected ready: Array<StoredMessage> = []
  #begun = false
  /** How long the last window took, in milliseconds. */
  #took = 0
  scanned = 0

  /** Begins below the sequence `below`; `Infinity` is the end of the stream. */
  constructor(reader: StreamReader, below: number) {
    this.reader = reader
    this.below = below
  }

  get position(): number {
    const next = this.ready[this.ready.length - 1]
    if (next !== undefined) return next.seq + 1
    return this.#begun && this.below <= this.first ? 0 : this.below
  }

  async peek(isOver: IsOver): Promise<StoredMessage | undefined> {
    if (!this.#begun && this.below > 0) {
      const [bounds] = await Promise.all([this.bounds(), this.prepare()])
      this.first = Math.max(bounds.first, 1)
      this.below = Math.min(this.below, bounds.last + 1)
      this.begin(bounds)
    }
    this.#begun = true
    while (this.ready.length === 0 && this.below > this.first && !isOver(this.#took)) {
      const began = performance.now()
      await this.read()
      this.#took = performance.now() - began
    }
    return this.ready[this.ready.length - 1]
  }

  take(): void {
    this.ready.pop()
  }

  protected abstract bounds(): Promise<StreamBounds>
  /** Further questions that are asked at the same time as the bounds. */
  protected async prepare(): Promise<void> {}
  protected abstract begin(bounds: StreamBounds): void
  /** Reads the next window of sequences below {@link below}, and lowers that. */
  protected abstract read(): Promise<void>
}

// ── all messages ─────────────────────────────────────────────────────────────────────────────────────────────────────

/** Most sequences that are asked for together. */
const PROBES = 64

/** Most bytes that are read together, by the average size of a message. */
const PROBED_BYTES = 4 * 1024 * 1024

/** Widest window, in sequences; the server skips what was removed at some 50 million sequences a second. */
const WIDEST = 65_536

/**
 * Reads all messages of a stream. Each is asked for by its sequence: for a batch the server counts what follows, and where
 * messages were removed it looks through all subjects for that.
 */
export class WholeScan extends Scan {
  readonly #bounds: () => Promise<StreamBounds>
  #probes = PROBES
  #width = PROBES

  constructor(reader: StreamReader, bounds: () => Promise<StreamBounds>, below: number) {
    super(reader, below)
    this.#bounds = bounds
  }

  protected override bounds(): Promise<StreamBounds> {
    return this.#bounds()
  }

  protected override begin({ messages, bytes }: StreamBounds): void {
    const fit = Math.floor((PROBED_BYTES * messages) / Math.max(bytes, 1))
    this.#probes = Math.min(Math.max(fit, 8), PROBES)
    this.#width = this.#probes
  }

  protected override async read(): Promise<void> {
    const low = Math.max(this.first, this.below - this.#width)
    const found = new Map<number, StoredMessage>()
    // Each part is read from its first sequence to its end, one message at a time, all parts together.
    const step = Math.max(Math.ceil((this.below - low) / this.#probes), 1)
    let parts: Array<{ readonly from: number; readonly to: number }> = []
    for (let from = low; from < this.below; from += step) parts.push({ from, to: Math.min(from + step, this.below) })
    while (parts.length > 0) {
      const answers = await Promise.all(parts.map(({ from }) => this.reader.next(from)))
      parts = parts.flatMap(({ to }, at) => {
        const message = answers[at]
        if (message === undefined) return []
        if (message.seq < this.below) found.set(message.seq, message)
        return message.seq + 1 < to ? [{ from: message.seq + 1, to }] : []
      })
      // A wide window that is not sparse any more is read again, narrower.
      if (found.size > 2 * this.#probes && step > 1) {
        this.#width = this.#probes
        return
      }
    }
    this.scanned += found.size
    this.below = low
    this.ready = [...found.values()].sort((a, b) => a.seq - b.seq)
    if (found.size < this.#probes / 4) this.#width = Math.min(this.#width * FACTOR, WIDEST)
    else if (found.size > this.#probes / 2) this.#width = Math.max(Math.floor(this.#width / 2), this.#probes)
  }
}

// ── what matches a filter ────────────────────────────────────────────────────────────────────────────────────────────

/** Most messages of one answer. */
const BATCH = 256

/** The first window if it is not known how many messages match: about half a block of the server's files. */
const NEAR = 4_096

/** How many matches a window should have. */
const WANTED = 64

/** Most matches that the server is asked to look at in one request, at 100 to 400 nanoseconds for each. */
export const COUNTABLE = 50_000

/** Most matches that are looked at before any window is read: that costs less than to read a window without one. */
const FEW = 2_000

/** Factor by which the first window is wider than the sample suggests. */
const SURELY = 1.5

/** Widest window whose cost is not known yet: about a block, which takes 15 to 30 milliseconds if the server must load it. */
const BLOCK = 8_192

/** How long a request should take: while requests are quicker, windows grow. */
const QUICK_MS = 8

/** A filter for about every `share`th of the messages that another one matches. */
export interface Sample {
  readonly filter: string
  readonly share: number
}

export interface FilteredOptions {
  readonly sample?: Sample
  /** The first window. Defaults to {@link NEAR}. */
  readonly near?: number
  /** Defaults to {@link COUNTABLE}. */
  readonly max?: number
}

/** Reads the messages of a stream that match a filter. */
export class FilteredScan extends Scan {
  readonly #filter: string
  readonly #bounds: () => Promise<StreamBounds>
  readonly #sample: Sample | undefined
  readonly #near: number
  readonly #max: number
  #end = 0
  #messages = 0
  /** Estimated number of messages that match, by the sample. */
  #estimate: number | undefined
  #width: number
  #isPlaced = false
  #isSparse = true
  /** How many matches there were from {@link below} on when they were last counted. */
  #above: number | undefined
  /** Average number of sequences for each match, where that is known. */
  #spacing: number | undefined

  constructor(
    reader: StreamReader,
    filter: string,
    bounds: () => Promise<StreamBounds>,
    below: number,
    { sample, near = NEAR, max = COUNTABLE }: FilteredOptions = {},
  ) {
    super(reader, below)
    this.#filter = filter
    this.#bounds = bounds
    this.#sample = sample
    this.#near = near
    this.#max = max
    this.#width = near
  }

  protected override bounds(): Promise<StreamBounds> {
    return this.#bounds()
  }

  protected override async prepare(): Promise<void> {
    if (this.#sample === undefined) return
    this.#estimate = (await this.reader.count(this.#sample.filter)) * this.#sample.share
  }

  protected override begin({ first, last, messages }: StreamBounds): void {
    this.#end = last + 1
    this.#messages = messages
    if (this.below === this.#end) this.#above = 0
    if (this.#estimate !== undefined && this.#estimate > FEW) this.#expect((this.#end - first) / this.#estimate)
    // The sample is an estimate. A window with too few matches costs a further request, which takes longer than a wider window.
    this.#width = Math.ceil(this.#width * SURELY)
  }

  protected override async read(): Promise<void> {
    if (!this.#isPlaced && this.#mayPlace()) return this.#place()
    const low = Math.max(this.first, this.below - this.#width)
    const began = performance.now()
    const found = await this.#window(low)
    const took = performance.now() - began
    if (found === undefined) {
      this.#width = Math.max(Math.floor(Math.min(this.#width, this.below - low) / FACTOR), 1)
      return
    }
    this.scanned += found.length
    this.below = low
    this.ready = found
    this.#isSparse = found.length < WANTED / FACTOR
    this.#spacing = this.#width / found.length
    const growth = Math.min(WANTED / Math.max(found.length, 1), FACTOR)
    this.#width = Math.max(Math.floor(this.#width * Math.min(growth, Math.max(QUICK_MS / took, 1))), 1)
  }

  /** The matches from `low` on that were not read before; `undefined` where they are more than one answer holds. */
  async #window(low: number): Promise<Array<StoredMessage> | undefined> {
    const found: Array<StoredMessage> = []
    // A request for more matches than there are makes the server look through the rest of the stream; a request for more than the
    // window has makes it look through windows that were read before.
    let from = low
    let batch = Math.min(this.#expectedFrom(low), Math.max(this.#above ?? 1, 1))
    // The stream ends behind this window, so that a request for more matches looks through nothing else.
    if (this.below === this.#end) batch = BATCH
    let all: number | undefined
    for (;;) {
      const { messages, more } = await this.reader.from(from, this.#filter, batch)
      all ??= messages.length + more
      for (const message of messages) if (message.seq < this.below) found.push(message)
      const last = messages[messages.length - 1]?.seq ?? Number.POSITIVE_INFINITY
      if (more === 0 || last >= this.below - 1) {
        this.#above = all
        return found
      }
      const left = this.#above === undefined ? this.#expectedFrom(last) : Math.max(more - this.#above, 0)
      if (found.length + left > BATCH && low + 1 < this.below) return undefined
      from = last + 1
      // Matches above the window may have been removed since they were counted. Asking for one more than is left in the window
      // shows for certain that the window is over.
      batch = Math.min(more, left + 1, BATCH)
    }
  }

  /** How many matches a window should have from here on. */
  #expectedFrom(seq: number): number {
    if (this.#spacing === undefined) return WANTED
    return Math.min(Math.max(Math.floor((this.below - seq) / this.#spacing), 1), WANTED)
  }

  #expect(spacing: number): void {
    this.#spacing = spacing
    this.#width = Math.min(Math.max(Math.ceil(spacing * WANTED), WANTED), BLOCK)
  }

  /** Whether to ask the server where the first and the last match lie: it is cheap enough, and saves requests. */
  #mayPlace(): boolean {
    if (this.#estimate !== undefined && this.#estimate <= Math.min(FEW, this.#max)) return true
    // Near the end of the stream, or where matches are frequent, a request is answered quickly without knowing it.
    if (this.#end - this.below < this.#near || !this.#isSparse) return false
    return this.#width > FACTOR * this.#near || (this.#estimate ?? this.#messages) <= this.#max
  }

  /** Finds where the first and the last match lie. Requests outside of these would look through messages that do not match. */
  async #place(): Promise<void> {
    this.#isPlaced = true
    const [{ messages, more }, last] = await Promise.all([
      this.reader.from(1, this.#filter, 1),
      this.reader.newest(this.#filter),
    ])
    const [first] = messages
    if (first === undefined || last === undefined) {
      this.first = this.below
      return
    }
    this.first = Math.max(first.seq, this.first)
    this.#expect((last.seq - first.seq + 1) / (more + 1))
    if (last.seq >= this.below) return
    this.below = last.seq + 1
    this.#above = 0
  }
}
