/** A connection to the server: one channel publishes with confirms, the other takes and acknowledges. */
import { Socket } from "node:net"
import { setTimeout as sleep } from "node:timers/promises"
import type { Channel } from "amqplib"
import { explainCode, type Link, type Reasons, TransportError } from "../../runtime/transport/mod.ts"
import { readLongs } from "./longs.ts"
import type { Outgoing } from "./message.ts"
import type { AmqpSettings } from "./settings.ts"

export type Connect = typeof import("amqplib").connect

export interface AmqpLink extends Link {
  readonly worker: Channel
  /**
   * Publishes a message to an exchange that exists. Resolves once the server has confirmed it: with `false` if a message
   * with `mandatory`, which needs a `messageId`, has found no queue. Rejects with `TransportError`.
   */
  readonly publish: (exchange: string, routingKey: string, message: Outgoing) => Promise<boolean>
  /** Declares a queue that does not exist yet. Resolves with its name on the server. */
  readonly declared: (queue: string) => Promise<string>
  /** Forgets that a queue exists, so that it is declared again before its next use. */
  readonly forget: (queue: string) => void
  /** Declares an exchange if it does not exist. Without `form` it fails with `invalid` instead. */
  readonly exchange: (name: string, form?: ExchangeForm) => Promise<void>
}

/** How an exchange is declared. */
export interface ExchangeForm {
  readonly type: "direct" | "fanout" | "topic"
  readonly durable: boolean
}

/** How long a closing connection waits for the server to receive what was sent, in milliseconds. */
const CLOSING_MS = 500

/**
 * How long a new quorum queue is left alone, in milliseconds. The server saves its list of quorum queues about a second
 * after it has changed. If the only server is killed before, the queue and the messages that it has confirmed are lost.
 */
const DECLARED_MS = 1_200

const NOT_FOUND = 404

const UNKNOWN = { outcome: "unknown" } as const

const codeOf = (error: unknown): unknown => (error instanceof Error && "code" in error ? error.code : undefined)

/** Reasons by AMQP's codes of errors. Errors of the connection itself have no code. */
const REASONS: Reasons = [
  [/^(311)$/, "too-large"],
  [/^(403|530)$/, "unauthorized"],
  [/^(402|404|406)$/, "invalid"],
  [/^(313|320|405|506|541)$/, "unavailable"],
]

/** Whether an error of the library says that a channel or the connection has ended. */
const isLost = (error: unknown): boolean =>
  error instanceof Error && /channel (closed|ended)|connection clos/i.test(error.message)

export const explain = (error: unknown): TransportError => {
  // The library's error does not hold the server's reason.
  if (error instanceof Error && /ConnectionOpenOk.*ConnectionClose/.test(error.message)) {
    const why = "amqp: the virtual host in the path of the URL does not exist, or this user is not allowed to access it"
    return new TransportError("unauthorized", why, { cause: error })
  }
  // When the handshake was refused, only the text contains the code.
  const said = error instanceof Error ? /\b(\d{3}) \(/.exec(error.message)?.[1] : undefined
  const code = codeOf(error)
  return explainCode("amqp", error, isLost(error) ? undefined : typeof code === "number" ? String(code) : said, REASONS)
}

export const openLink = async (
  connect: Connect,
  { server, queueArguments, nameOf }: AmqpSettings,
  name: string,
  timeout: number,
  lost: (why: unknown) => void,
  signal: AbortSignal,
): Promise<AmqpLink> => {
  const model = await connect(server, { noDelay: true, timeout, clientProperties: { connection_name: name } })
  const socket: unknown = Reflect.get(model.connection, "stream")
  const cut = (): void => {
    if (socket instanceof Socket) socket.destroy()
  }
  const receive: unknown = Reflect.get(model.connection, "recvFrame")
  if (typeof receive === "function")
    Reflect.set(model.connection, "recvFrame", function (this: object): unknown {
      const rest: unknown = Reflect.get(this, "rest")
      if (rest instanceof Buffer) readLongs(rest)
      return Reflect.apply(receive, this, [])
    })
  // The same error comes with `close`.
  model.on("error", () => undefined)
  model.on("close", (why?: Error) => lost(why ?? new Error("the server closed the connection")))
  signal.addEventListener("abort", cut, { once: true })

  const watched = <C extends Channel>(channel: C): C => {
    channel.on("error", lost)
    // Channels close before their connection does: `setImmediate` lets the reason of the connection come first.
    channel.on("close", () => setImmediate(() => lost(new Error("channel closed by the server"))))
    return channel
  }
  const publisher = watched(await model.createConfirmChannel())
  const worker = watched(await model.createChannel())
  // One task for each consumer, since a consumer only has to notice that there is a task.
  await worker.prefetch(1)

  const returned = new Set<string>()
  publisher.on("return", ({ properties }) => void returned.add(String(properties.messageId)))

  let blocked: TransportError | undefined
  const listeners = new Set<(why: TransportError) => void>()
  model.on("blocked", (reason) => {
    blocked = new TransportError("unavailable", `amqp: the server accepts no messages: ${reason}`)
    for (const listener of listeners) listener(blocked)
  })
  model.on("unblocked", () => {
    blocked = undefined
  })

  /** Runs a function on a channel of its own, since the server closes a channel on which it refuses something. */
  const onChannel = async <T>(run: (channel: Channel) => Promise<T>): Promise<T> => {
    const channel = await model.createChannel()
    let isClosed = false
    channel.on("error", () => undefined)
    channel.on("close", () => {
      isClosed = true
    })
    try {
      return await run(channel)
    } finally {
      if (!isClosed) await channel.close().catch(() => undefined)
    }
  }

  const publish: AmqpLink["publish"] = (exchange, routingKey, { content, options }) =>
    new Promise((resolve, reject) => {
      if (blocked !== undefined) throw blocked
      const stop = (why: TransportError): void => reject(new TransportError("unavailable", why.message, UNKNOWN))
      listeners.add(stop)
      try {
        publisher.publish(exchange, routingKey, content, options, (error) => {
          listeners.delete(stop)
          // The server returns a message that finds no queue before it confirms it.
          const isReturned = returned.delete(options.messageId ?? "")
          if (error) reject(new TransportError("unavailable", "amqp: not confirmed", UNKNOWN))
          else resolve(!isReturned)
        })
      } catch (cause) {
        // The message has a header that AMQP cannot hold, such as one with a key of more than 255 bytes.
        listeners.delete(stop)
        throw isLost(cause) ? cause : new TransportError("invalid", `amqp: ${String(cause)}`, { cause })
      }
    })

  const isThere = (check: (channel: Channel) => Promise<unknown>): Promise<boolean> =>
    onChannel(check).then(
      () => true,
      (error: unknown) => (codeOf(error) === NOT_FOUND ? false : Promise.reject(error)),
    )

  /** Declares a queue as Celery does, with an exchange of the same name that it is bound to. */
  const declare = async (queue: string): Promise<string> => {
    const own = nameOf(queue)
    if (await isThere((channel) => channel.checkQueue(own))) return own
    await onChannel(async (channel) => {
      await channel.assertQueue(own, { durable: true, arguments: queueArguments })
      await channel.assertExchange(own, "direct", { durable: true })
      await channel.bindQueue(own, own, own)
    })
    if ("x-queue-type" in queueArguments) await sleep(DECLARED_MS)
    return own
  }

  const known = new Map<string, Promise<string>>()
  const exchanges = new Set<string>()
  return {
    worker,
    publish,
    declared: (queue) => {
      let found = known.get(queue)
      if (found === undefined) {
        found = declare(queue)
        known.set(queue, found)
        found.catch(() => known.delete(queue))
      }
      return found
    },
    forget: (queue) => void known.delete(queue),
    exchange: async (name, form) => {
      if (exchanges.has(name)) return
      if (!(await isThere((channel) => channel.checkExchange(name)))) {
        if (form === undefined) throw new TransportError("invalid", `amqp: there is no exchange ${name}`)
        await onChannel((channel) => channel.assertExchange(name, form.type, { durable: form.durable }))
      }
      exchanges.add(name)
    },
    close: async () => {
      let timer: ReturnType<typeof setTimeout> | undefined
      const late = new Promise<void>((resolve) => {
        timer = setTimeout(resolve, CLOSING_MS)
      })
      await Promise.race([(async () => model.close())().catch(() => undefined), late])
      clearTimeout(timer)
      cut()
    },
  }
}
