/**
 * Notifications of boards: `POSTED` and `REMOVAL`, announced to all processes that listen, the own one too. Best effort, as
 * every announcement: a call that waits for a job also looks by itself once a second.
 */
import { deferred } from "../async/deferred.ts"
import type { Connection } from "../connection/connection.ts"
import { generateId } from "../id.ts"
import { refuseInput } from "../options/refuse.ts"
import { beginning, decoder, encoder } from "../protocol/text.ts"
import { waitFor } from "../transport/timers.ts"

const BOARD_EVENTS = ["POSTED", "REMOVAL"] as const
type BoardEventName = (typeof BOARD_EVENTS)[number]

/** One notification, as listeners get it. */
interface BoardNotification {
  readonly event: BoardEventName
  readonly id: string
  readonly name: string
  readonly priority: string
}

/** A notification, with the sequence of the job, by which it stands in the order of its priority. */
interface Announced extends BoardNotification {
  readonly sequence: number
}

const TOPIC = "board"
/** Most announcements in a message, which has room for 66 KiB. */
const BATCH = 50
/** Most characters of a name that are announced. */
const NAME = 100

const isText = (value: unknown): value is string => typeof value === "string"

/** The announcements in a message. What cannot be read is left out. */
const read = (text: string): ReadonlyArray<Announced> => {
  let said: unknown
  try {
    said = JSON.parse(text)
  } catch {
    said = undefined
  }
  if (!Array.isArray(said)) return []
  return said.slice(2).flatMap((each: unknown) => {
    if (!Array.isArray(each)) return []
    const [given, id, name, priority, place] = each
    const event = BOARD_EVENTS.find((known) => known === given)
    // A process of an earlier version sends no sequence. A job that it posts is the last of its priority; one that it
    // restores may not be.
    const sequence = typeof place === "number" ? place : Number.POSITIVE_INFINITY
    return event !== undefined && isText(id) && isText(name) && isText(priority)
      ? [{ event, id, name, priority, sequence }]
      : []
  })
}

/**
 * The beginning of a message of this board, or of this board and this sender: the messages of all boards come on one
 * topic.
 */
const beginningOf = (...said: ReadonlyArray<string>): string => `${JSON.stringify(said).slice(0, -1)},`

/**
 * Gets a function that parses the announcements of a message, to be called only where they are needed, and whether the
 * message is this sender's own.
 */
type Listener = (announcements: () => ReadonlyArray<Announced>, isOwn: boolean) => void

export class BoardNotifications {
  readonly #connection: Connection
  readonly #signal: AbortSignal
  readonly #ofBoard: string
  readonly #own: string
  readonly #waiting: Array<ReadonlyArray<string | number>> = []
  #sending: Promise<void> | undefined
  #listening: Promise<void> | undefined
  readonly #waiters = new Set<() => void>()
  #heardCount = 0

  /** Listens until the signal fires. */
  constructor(connection: Connection, board: string, signal: AbortSignal) {
    this.#connection = connection
    this.#signal = signal
    this.#ofBoard = beginningOf(board)
    this.#own = beginningOf(board, generateId())
  }

  announce(event: BoardEventName, { id, name, priority, sequence }: Omit<Announced, "event">): void {
    this.#waiting.push([event, id, beginning(name, NAME), priority, sequence])
    // Sent in this turn: otherwise another process could consume the job, and announce that, before its posting was
    // announced.
    this.#sending ??= this.#send()
  }

  /** Sends the announcements that wait, together with those made meanwhile, in one message. Never fails. */
  async flush(): Promise<void> {
    await this.#sending
  }

  async #send(): Promise<void> {
    while (this.#waiting.length > 0) {
      const message = `${this.#own}${JSON.stringify(this.#waiting.splice(0, BATCH)).slice(1)}`
      await this.#connection.broadcast.send(TOPIC, encoder.encode(message)).catch(() => undefined)
    }
    // Reset here, and not when the promise settles, which is later: an announcement made in between would stay behind.
    this.#sending = undefined
  }

  /** Calls the listener from when the promise resolves; does nothing where it listens already. */
  listen(listener: Listener): Promise<void> {
    this.#listening ??= this.#connection.broadcast
      .listen(TOPIC, (payload) => this.#heard(payload, listener), this.#signal)
      .catch((cause: unknown) => {
        this.#listening = undefined
        throw cause
      })
    return this.#listening
  }

  /** How many messages about the board have come since it listens. */
  get heardCount(): number {
    return this.#heardCount
  }

  /**
   * Resolves once more than `since` messages have come, after `ms` milliseconds, when a signal fires, or when the board
   * stops listening. A wait leaves no listener behind, since a board on which nothing happens is waited for very often.
   */
  async wait(since: number, ms: number, more: ReadonlyArray<AbortSignal> = []): Promise<void> {
    const signals = [this.#signal, ...more]
    if (this.#heardCount > since || signals.some(({ aborted }) => aborted)) return
    const { promise, resolve } = deferred<void>()
    this.#waiters.add(resolve)
    const wake = () => resolve()
    for (const signal of signals) signal.addEventListener("abort", wake)
    await waitFor(promise, ms)
    for (const signal of signals) signal.removeEventListener("abort", wake)
    this.#waiters.delete(resolve)
  }

  #heard(payload: Uint8Array, listener: Listener): void {
    // The beginning is ASCII. The rest of a message that this process sent itself is seldom needed, and is decoded on demand.
    const beginning = decoder.decode(payload.subarray(0, this.#own.length))
    if (!beginning.startsWith(this.#ofBoard)) return
    listener(() => read(decoder.decode(payload)), beginning === this.#own)
    this.#heardCount++
    for (const wake of [...this.#waiters]) wake()
  }
}

export type BoardEvent = BoardNotification | { readonly event: "UNREADABLE"; readonly key: string }
export type BoardListener = (event: BoardEvent) => unknown

/** Most keys of unreadable entries that are remembered, so that each is reported once. */
const REPORTED = 1_000

/** The listeners of one board in this process. */
export class Listeners {
  readonly #listeners = new Map<string, Set<{ readonly listener: BoardListener }>>()
  readonly #reported = new Set<string>()

  /** Whether a listener was ever added. */
  get isUsed(): boolean {
    return this.#listeners.size > 0
  }

  /** Adds a listener; the returned function removes it. Fails with `invalid-input`. */
  add(event: BoardEvent["event"] | "*", listener: BoardListener): () => void {
    const known: ReadonlyArray<string> = ["POSTED", "REMOVAL", "UNREADABLE", "*"]
    if (!known.includes(event)) refuseInput("event", `must be one of ${known.join(", ")}`)
    if (typeof listener !== "function") refuseInput("listener", "must be a function")
    const listeners = this.#listeners.get(event) ?? new Set()
    // A function that is added twice is called twice, and each removal removes one of the two.
    const entry = { listener }
    this.#listeners.set(event, listeners.add(entry))
    return () => {
      listeners.delete(entry)
    }
  }

  notify(event: BoardEvent): void {
    for (const name of ["*", event.event]) {
      for (const { listener } of this.#listeners.get(name) ?? []) {
        // A listener that fails must neither end the board nor keep the other listeners from being called.
        void Promise.resolve()
          .then(() => listener({ ...event }))
          .catch(() => undefined)
      }
    }
  }

  /** Reports an entry that cannot be read to the listeners, once. */
  unreadable(key: string): void {
    if (this.#reported.has(key)) return
    if (this.#reported.size >= REPORTED) this.#reported.clear()
    this.#reported.add(key)
    this.notify({ event: "UNREADABLE", key })
  }
}
