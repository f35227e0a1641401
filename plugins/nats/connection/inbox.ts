/**
 * Requests and replies over one wildcard subscription, without a subscription, timer or promise per message. One timer
 * fails the requests that have waited too long.
 *
 * The client's own `request` and `js.publish` take a promise, a timer and a map entry per message; this is two to three
 * times as fast (nats 2.29.3).
 */
import { createInbox, type Msg, type NatsConnection, type Subscription } from "nats"
import type { TransportError } from "../../../runtime/transport/mod.ts"
import { sleep } from "../../../runtime/transport/timers.ts"
import { noResponders, notAllowed, timedOut } from "./answers.ts"
import { numberFrom } from "./digits.ts"
import { statusOf } from "./header-block.ts"

/** The sender of one or more requests, which have consecutive tokens. */
export interface Requester {
  /** Subject of the request number `index`. */
  subjectOf(index: number): string
  /** Longest wait, in milliseconds. */
  readonly timeout: number
  /** Called for a reply to the request number `index`. Returns whether it was the last reply to it. */
  answered(index: number, message: Msg): boolean
  failed(index: number, error: TransportError): void
}

/** The requests of one requester. Their tokens are consecutive numbers of one block. */
interface Pending {
  /** Given up with the last reply: JavaScriptCore keeps what a `Map` has held until it next collects all garbage. */
  requester: Requester | undefined
  /** By the monotonic clock: the wait does not change with the time of day. */
  readonly until: number
  /** 1 for each request that has had its last reply. */
  readonly done: Uint8Array
  left: number
  /** Whether it is overdue, but this thread may have been blocked while its reply arrived. */
  isSpared: boolean
}

/** Most requests that are registered together. */
export const MAX_REQUESTS = 256

/** How often overdue requests are looked for: a timeout may be this much late. */
const SWEEP_MS = 250

/** Whether the server sent this empty message because the subject has no subscriber. */
const isNoResponders = (message: Msg): boolean => message.data.length === 0 && statusOf(message) === 503

/** The part of a connection that an inbox needs. */
interface Subscriber {
  subscribe(...given: Parameters<NatsConnection["subscribe"]>): Pick<Subscription, "unsubscribe">
}

export class Inbox {
  readonly #prefix: string
  readonly #subscription: Pick<Subscription, "unsubscribe">
  /** By block: a token is the number of its block times {@link MAX_REQUESTS}, plus the number of the request. */
  readonly #pending = new Map<number, Pending>()
  #blocks = 0
  #timer: ReturnType<typeof setInterval> | undefined

  constructor(connection: Subscriber) {
    this.#prefix = `${createInbox()}.`
    this.#subscription = connection.subscribe(`${this.#prefix}*`, {
      callback: (error, message) => {
        if (error === null) this.#arrived(message)
        // Without this subscription no request is ever answered.
        else this.failAll(notAllowed("subscribe", `${this.#prefix}*`))
      },
    })
  }

  /** Registers up to {@link MAX_REQUESTS} requests and returns the token of the first; the others follow it. */
  register(requester: Requester, count = 1): number {
    const block = ++this.#blocks
    this.#pending.set(block, {
      requester,
      until: performance.now() + requester.timeout,
      done: new Uint8Array(count),
      left: count,
      isSpared: false,
    })
    this.#watch()
    return block * MAX_REQUESTS
  }

  /** The reply subject for a token. */
  reply(token: number): string {
    return `${this.#prefix}${token}`
  }

  /** Cancels a request: a reply to it will be ignored. */
  cancel(token: number): void {
    const block = Math.floor(token / MAX_REQUESTS)
    const pending = this.#pending.get(block)
    if (pending !== undefined) this.#finish(block, pending, token % MAX_REQUESTS)
  }

  /** Fails all requests with one error, because thousands of stack traces cost time and tell no more. */
  failAll(error: TransportError): void {
    for (const [block, pending] of [...this.#pending]) this.#fail(block, pending, () => error)
  }

  /** Fails the requests to a subject that the server does not allow. */
  failSubject(subject: string): void {
    const error = notAllowed("publish", subject)
    for (const [block, pending] of [...this.#pending]) {
      this.#fail(block, pending, (index, requester) => (requester.subjectOf(index) === subject ? error : undefined))
    }
  }

  /** Resolves when no request is open, at the latest after the last timeout. */
  async settled(): Promise<void> {
    while (this.#pending.size > 0) await sleep(5)
  }

  close(): void {
    clearInterval(this.#timer)
    this.#subscription.unsubscribe()
  }

  #arrived(message: Msg): void {
    const token = numberFrom(message.subject, this.#prefix.length)
    const block = Math.floor(token / MAX_REQUESTS)
    const index = token - block * MAX_REQUESTS
    const pending = this.#pending.get(block)
    const requester = pending?.requester
    if (pending === undefined || requester === undefined || pending.done[index] !== 0) return
    if (isNoResponders(message)) {
      this.#finish(block, pending, index)
      requester.failed(index, noResponders(requester.subjectOf(index)))
    } else if (requester.answered(index, message)) this.#finish(block, pending, index)
  }

  #finish(block: number, pending: Pending, index: number): void {
    if (pending.done[index] !== 0) return
    pending.done[index] = 1
    if (--pending.left > 0) return
    this.#pending.delete(block)
    pending.requester = undefined
  }

  /** Fails those open requests of a block for which `errorOf` returns an error. */
  #fail(
    block: number,
    pending: Pending,
    errorOf: (index: number, requester: Requester) => TransportError | undefined,
  ): void {
    const { requester } = pending
    if (requester === undefined) return
    for (let index = 0; index < pending.done.length; index++) {
      if (pending.done[index] !== 0) continue
      const error = errorOf(index, requester)
      if (error === undefined) continue
      this.#finish(block, pending, index)
      requester.failed(index, error)
    }
  }

  #watch(): void {
    if (this.#timer !== undefined) return
    let before = performance.now()
    this.#timer = setInterval(() => {
      const now = performance.now()
      const wasBlocked = now - before >= 2 * SWEEP_MS
      before = now
      for (const [block, pending] of [...this.#pending]) {
        if (pending.until > now) continue
        // Replies that have arrived while this thread was blocked are read before the timer fires again.
        if (wasBlocked && !pending.isSpared) {
          pending.isSpared = true
          continue
        }
        let error: TransportError | undefined
        this.#fail(block, pending, (index, requester) => {
          error ??= timedOut(requester.subjectOf(index), requester.timeout)
          return error
        })
      }
      if (this.#pending.size > 0) return
      clearInterval(this.#timer)
      this.#timer = undefined
    }, SWEEP_MS)
    // The timer does not keep the process alive; the caller that awaits a reply does.
    this.#timer.unref?.()
  }
}
