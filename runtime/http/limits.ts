/** Bounds of the service: deadlines, and what requests hold at a time. */
import { CallboardError } from "../errors.ts"
import type { Given } from "../options/check.ts"
import { type DurationInput, milliseconds } from "../options/duration.ts"
import { compact } from "../protocol/compact.ts"
import { READ_DEADLINE_MS } from "../routes/bounds.ts"
import { TransportError } from "../transport/mod.ts"
import { within } from "../transport/timers.ts"
import type { Caller } from "./access.ts"

/** An array of tasks may be this many times as large as one task. */
export const BATCH_BODY_FACTOR = 16

/** Most bytes of bodies that are read or handled at a time. */
const MAX_BODY_BYTES = 64 * 1024 * 1024

/** Most open streams of events, in all and for each token. */
const MAX_STREAMS = 1_000
const MAX_STREAMS_PER_TOKEN = 100

export const IDEMPOTENCY_TTL_MS = 86_400_000

/**
 * A submission is answered within two seconds, whatever the transport does; half a second of that is left for
 * everything else.
 */
export const SUBMIT_DEADLINE_MS = 1_500

/** Servers and proxies cut streams on which nothing happens: Bun's after eight to twelve seconds, proxies after half a minute or more. */
export const KEEP_ALIVE_MS = 5_000

/**
 * Bounds a question to the transport, so that the request ends also while the transport is away. Fails with
 * `unavailable`.
 */
export const withReadDeadline = <T>(work: Promise<T>): Promise<T> =>
  within(
    READ_DEADLINE_MS,
    work,
    () => new TransportError("unavailable", `the transport did not answer within ${READ_DEADLINE_MS / 1000} s`),
  )

/**
 * {@link withReadDeadline} for work that stops when its signal fires: at the deadline, and when the client goes away.
 */
export const boundedRead = async <T>(client: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<T> => {
  const stop = new AbortController()
  const end = () => stop.abort()
  client.addEventListener("abort", end)
  if (client.aborted) end()
  try {
    // The signal must not fire before the work is done.
    return await withReadDeadline(work(stop.signal))
  } finally {
    client.removeEventListener("abort", end)
    end()
  }
}

export interface Bounds {
  /** Bytes of bodies that are read or handled; one whole array always has room. */
  readonly bodyBytes: number
  /** Longest time that a body may take to arrive, 1 ms at least. Defaults to 30 seconds. */
  readonly bodyTimeout: DurationInput
  /** Streams of events, in all and for each token. */
  readonly streams: number
  readonly streamsPerToken: number
}

const BOUNDS: Bounds = {
  bodyBytes: MAX_BODY_BYTES,
  bodyTimeout: "30 seconds",
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

/**
 * Bounds what requests hold at a time, so that clients that send without end, or do not read, cannot take the memory that
 * submissions need. What goes beyond is refused with 503 and `Retry-After`.
 */
export class Budget {
  readonly #bounds: Bounds
  readonly #bodyMs: number
  #bodyBytes = 0
  #streams = 0
  /** Open streams of each token that has some. */
  readonly #perToken = new Map<string, number>()

  constructor(bounds: Given<Partial<Bounds>> = {}) {
    this.#bounds = { ...BOUNDS, ...compact(bounds) }
    this.#bodyMs = milliseconds("bounds.bodyTimeout", this.#bounds.bodyTimeout)
  }

  body(): HeldBody {
    let held = 0
    return {
      deadline: performance.now() + this.#bodyMs,
      add: (bytes) => {
        // While no other body is read there is room for one of any size, since each has a bound of its own.
        if (this.#bodyBytes > held && this.#bodyBytes + bytes > this.#bounds.bodyBytes)
          throw overloaded("this service is receiving too many large bodies: send it again later")
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
    if (this.#streams >= streams) throw overloaded(`${streams} streams of events are open: try again later`)
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

/** The shortest and the longest range of a request for statistics, in milliseconds. */
const MIN_RANGE_MS = 60_000
const MAX_RANGE_MS = 86_400_000

/** A range in milliseconds. Fails with `invalid-input`, naming the parameter. */
export const rangeOf = (field: string, given: string): number => {
  const range = milliseconds(field, given)
  if (range >= MIN_RANGE_MS && range <= MAX_RANGE_MS) return range
  throw new CallboardError("invalid-input", `${field}: must be from 1 minute to 24 hours`, { field })
}
