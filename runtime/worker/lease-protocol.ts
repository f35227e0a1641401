/** What the worker and its lease-keeping thread say to each other. */

export interface LeaseThreadData {
  /** Of the transport; the thread opens a connection of its own. */
  readonly url: string
  readonly namespace: string | undefined
  /** In milliseconds. */
  readonly lease: number
  readonly clock: SharedArrayBuffer
}

export type LeaseOrders =
  /** Just pulled. */
  | { readonly kind: "added"; readonly tokens: ReadonlyArray<string> }
  /** Everything that is held now. */
  | { readonly kind: "held"; readonly tokens: ReadonlyArray<string> }
  | { readonly kind: "stop" }

export type LeaseNews =
  | { readonly kind: "lost"; readonly tokens: ReadonlyArray<string> }
  | { readonly kind: "trouble"; readonly message: string }
  /** The thread cannot do its work at all. */
  | { readonly kind: "failed"; readonly message: string }

/** How long after the earliest hard limit a silent main thread is taken for lost. */
export const GRACE_MS = 5_000

/** Ends the process when its main thread is blocked past every limit: what supervises it starts it again. */
export const BLOCKED_EXIT_CODE = 70

/**
 * Two times that the main thread writes and the other reads without a message, since a blocked thread sends none: when
 * it last turned, and the earliest hard limit of its handlers.
 */
export class SharedClock {
  readonly buffer: SharedArrayBuffer
  readonly #times: Float64Array

  constructor(buffer: SharedArrayBuffer = new SharedArrayBuffer(16)) {
    this.buffer = buffer
    this.#times = new Float64Array(buffer)
  }

  beat(): void {
    this.#times[0] = Date.now()
  }

  deadline(at: number): void {
    this.#times[1] = at
  }

  /** Whether the main thread has not turned since its earliest hard limit, and the grace is over. */
  isBlocked(now: number): boolean {
    const [beat = now, deadline = 0] = this.#times
    return deadline > 0 && now > deadline + GRACE_MS && beat < deadline + GRACE_MS / 2
  }
}
