/** What the worker and its lease-keeping thread say to each other. */
import type { LogSettings } from "../../log/log.ts"

/** How a thread connects to the transport: it opens a connection of its own. */
export interface LeaseThreadTarget {
  readonly url: string
  readonly namespace: string | undefined
  /** In milliseconds; 0: none. */
  readonly heartbeat: number | undefined
}

export interface LeaseThreadData extends LeaseThreadTarget {
  /** In milliseconds. */
  readonly lease: number
  readonly clock: SharedArrayBuffer
  /** How a last word is written; absent: it is not, since only the host application has a log. */
  readonly log: LogSettings | undefined
}

/** Tokens, a line each: one text crosses between threads at a fraction of the price of a list of them. */
export type Tokens = string
export const packTokens = (tokens: Iterable<string>): Tokens => [...tokens].join("\n")
export const unpackTokens = (tokens: Tokens): ReadonlyArray<string> => (tokens === "" ? [] : tokens.split("\n"))

export type LeaseThreadCommand =
  /** Just pulled. */
  | { readonly kind: "added"; readonly tokens: Tokens }
  /** Everything that is held now. */
  | { readonly kind: "held"; readonly tokens: Tokens }
  /** An entry of the store that must not lapse while this process lives. */
  | { readonly kind: "keep-alive"; readonly key: string; readonly ttlMs: number }
  | { readonly kind: "stop" }

export type LeaseThreadMessage =
  /** The thread is connected: from now on it keeps the leases. */
  | { readonly kind: "ready" }
  | { readonly kind: "lost"; readonly tokens: ReadonlyArray<string> }
  | { readonly kind: "trouble"; readonly message: string }
  /** The thread cannot do its work at all. */
  | { readonly kind: "failed"; readonly message: string }

/** How long after the earliest hard limit a silent main thread is taken for lost. */
export const GRACE_MS = 5_000

/** What the other thread must know of a handler to end its job when it blocks. */
export interface RunDetails {
  readonly token: string
  readonly fence: string
  readonly id: string
  /** When it was called, in milliseconds since the epoch, and its hard limit in seconds. */
  readonly startedAt: number
  readonly hardSeconds: number
  /** Whether a job that ran into its hard limit is a dead letter. */
  readonly rejects: boolean
  /** How long its failure is kept, in milliseconds, unless its task says otherwise. */
  readonly keepMs: number
}

/** Longest note, in bytes; a longer one (an absurdly long id) is left out, and its job is found again by its lease. */
const NOTE_BYTES = 2_048
const TIMES_BYTES = 16

/**
 * What the main thread writes and the other reads without a message, since a blocked thread sends none: how often it has
 * turned, how long it then had until the earliest hard limit of its handlers, and which handler it called last. No time of
 * day: it may be set, and the clocks that nobody sets begin anew in each thread.
 */
export class SharedHeartbeat {
  readonly buffer: SharedArrayBuffer
  readonly #times: Float64Array
  readonly #note: Uint8Array
  readonly #length: Uint32Array
  /** In the main thread: the earliest hard limit. */
  #deadline = Number.POSITIVE_INFINITY
  /** In the other one: the turn that it saw last, and when. */
  #seen = { turn: 0, at: 0 }
  readonly #encoder = new TextEncoder()
  /** `encodeInto` takes no shared memory. */
  readonly #draft = new Uint8Array(NOTE_BYTES)

  constructor(buffer: SharedArrayBuffer = new SharedArrayBuffer(TIMES_BYTES + 8 + NOTE_BYTES)) {
    this.buffer = buffer
    this.#times = new Float64Array(buffer, 0, 2)
    this.#length = new Uint32Array(buffer, TIMES_BYTES, 1)
    this.#note = new Uint8Array(buffer, TIMES_BYTES + 8, NOTE_BYTES)
  }

  beat(): void {
    this.#times[1] = this.#deadline - performance.now()
    this.#times[0] = (this.#times[0] ?? 0) + 1
  }

  /** `at`: of `performance.now()`. */
  deadline(at: number): void {
    this.#deadline = at
    this.beat()
  }

  /** The handler that is about to be called. */
  note(run: RunDetails): void {
    const text = `${run.startedAt}\n${run.hardSeconds}\n${run.rejects ? 1 : 0}\n${run.keepMs}\n${run.fence}\n${run.token}\n${run.id}`
    const { read, written } = this.#encoder.encodeInto(text, this.#draft)
    if (read < text.length) {
      // Half an id would be another job's, and the note of the run before is not this one's.
      this.#length[0] = 0
      return
    }
    this.#note.set(this.#draft.subarray(0, written))
    this.#length[0] = written
  }

  /** The handler that was called last. */
  lastRun(): RunDetails | undefined {
    const length = this.#length[0] ?? 0
    if (length === 0) return undefined
    const text = new TextDecoder().decode(this.#note.slice(0, length))
    const [startedAt, hardSeconds, rejects, keepMs, fence, token, ...id] = text.split("\n")
    if (fence === undefined || token === undefined || id.length === 0) return undefined
    return {
      startedAt: Number(startedAt),
      hardSeconds: Number(hardSeconds),
      rejects: rejects === "1",
      keepMs: Number(keepMs),
      fence,
      token,
      id: id.join("\n"),
    }
  }

  /** Whether the main thread has not turned since its earliest hard limit, and the grace is over. `now`: of `performance.now()`. */
  isBlocked(now: number): boolean {
    const [turn = 0, leftMs = 0] = this.#times
    if (turn !== this.#seen.turn) this.#seen = { turn, at: now }
    return turn > 0 && now > this.#seen.at + leftMs + GRACE_MS && leftMs > -GRACE_MS / 2
  }
}
