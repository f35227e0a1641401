/** A connection to the server: one channel publishes with confirms, the other takes and acknowledges. */
import { Socket } from "node:net"
import { setTimeout as sleep } from "node:timers/promises"
import type { Channel, ConfirmChannel } from "amqplib"
import { explainCode, type Link, type Reasons, TransportError } from "../../runtime/transport/mod.ts"
import type { AmqpSettings } from "./settings.ts"

export type Connect = typeof import("amqplib").connect

export interface AmqpLink extends Link {
  readonly publisher: ConfirmChannel
  readonly worker: Channel
  /** Why the server accepts no message at the moment, such as a full disk; `undefined` while it does. */
  readonly blocked: () => TransportError | undefined
  /** Calls the listener when the server stops accepting messages. Returns the function that ends this. */
  readonly onBlocked: (listener: (why: TransportError) => void) => () => void
  /** Declares a queue that does not exist yet. Resolves with its name on the server. */
  readonly declared: (queue: string) => Promise<string>
  /** Ids of messages that the server has returned, since they found no queue. */
  readonly returned: Set<string>
  /** Forgets that a queue exists, so that it is declared again before its next use. */
  readonly forget: (queue: string) => void
}

/** How long a closing connection waits for the server to receive what was sent, in milliseconds. */
const CLOSING_MS = 500

/** How long a new quorum queue usually needs until it survives the sudden end of its only server, in milliseconds. */
const DECLARED_MS = 1_000

const NOT_FOUND = 404

const codeOf = (error: unknown): unknown => (error instanceof Error && "code" in error ? error.code : undefined)

/** Reasons by AMQP's codes of errors. Errors of the connection itself have no code. */
const REASONS: Reasons = [
  [/^(311)$/, "too-large"],
  [/^(403|530)$/, "unauthorized"],
  [/^(402|404|406)$/, "invalid"],
  [/^(313|320|405|506|541)$/, "unavailable"],
]

export const explain = (error: unknown): TransportError => {
  // The library's error does not hold the server's reason.
  if (error instanceof Error && /ConnectionOpenOk.*ConnectionClose/.test(error.message)) {
    const why = "amqp: the virtual host in the path of the URL does not exist, or this user may not enter it"
    return new TransportError("unauthorized", why, { cause: error })
  }
  // When the handshake was refused, only the text contains the code.
  const said = error instanceof Error ? /\b(\d{3}) \(/.exec(error.message)?.[1] : undefined
  const code = codeOf(error)
  const isLost = error instanceof Error && /channel (closed|ended)|connection clos/i.test(error.message)
  return explainCode("amqp", error, isLost ? undefined : typeof code === "number" ? String(code) : said, REASONS)
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
    blocked = new TransportError("unavailable", `amqp: the server takes nothing in: ${reason}`)
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

  /** Declares a queue as Celery does, with an exchange of the same name that it is bound to. */
  const declare = async (queue: string): Promise<string> => {
    const own = nameOf(queue)
    const isThere = await onChannel((channel) => channel.checkQueue(own)).then(
      () => true,
      (error: unknown) => (codeOf(error) === NOT_FOUND ? false : Promise.reject(error)),
    )
    if (isThere) return own
    await onChannel(async (channel) => {
      await channel.assertQueue(own, { durable: true, arguments: queueArguments })
      await channel.assertExchange(own, "direct", { durable: true })
      await channel.bindQueue(own, own, own)
    })
    // A server without others may lose a new quorum queue with all messages that it has confirmed for it.
    if ("x-queue-type" in queueArguments) await sleep(DECLARED_MS)
    return own
  }

  const known = new Map<string, Promise<string>>()
  return {
    publisher,
    worker,
    returned,
    blocked: () => blocked,
    onBlocked: (listener) => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
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
