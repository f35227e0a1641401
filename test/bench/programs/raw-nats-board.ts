/**
 * JetStream without our runtime and without the transport: the streams, consumers and broker operations of the nats
 * transport, through the same client library. Per job: one publish into a work queue, one pull delivery, one terminal
 * record (compare-and-set over a wildcard, time to live, republished), one ack.
 */
import { connect, createInbox, MsgHdrsImpl, type NatsConnection, nanos } from "nats"

const encoder = new TextEncoder()
const decoder = new TextDecoder()

export const LEVELS = ["10", "7", "4", "0"] as const

/** One header block that is refilled for each message: the client reads it before `publish` returns. */
class HeaderBlock extends MsgHdrsImpl {
  text = ""
  override encode(): Uint8Array {
    return encoder.encode(this.text)
  }
}

/** Publishes correlated by one wildcard inbox; a promise per message, no timer, no stack. */
class RawPublisher {
  readonly #connection: NatsConnection
  readonly #inbox = createInbox()
  readonly #waiting = new Map<string, (ack: string) => void>()
  readonly #headers = new HeaderBlock()
  #next = 0

  constructor(connection: NatsConnection) {
    this.#connection = connection
    connection.subscribe(`${this.#inbox}.*`, {
      callback: (_error, message) => {
        const token = message.subject.slice(this.#inbox.length + 1)
        const resolve = this.#waiting.get(token)
        if (resolve === undefined) return
        this.#waiting.delete(token)
        resolve(decoder.decode(message.data))
      },
    })
  }

  async publish(subject: string, headers: string, payload: Uint8Array): Promise<void> {
    const ack = await new Promise<string>((resolve) => {
      const token = (this.#next++).toString(36)
      this.#waiting.set(token, resolve)
      this.#headers.text = `NATS/1.0\r\n${headers}\r\n`
      this.#connection.publish(subject, payload, { reply: `${this.#inbox}.${token}`, headers: this.#headers })
    })
    stored(ack)
  }
}

const stored = (ack: string): void => {
  if (ack.includes('"error"')) throw new Error(ack)
}

export interface RawNatsBoard {
  readonly connection: NatsConnection
  readonly ns: string
  /** Stores a task of 256 bytes. */
  submit(id: string): Promise<void>
  /** Stores the terminal record of a task. */
  settle(id: string): Promise<void>
  /** Asks for tasks of a level, which come to the inbox. */
  pull(level: string, request: { batch: number; no_wait?: true; expires?: number }, inbox: string): void
}

export const openRawNats = async (url: string): Promise<RawNatsBoard> => {
  const connection = await connect({ servers: url, noAsyncTraces: true, name: "callboard-raw" })
  const ns = `raw${Date.now().toString(36)}`
  const api = async (subject: string, body: unknown): Promise<void> => {
    const answer = await connection.request(`$JS.API.${subject}`, JSON.stringify(body), { timeout: 5_000 })
    stored(answer.string())
  }
  await api(`STREAM.CREATE.${ns}_q`, {
    name: `${ns}_q`,
    subjects: [`${ns}.j.>`, `${ns}.s.>`],
    retention: "workqueue",
    storage: "file",
    allow_direct: true,
    allow_msg_ttl: true,
    allow_msg_schedules: true,
  })
  await api(`STREAM.CREATE.${ns}_s`, {
    name: `${ns}_s`,
    subjects: [`${ns}.t.>`],
    storage: "file",
    max_msgs_per_subject: 1,
    allow_direct: true,
    allow_msg_ttl: true,
    republish: { src: `${ns}.t.>`, dest: `${ns}.ev.t.>` },
  })
  for (const level of LEVELS) {
    await api(`CONSUMER.CREATE.${ns}_q.default-${level}`, {
      stream_name: `${ns}_q`,
      config: {
        durable_name: `default-${level}`,
        name: `default-${level}`,
        filter_subject: `${ns}.j.default.${level}._.*.*`,
        ack_policy: "explicit",
        ack_wait: nanos(30_000),
        max_deliver: -1,
        max_ack_pending: -1,
      },
    })
  }
  const publisher = new RawPublisher(connection)
  const body = new Uint8Array(256).fill(120)
  return {
    connection,
    ns,
    submit: (id) => publisher.publish(`${ns}.j.default.4._.n.${id}`, `Nats-Msg-Id: ${id}/1/0\r\n`, body),
    settle: (id) => {
      const headers =
        `Nats-Expected-Last-Subject-Sequence: 0\r\n` +
        `Nats-Expected-Last-Subject-Sequence-Subject: ${ns}.t.*.${id}.*\r\nNats-TTL: 90000\r\n`
      return publisher.publish(`${ns}.t.succeeded.${id}.default`, headers, body)
    },
    pull: (level, request, inbox) =>
      connection.publish(`$JS.API.CONSUMER.MSG.NEXT.${ns}_q.default-${level}`, JSON.stringify(request), {
        reply: inbox,
      }),
  }
}
