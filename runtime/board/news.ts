/**
 * Notifications of boards: `POSTED` and `REMOVAL`, announced to all processes that listen, the own one too. Best effort, as
 * every announcement: a call that waits for a job also looks by itself once a second.
 */
import { waitFor } from "../async/timers.ts"
import type { Connection } from "../connection/connection.ts"
import { generateId } from "../id.ts"

export const BOARD_EVENTS = ["POSTED", "REMOVAL"] as const
export type BoardEventName = (typeof BOARD_EVENTS)[number]

/** What a listener is told. */
export interface BoardNotification {
  readonly event: BoardEventName
  readonly id: string
  readonly name: string
  readonly priority: string
}

const TOPIC = "board"
/** Most announcements in a message, which has room for 66 KiB. */
const BATCH = 50
/** Most characters of a name that are announced. */
const NAME = 100

const encoder = new TextEncoder()
const decoder = new TextDecoder()

const isText = (value: unknown): value is string => typeof value === "string"

/** The announcements in a message. What cannot be read is left out. */
const read = (text: string): ReadonlyArray<BoardNotification> => {
  let said: unknown
  try {
    said = JSON.parse(text)
  } catch {
    said = undefined
  }
  if (!Array.isArray(said)) return []
  return said.slice(2).flatMap((each: unknown) => {
    if (!Array.isArray(each)) return []
    const [given, id, name, priority] = each
    const event = BOARD_EVENTS.find((known) => known === given)
    return event !== undefined && isText(id) && isText(name) && isText(priority) ? [{ event, id, name, priority }] : []
  })
}

/** How a message of this board begins, and one of this sender: the messages of all boards come on one topic. */
const beginningOf = (...said: ReadonlyArray<string>): string => `${JSON.stringify(said).slice(0, -1)},`

/** Is given the announcements of a message to be read where they are needed, and whether the message is this sender's own. */
type Listener = (told: () => ReadonlyArray<BoardNotification>, isOwn: boolean) => void

export class BoardNews {
  readonly #connection: Connection
  readonly #signal: AbortSignal
  readonly #ofBoard: string
  readonly #own: string
  readonly #waiting: Array<ReadonlyArray<string>> = []
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

  announce(event: BoardEventName, { id, name, priority }: Omit<BoardNotification, "event">): void {
    this.#waiting.push([event, id, name.slice(0, NAME), priority])
    // In this turn: a process that is quick to consume a job must not be heard before the one that has posted it.
    this.#sending ??= this.#send()
  }

  /** Sends what was announced, and what is announced meanwhile in one message; never fails. */
  async flush(): Promise<void> {
    await this.#sending
  }

  async #send(): Promise<void> {
    while (this.#waiting.length > 0) {
      const message = `${this.#own}${JSON.stringify(this.#waiting.splice(0, BATCH)).slice(1)}`
      await this.#connection.broadcast.send(TOPIC, encoder.encode(message)).catch(() => undefined)
    }
    // Not once the promise has settled, which is later: what is announced until then would stay behind.
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

  /** How often something was heard about the board, once it listens. */
  get heardCount(): number {
    return this.#heardCount
  }

  /**
   * Resolves once something was heard after the count was `since`, after `ms` milliseconds, when a signal fires, or when the
   * board stops listening. A wait leaves nothing behind, since a board on which nothing happens is waited for very often.
   */
  async wait(since: number, ms: number, more: ReadonlyArray<AbortSignal> = []): Promise<void> {
    const signals = [this.#signal, ...more]
    if (this.#heardCount > since || signals.some(({ aborted }) => aborted)) return
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#waiters.add(resolve)
    const wake = () => resolve()
    for (const signal of signals) signal.addEventListener("abort", wake)
    await waitFor(promise, ms)
    for (const signal of signals) signal.removeEventListener("abort", wake)
    this.#waiters.delete(resolve)
  }

  #heard(payload: Uint8Array, listener: Listener): void {
    const text = decoder.decode(payload)
    if (!text.startsWith(this.#ofBoard)) return
    listener(() => read(text), text.startsWith(this.#own))
    this.#heardCount++
    for (const wake of [...this.#waiters]) wake()
  }
}
