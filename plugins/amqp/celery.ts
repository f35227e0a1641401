/**
 * Celery's messages beside tasks, over RabbitMQ: commands, their replies, events, and results for a client that waits. They
 * go over one connection. When it is lost, another one is opened and the subscriptions are made again.
 */
import { randomUUID } from "node:crypto"
import { setTimeout as sleep } from "node:timers/promises"
import type { Message as AmqpMessage } from "amqplib"
import type { Message } from "../../runtime/protocol/message.ts"
import {
  type CeleryConnectOptions,
  type CeleryMessages,
  type CeleryPlugin,
  heardUntil,
} from "../../runtime/transport/celery.ts"
import { TransportError } from "../../runtime/transport/mod.ts"
import { startDeadline, within } from "../../runtime/transport/timers.ts"
import { loadAmqplib } from "./library.ts"
import { type AmqpLink, type Connect, type ExchangeForm, explain, openLink } from "./link.ts"
import { fromAmqp, taskMessage, toAmqp } from "./message.ts"
import { type AmqpSettings, settingsOf } from "./settings.ts"

/** Exchanges as Celery declares them: of events, of commands, and of replies to commands. */
const EXCHANGES: Readonly<Record<string, ExchangeForm>> = {
  celeryev: { type: "topic", durable: true },
  "celery.pidbox": { type: "fanout", durable: false },
  "reply.celery.pidbox": { type: "direct", durable: false },
}

/** How long a message stays in a queue that this process reads, at most, in milliseconds. */
const WAIT_MS = 60_000

/** Longest time between two tries to connect, in milliseconds. */
const PAUSE_MS = 2_000

type Listener = (message: Message) => void

/** A subscription. It is made again on the next connection. */
interface Heard {
  readonly exchange: string
  readonly form: ExchangeForm | undefined
  readonly routingKey: string
  /** Name of the queue. Empty: the server generates one. */
  readonly queue: string
  readonly listener: Listener
  /** Identifies the consumer on the current connection. */
  tag?: string
}

class AmqpMessages implements CeleryMessages {
  readonly #connect: Connect
  readonly #settings: AmqpSettings
  readonly #options: CeleryConnectOptions
  readonly #heard = new Set<Heard>()
  readonly #closing = new AbortController()
  /** The current connection, or the one that is being opened. */
  #link: Promise<AmqpLink>

  constructor(connect: Connect, settings: AmqpSettings, options: CeleryConnectOptions) {
    this.#connect = connect
    this.#settings = settings
    this.#options = options
    this.#link = this.#open()
  }

  /** Resolves once the first connection is open. */
  async start(): Promise<this> {
    await this.#call(() => Promise.resolve())
    return this
  }

  async #open(): Promise<AmqpLink> {
    const { name, timeout } = this.#options
    const failed = new AbortController()
    const fail = (): void => failed.abort()
    const cancel = startDeadline(timeout, fail)
    this.#closing.signal.addEventListener("abort", fail)
    let isLost = false
    let isOpen = false
    const lost = (): void => {
      if (isOpen && !isLost) this.#reopen()
      isLost = true
    }
    try {
      const link = await openLink(this.#connect, this.#settings, name, timeout, lost, failed.signal)
      for (const each of this.#heard) await this.#consume(link, each)
      isOpen = !isLost && !failed.signal.aborted
      if (!isOpen) throw new TransportError("unavailable", "amqp: the connection was lost")
      return link
    } finally {
      cancel()
      this.#closing.signal.removeEventListener("abort", fail)
      if (!isOpen) fail()
    }
  }

  #reopen(): void {
    if (this.#closing.signal.aborted) return
    this.#link = this.#openAgain()
    this.#link.catch(() => undefined)
  }

  async #openAgain(): Promise<AmqpLink> {
    for (let tries = 1; ; tries++) {
      await sleep(Math.min(PAUSE_MS, 50 * 2 ** tries), undefined, { ref: false, signal: this.#closing.signal })
      try {
        return await this.#open()
      } catch {
        // The server may be back at the next try.
      }
    }
  }

  /** Runs a function with the connection, also with one that is still being opened. Fails after `options.timeout`. */
  async #call<T>(run: (link: AmqpLink) => Promise<T>): Promise<T> {
    if (this.#closing.signal.aborted) throw new TransportError("closed", "amqp: this connection was closed")
    const { timeout } = this.#options
    const late = () => new TransportError("unavailable", `amqp: no answer within ${timeout} ms`, { outcome: "unknown" })
    try {
      return await within(timeout, (async () => run(await this.#link))(), late)
    } catch (cause) {
      throw cause instanceof TransportError ? cause : explain(cause)
    }
  }

  priorityOf(given: number | null): number {
    return Math.min(Math.max(Math.trunc(given ?? 0), 0), 9)
  }

  async submit(queue: string, message: Message): Promise<void> {
    await this.#call(async (link) => {
      const name = await link.declared(queue)
      if (await link.publish("", name, taskMessage(message, randomUUID()))) return
      link.forget(queue)
      throw new TransportError("unavailable", `amqp: the queue ${name} was deleted`)
    })
  }

  async broadcast(exchange: string, routingKey: string, message: Message): Promise<void> {
    await this.#call(async (link) => {
      const name = this.#settings.nameOf(exchange)
      await link.exchange(name, EXCHANGES[exchange])
      await link.publish(name, routingKey, toAmqp(message))
    })
  }

  listen(exchange: string, listener: Listener, signal: AbortSignal, routingKey = "#"): Promise<void> {
    const [name, form] = [this.#settings.nameOf(exchange), EXCHANGES[exchange]]
    return this.#hear({ exchange: name, form, routingKey, queue: "", listener }, signal)
  }

  async send(exchange: string, routingKey: string, message: Message): Promise<void> {
    await this.#call(async (link) => {
      if (exchange !== "") await link.exchange(exchange, EXCHANGES[exchange])
      await link.publish(exchange, routingKey, toAmqp(message))
    })
  }

  receive(
    { exchange, routingKey, queue }: { readonly exchange: string; readonly routingKey: string; readonly queue: string },
    listener: Listener,
    signal: AbortSignal,
  ): Promise<void> {
    return this.#hear({ exchange, form: EXCHANGES[exchange], routingKey, queue, listener }, signal)
  }

  async #hear({ listener, ...binding }: Heard, signal: AbortSignal): Promise<void> {
    const heard: Heard = { ...binding, listener: heardUntil(listener, signal) }
    await this.#call((link) => this.#consume(link, heard))
    this.#heard.add(heard)
    const stop = (): void => {
      this.#heard.delete(heard)
      // The server removes the queue with its only consumer.
      void this.#call((link) => link.worker.cancel(heard.tag ?? "")).catch(() => undefined)
    }
    if (signal.aborted) stop()
    else signal.addEventListener("abort", stop, { once: true })
  }

  async #consume(link: AmqpLink, heard: Heard): Promise<void> {
    const { worker } = link
    const options = { exclusive: true, autoDelete: true, durable: false, messageTtl: WAIT_MS }
    const { queue } = await worker.assertQueue(heard.queue, options)
    // The exchange without a name needs no binding.
    if (heard.exchange !== "") {
      await link.exchange(heard.exchange, heard.form)
      await worker.bindQueue(queue, heard.exchange, heard.routingKey)
    }
    const received = (message: AmqpMessage | null): void => {
      // The queue was deleted on the server. It is declared again on the next connection.
      if (message === null) void link.close()
      else heard.listener(fromAmqp(message).message)
    }
    heard.tag = (await worker.consume(queue, received, { noAck: true })).consumerTag
  }

  async close(): Promise<void> {
    this.#closing.abort()
    const link = await this.#link.catch(() => undefined)
    await link?.close()
  }
}

export const celery: CeleryPlugin = {
  messages: async (url, options) => {
    const settings = settingsOf(url, options)
    const { connect } = await loadAmqplib()
    return new AmqpMessages(connect, settings, options).start()
  },
}
