/**
 * Questions and answers over one wildcard subscription: no subscription, timer or promise per message. One timer sweeps
 * those who waited too long.
 *
 * The client's own `request` and `js.publish` take a promise, a timer and a map entry per message; this is two to three
 * times as fast (nats 2.29.3).
 */
import { createInbox, type Msg, type NatsConnection, type Subscription } from "nats"
import type { TransportError } from "../../../runtime/transport/mod.ts"
import { noResponders, notAllowed, timedOut } from "./answers.ts"

/** Who waits for the answers to one or more consecutive tokens. */
export interface Requester {
  /** Where question number `index` was sent. */
  subjectOf(index: number): string
  /** Longest wait, in milliseconds. */
  readonly timeout: number
  /** An answer to the question number `index`. Returns whether it was the last one. */
  answered(index: number, message: Msg): boolean
  failed(index: number, error: TransportError): void
}

/** The questions of one asker. Their tokens are neighbours in one block. */
interface Pending {
  readonly requester: Requester
  readonly until: number
  /** Which questions have had their last answer. */
  readonly done: Uint8Array
  left: number
}

/** Questions that one asker may have at a time. */
export const MAX_REQUESTS = 256

/** How often late answers are looked for: a timeout may be this much late. */
const SWEEP_MS = 250

/** Status of an empty message that the server sends when nobody listens on a subject. */
const isNoResponders = (message: Msg): boolean => message.data.length === 0 && message.headers?.code === 503

export class Inbox {
  readonly #prefix: string
  readonly #subscription: Subscription
  /** By block: the token of a question is its block and its number in there. */
  readonly #pending = new Map<number, Pending>()
  #blocks = 0
  #timer: ReturnType<typeof setInterval> | undefined

  constructor(connection: NatsConnection) {
    this.#prefix = `${createInbox()}.`
    this.#subscription = connection.subscribe(`${this.#prefix}*`, {
      callback: (error, message) => {
        if (error === null) this.#arrived(message)
      },
    })
  }

  /** Registers up to {@link MAX_REQUESTS} questions and returns the token of the first; the others follow it. */
  register(requester: Requester, count = 1): number {
    const block = ++this.#blocks
    this.#pending.set(block, {
      requester,
      until: Date.now() + requester.timeout,
      done: new Uint8Array(count),
      left: count,
    })
    this.#watch()
    return block * MAX_REQUESTS
  }

  /** Where the answer to a token goes. */
  reply(token: number): string {
    return this.#prefix + token.toString(36)
  }

  /** Takes a question back: its answer will be ignored. */
  cancel(token: number): void {
    const block = Math.floor(token / MAX_REQUESTS)
    const pending = this.#pending.get(block)
    if (pending !== undefined) this.#finish(block, pending, token % MAX_REQUESTS)
  }

  /** Fails all who wait, with one and the same error: thousands of stack traces are worth nothing. */
  failAll(error: TransportError): void {
    for (const [block, pending] of [...this.#pending]) this.#fail(block, pending, () => error)
  }

  /** Fails those whose questions to this subject the server does not allow. */
  failSubject(subject: string): void {
    const error = notAllowed(subject)
    for (const [block, pending] of [...this.#pending]) {
      this.#fail(block, pending, (index) => (pending.requester.subjectOf(index) === subject ? error : undefined))
    }
  }

  /** Resolves when nobody waits any more, at the latest with the last timeout. */
  async settled(): Promise<void> {
    while (this.#pending.size > 0) await new Promise((resolve) => setTimeout(resolve, 5))
  }

  close(): void {
    clearInterval(this.#timer)
    this.#subscription.unsubscribe()
  }

  #arrived(message: Msg): void {
    const token = Number.parseInt(message.subject.slice(this.#prefix.length), 36)
    const block = Math.floor(token / MAX_REQUESTS)
    const index = token - block * MAX_REQUESTS
    const pending = this.#pending.get(block)
    if (pending === undefined || pending.done[index] !== 0) return
    if (isNoResponders(message)) {
      this.#finish(block, pending, index)
      pending.requester.failed(index, noResponders(pending.requester.subjectOf(index)))
    } else if (pending.requester.answered(index, message)) this.#finish(block, pending, index)
  }

  #finish(block: number, pending: Pending, index: number): void {
    if (pending.done[index] !== 0) return
    pending.done[index] = 1
    if (--pending.left === 0) this.#pending.delete(block)
  }

  /** Fails those of an asker's questions for which there is an error. */
  #fail(block: number, pending: Pending, errorOf: (index: number) => TransportError | undefined): void {
    for (let index = 0; index < pending.done.length; index++) {
      if (pending.done[index] !== 0) continue
      const error = errorOf(index)
      if (error === undefined) continue
      this.#finish(block, pending, index)
      pending.requester.failed(index, error)
    }
  }

  #watch(): void {
    this.#timer ??= setInterval(() => {
      const now = Date.now()
      for (const [block, pending] of [...this.#pending]) {
        if (pending.until > now) continue
        let error: TransportError | undefined
        this.#fail(block, pending, (index) => {
          error ??= timedOut(pending.requester.subjectOf(index), pending.requester.timeout)
          return error
        })
      }
      if (this.#pending.size > 0) return
      clearInterval(this.#timer)
      this.#timer = undefined
    }, SWEEP_MS)
    // Who awaits the answer keeps the process alive.
    this.#timer.unref?.()
  }
}
