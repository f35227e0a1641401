/**
 * Bounds on what requests hold at a time, so that clients that send without end, or do not read, cannot take the memory that
 * submissions need. What goes beyond is refused with 503 and `Retry-After`.
 */
import { CallboardError } from "../errors.ts"
import type { Caller } from "./access.ts"
import { BODY_DEADLINE_MS, MAX_BODY_BYTES, MAX_STREAMS, MAX_STREAMS_PER_TOKEN } from "./limits.ts"

export interface Bounds {
  /** Bytes of bodies that are read or handled; one whole array always has room. */
  readonly bodyBytes: number
  /** Longest time that a body may take to arrive, in milliseconds. */
  readonly bodyMs: number
  /** Streams of events, in all and for each token. */
  readonly streams: number
  readonly streamsPerToken: number
}

const BOUNDS: Bounds = {
  bodyBytes: MAX_BODY_BYTES,
  bodyMs: BODY_DEADLINE_MS,
  streams: MAX_STREAMS,
  streamsPerToken: MAX_STREAMS_PER_TOKEN,
}

const overloaded = (message: string): CallboardError => new CallboardError("overloaded", message, { outcome: "none" })

/** The body of one request: what it holds is given back when its request has been answered. */
export interface HeldBody {
  /** When the body must be there, by `performance.now()`. */
  readonly deadline: number
  /** Counts more bytes. Fails with `overloaded`. */
  add(bytes: number): void
  release(): void
}

export class Budget {
  readonly #bounds: Bounds
  #bodyBytes = 0
  #streams = 0
  /** Open streams of each token that has some. */
  readonly #perToken = new Map<string, number>()

  constructor(bounds: Partial<Bounds> = {}) {
    this.#bounds = { ...BOUNDS, ...bounds }
  }

  body(): HeldBody {
    let held = 0
    return {
      deadline: performance.now() + this.#bounds.bodyMs,
      add: (bytes) => {
        // The only body that is read has room whatever its size, which has a bound of its own.
        if (this.#bodyBytes > held && this.#bodyBytes + bytes > this.#bounds.bodyBytes)
          throw overloaded("too many large bodies are sent to this service at a time: send it again later")
        held += bytes
        this.#bodyBytes += bytes
      },
      release: () => {
        this.#bodyBytes -= held
        held = 0
      },
    }
  }

  /** Opens a stream of events; the result closes it. Fails with `overloaded`. */
  stream({ key }: Caller): () => void {
    const { streams, streamsPerToken } = this.#bounds
    const own = this.#perToken.get(key) ?? 0
    if (this.#streams >= streams) throw overloaded(`${streams} streams of events are open: come back later`)
    // Without tokens all callers look the same.
    if (key !== "" && own >= streamsPerToken)
      throw overloaded(`this token has ${streamsPerToken} open streams of events: close some`)
    this.#streams++
    this.#perToken.set(key, own + 1)
    let isOpen = true
    return () => {
      if (!isOpen) return
      isOpen = false
      this.#streams--
      const left = (this.#perToken.get(key) ?? 1) - 1
      if (left === 0) this.#perToken.delete(key)
      else this.#perToken.set(key, left)
    }
  }
}
