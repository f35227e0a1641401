/** The messages between a worker and its lease thread. */
import type { WorkerDescription } from "../../cluster/directory.ts"
import type { LogSettings } from "../../log/log.ts"
import { isObject } from "../../protocol/guards.ts"
import { decoder, encoder } from "../../protocol/text.ts"

/** How the thread connects to the transport. It opens its own connection. */
export interface LeaseThreadTarget {
  readonly url: string
  readonly namespace: string | undefined
  /** Interval of the connection's heartbeat in milliseconds; 0: none. */
  readonly heartbeat: number | undefined
  /**
   * Whether the thread alone extends the leases once it is connected. Otherwise some deliveries belong to the connection that
   * took them: the main thread goes on to extend all leases, and it alone can tell which ones are lost.
   */
  readonly extendsAlone: boolean
}

/** Marks the data of the thread. */
const LEASE_THREAD = "callboard: extend leases"

export interface LeaseThreadData extends LeaseThreadTarget {
  readonly program: typeof LEASE_THREAD
  /** Name of the worker. */
  readonly worker: string
  /** Length of a lease, in milliseconds. */
  readonly lease: number
  readonly clock: SharedArrayBuffer
  /** Memory of the {@link SharedToken}. */
  readonly newest: SharedArrayBuffer
  /**
   * Settings of the log for the message before the process is killed. Absent where only the host application has a log;
   * then there is no message.
   */
  readonly log: LogSettings | undefined
}

/** Marks the data of a thread as those of a lease thread. */
export const asLeaseThread = (data: Omit<LeaseThreadData, "program">): LeaseThreadData => ({
  ...data,
  program: LEASE_THREAD,
})

/** Whether a thread with this data was started to extend leases. */
export const isLeaseThread = (data: unknown): data is LeaseThreadData =>
  isObject(data) && "program" in data && data.program === LEASE_THREAD

/** Tokens of deliveries, one per line: a single string is much cheaper to post to a thread than a list. */
export type Tokens = string
export const packTokens = (tokens: Iterable<string>): Tokens => [...tokens].join("\n")
export const unpackTokens = (tokens: Tokens): ReadonlyArray<string> => (tokens === "" ? [] : tokens.split("\n"))

export type LeaseThreadCommand =
  /** Deliveries that were just pulled. One that is alone in the worker is not posted: see {@link SharedToken}. */
  | { readonly kind: "added"; readonly tokens: Tokens }
  /** All deliveries that the worker has now. */
  | { readonly kind: "held"; readonly tokens: Tokens }
  /** The runs of the worker, where others run than before. */
  | { readonly kind: "running"; readonly runs: ReadonlyArray<ListedRun> }
  /** The worker, as it writes itself into the directory now. */
  | { readonly kind: "described"; readonly described: WorkerDescription }
  | { readonly kind: "stop" }

export type LeaseThreadMessage =
  /** The thread is connected, and extends the leases from now on. */
  | { readonly kind: "ready" }
  | { readonly kind: "lost"; readonly tokens: ReadonlyArray<string> }
  | { readonly kind: "trouble"; readonly message: string }
  /** Runs that the thread has told of as started, since the main thread was blocked. */
  | { readonly kind: "reported"; readonly tokens: ReadonlyArray<string> }
  /** The main thread was blocked for so long. `job`: whose handler it was, where that is known. */
  | { readonly kind: "unblocked"; readonly seconds: number; readonly job: string | undefined }
  /** The thread cannot extend leases at all. */
  | { readonly kind: "failed"; readonly message: string }

/** Time after the earliest hard limit after which a main thread that gives no sign of life counts as blocked. */
export const GRACE_MS = 5_000

/** Time without a sign of life of the main thread after which a look tells of the worker as blocked, in milliseconds. */
export const BLOCKED_MS = 1_500

/** What the lease thread must know about a run to end its job when its handler blocks. */
export interface RunDetails {
  readonly token: string
  readonly fence: string
  readonly id: string
  /** Start of the handler, in milliseconds since the epoch, and its hard limit in seconds. */
  readonly startedAt: number
  readonly hardSeconds: number
  /** Whether a job that reached its hard limit becomes a dead letter. */
  readonly rejects: boolean
  /** Time for which its failure is kept, in milliseconds, unless the task sets one. */
  readonly keepMs: number
  /** Whether its task must not be given back: it has left its queue, or its method must not be begun again. */
  readonly once: boolean
}

/** A run in the list of those that the lease thread knows. */
export interface ListedRun extends RunDetails {
  /** Whether its handler runs in the main thread, so that it may block that thread. */
  readonly inline: boolean
}

/**
 * Longest texts of run details, in characters. Longer ones (an absurdly long id) are left out, and the job is recovered
 * when its lease expires.
 */
const NOTE_LENGTH = 1_024

const LINE_FEED = 10

/** The numbers in shared memory. */
const TURN = 0
const LEFT_MS = 1
const NOTED_TURN = 2
const STARTED_AT = 3
const HARD_SECONDS = 4
const REJECTS = 5
const KEEP_MS = 6
const LENGTH = 7
const ONCE = 8
const NUMBERS = 9

/**
 * Memory that the main thread writes and the lease thread reads, since a blocked thread sends no messages: a counter of
 * heartbeats, the time that was left until the earliest hard limit, and the handler that was called last. What is left
 * is measured by no time of day, which may be changed, and by no monotonic time, which starts at another value in each
 * thread.
 */
export class SharedHeartbeat {
  readonly buffer: SharedArrayBuffer
  readonly #numbers: Float64Array
  /** Fence, token and id of the handler, a line each: characters, because encoding them takes longer than writing them. */
  readonly #note: Uint16Array
  /** Earliest hard limit; used in the main thread. */
  #deadline = Number.POSITIVE_INFINITY
  /** The heartbeat that was seen last, and when; used in the lease thread. */
  #seen = { turn: 0, at: 0 }
  /** The heartbeat that the last look found, when that was, and how long there had been no other; used in the lease thread. */
  #looked = { turn: 0, at: 0, ms: 0 }

  constructor(buffer: SharedArrayBuffer = new SharedArrayBuffer(8 * NUMBERS + 2 * NOTE_LENGTH + 2)) {
    this.buffer = buffer
    this.#numbers = new Float64Array(buffer, 0, NUMBERS)
    this.#note = new Uint16Array(buffer, 8 * NUMBERS, NOTE_LENGTH + 1)
  }

  beat(): void {
    this.#numbers[LEFT_MS] = this.#deadline - performance.now()
    this.#numbers[TURN] = (this.#numbers[TURN] ?? 0) + 1
  }

  /** Sets the earliest hard limit, by `performance.now()`. */
  deadline(at: number): void {
    this.#deadline = at
    this.beat()
  }

  /** Whether a handler runs that has a hard limit. */
  get hasDeadline(): boolean {
    return this.#deadline !== Number.POSITIVE_INFINITY
  }

  /** Stores the details of the handler that is about to be called. */
  note(run: RunDetails): void {
    const numbers = this.#numbers
    const { fence, token, id } = run
    const length = fence.length + token.length + id.length + 2
    // A truncated id could name another job, so no details are stored, and those of the previous run are removed.
    numbers[LENGTH] = length > NOTE_LENGTH ? 0 : length
    if (length > NOTE_LENGTH) return
    this.#write(id, this.#write(token, this.#write(fence, 0)))
    numbers[NOTED_TURN] = numbers[TURN] ?? 0
    numbers[STARTED_AT] = run.startedAt
    numbers[HARD_SECONDS] = run.hardSeconds
    numbers[REJECTS] = run.rejects ? 1 : 0
    numbers[KEEP_MS] = run.keepMs
    numbers[ONCE] = run.once ? 1 : 0
  }

  /** Writes a line, and returns where the next one begins. */
  #write(line: string, from: number): number {
    const end = from + line.length
    for (let at = from; at < end; at++) this.#note[at] = line.charCodeAt(at - from)
    this.#note[end] = LINE_FEED
    return end + 1
  }

  /**
   * The details of the handler that was called last, and blocks the main thread: there was no heartbeat since, or it has reached
   * its own hard limit. Otherwise another one may block it. `now`: in milliseconds since the epoch.
   */
  lastRun(now: number): RunDetails | undefined {
    const [turn, , noted, startedAt = 0, hardSeconds = 0, rejects, keepMs = 0, length = 0, once] = this.#numbers
    if (length === 0 || (noted !== turn && startedAt + hardSeconds * 1_000 > now)) return undefined
    const text = String.fromCharCode(...this.#note.slice(0, length))
    const [fence, token, ...id] = text.split("\n")
    if (fence === undefined || token === undefined || id.length === 0) return undefined
    const flags = { rejects: rejects === 1, once: once === 1 }
    return { startedAt, hardSeconds, ...flags, keepMs, fence, token, id: id.join("\n") }
  }

  /**
   * How long the main thread has given no heartbeat although a handler runs, in milliseconds; 0 where it has given one
   * since the last call. The time between two calls counts as `max` at most: a process that was stopped is not blocked.
   * `now`: of `performance.now()`.
   */
  stillMs(now: number, max: number): number {
    const [turn = 0, leftMs = 0] = this.#numbers
    const { turn: before, at, ms } = this.#looked
    const isStill = turn === before && turn > 0 && Number.isFinite(leftMs)
    this.#looked = { turn, at: now, ms: isStill ? ms + Math.min(now - at, max) : 0 }
    return this.#looked.ms
  }

  /**
   * Whether the main thread has given no heartbeat since its earliest hard limit, and the grace is over. `now`: of
   * `performance.now()`.
   */
  isBlocked(now: number): boolean {
    const [turn = 0, leftMs = 0] = this.#numbers
    if (turn !== this.#seen.turn) this.#seen = { turn, at: now }
    return turn > 0 && now > this.#seen.at + leftMs + GRACE_MS && leftMs > -GRACE_MS / 2
  }
}

/** Longest token in shared memory, in bytes. A longer one is posted as a message. */
const TOKEN_BYTES = 1_024

/**
 * Memory with the token of the newest delivery, where that is alone in its worker. The lease thread reads it with its next look
 * at the leases: a message for each task of an idle worker would wake the thread each time.
 */
export class SharedToken {
  readonly buffer: SharedArrayBuffer
  /** A counter that rises before and after each write, so that it is odd during one, and the length of the token in bytes. */
  readonly #state: Int32Array
  readonly #bytes: Uint8Array
  readonly #draft = new Uint8Array(TOKEN_BYTES)
  #seen = 0

  constructor(buffer: SharedArrayBuffer = new SharedArrayBuffer(8 + TOKEN_BYTES)) {
    this.buffer = buffer
    this.#state = new Int32Array(buffer, 0, 2)
    this.#bytes = new Uint8Array(buffer, 8, TOKEN_BYTES)
  }

  /** Replaces the token. False where it is too long, and the one before stays. */
  write(token: string): boolean {
    const { read, written } = encoder.encodeInto(token, this.#draft)
    if (read < token.length) return false
    Atomics.add(this.#state, 0, 1)
    this.#bytes.set(this.#draft)
    this.#state[1] = written
    Atomics.add(this.#state, 0, 1)
    return true
  }

  /** Takes the token back: its delivery has ended. */
  clear(): void {
    this.write("")
  }

  /** The token, if it was written since the last call, and is neither taken back nor just being replaced. */
  read(): string | undefined {
    const count = Atomics.load(this.#state, 0)
    if (count === this.#seen || (count & 1) === 1) return undefined
    const bytes = this.#bytes.slice(0, this.#state[1])
    if (Atomics.load(this.#state, 0) !== count) return undefined
    this.#seen = count
    return bytes.length === 0 ? undefined : decoder.decode(bytes)
  }
}
