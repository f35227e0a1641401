/** Sends commands of Celery's remote control, and collects the replies of the workers. */
import * as Result from "effect/Result"
import { deferred } from "../async/deferred.ts"
import { refuseInput } from "../options/refuse.ts"
import {
  type ControlReply,
  controlMessage,
  PIDBOX,
  parseReply,
  REPLY_PIDBOX,
  replyQueue,
} from "../protocol/celery-control.ts"
import type { CeleryMessages } from "../transport/celery.ts"

export class CeleryCommands {
  readonly #messages: Pick<CeleryMessages, "receive" | "broadcast">
  readonly #signal: AbortSignal
  /** Routing key of the queue for replies, which exists until the signal fires. */
  readonly #oid = crypto.randomUUID()
  /** Receivers of replies, by the ticket of their command. */
  readonly #asked = new Map<string, (reply: ControlReply) => void>()
  #receiving: Promise<void> | undefined
  #clock = 0

  constructor(messages: Pick<CeleryMessages, "receive" | "broadcast">, signal: AbortSignal) {
    this.#messages = messages
    this.#signal = signal
  }

  /**
   * Sends a command to all workers, or to those in `destination`. Resolves with the replies that come within `waitMs`, or once each
   * worker in `destination` has replied. Fails with `CallboardError` (`invalid-input`) and `TransportError`.
   */
  async ask(
    method: string,
    given: Readonly<Record<string, unknown>>,
    destination: ReadonlyArray<string> | null,
    waitMs: number,
  ): Promise<ReadonlyArray<ControlReply>> {
    this.#receiving ??= this.#messages.receive(
      { exchange: REPLY_PIDBOX, routingKey: this.#oid, queue: replyQueue(this.#oid) },
      (message) => {
        const parsed = parseReply(message)
        if (Result.isFailure(parsed)) return
        const receive = this.#asked.get(parsed.success.ticket ?? "")
        for (const reply of parsed.success.replies) receive?.(reply)
      },
      this.#signal,
    )
    await this.#receiving.catch((cause: unknown) => {
      this.#receiving = undefined
      throw cause
    })
    const ticket = crypto.randomUUID()
    const replies: Array<ControlReply> = []
    const { promise, resolve } = deferred<void>()
    const timer = setTimeout(resolve, waitMs)
    this.#asked.set(ticket, (reply) => {
      replies.push(reply)
      if (destination !== null && replies.length >= destination.length) resolve()
    })
    try {
      const reply = { exchange: REPLY_PIDBOX, routingKey: this.#oid, ticket }
      const clock = ++this.#clock
      const asked = { method, arguments: given, destination, pattern: null, matcher: null, reply, clock }
      const message = Result.getOrElse(controlMessage(asked), ({ message: why }) => refuseInput("arguments", why))
      await this.#messages.broadcast(PIDBOX, "", message)
      await promise
      return replies
    } finally {
      clearTimeout(timer)
      this.#asked.delete(ticket)
    }
  }
}
