/**
 * The ceiling of this machine for a job over JetStream: the broker operations of the nats transport through the same
 * client library, without our runtime and without the transport. Per job: one durable publish into a work queue, one
 * pull delivery, one durable terminal record (compare-and-set over a wildcard, time to live, republished), one ack.
 *
 * `bun run test/bench/raw-nats.ts nats://127.0.0.1:4222 [jobs] [concurrency]`
 */
import { pathToFileURL } from "node:url"
import { connect, createInbox, Empty, type Msg, MsgHdrsImpl, type NatsConnection, nanos } from "nats"

export interface RawNatsOptions {
  readonly url: string
  /** Defaults to 50,000. */
  readonly jobs?: number
  /** How many jobs are in flight between delivery and ack. Defaults to 200. */
  readonly concurrency?: number
  /** Bytes of the body. Defaults to 256. */
  readonly payload?: number
  /** Whether one subscriber receives every terminal record, as a process that waits for results does. Defaults to true. */
  readonly events?: boolean
}

export interface RawNatsResult {
  readonly jobs: number
  readonly seconds: number
  readonly jobsPerSecond: number
  /** Republished terminal records that arrived. */
  readonly events: number
}

/** One header block that is refilled for each message: the client reads it before `publish` returns. */
class HeaderBlock extends MsgHdrsImpl {
  text = ""
  override encode(): Uint8Array {
    return encoder.encode(this.text)
  }
}

const encoder = new TextEncoder()
const decoder = new TextDecoder()

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

  publish(subject: string, headers: string, payload: Uint8Array): Promise<string> {
    return new Promise((resolve) => {
      const token = (this.#next++).toString(36)
      this.#waiting.set(token, resolve)
      this.#headers.text = `NATS/1.0\r\n${headers}\r\n`
      this.#connection.publish(subject, payload, { reply: `${this.#inbox}.${token}`, headers: this.#headers })
    })
  }
}

const stored = (ack: string): void => {
  if (ack.includes('"error"')) throw new Error(ack)
}

const api = async (connection: NatsConnection, subject: string, body: unknown): Promise<void> => {
  const answer = await connection.request(`$JS.API.${subject}`, JSON.stringify(body), { timeout: 5_000 })
  stored(answer.string())
}

/** Runs `jobs` jobs from submission to ack in one process and says how fast that was. */
export const rawNats = async (options: RawNatsOptions): Promise<RawNatsResult> => {
  const { url, jobs = 50_000, concurrency = 200, payload = 256, events = true } = options
  const connection = await connect({ servers: url, noAsyncTraces: true, name: "callboard-raw" })
  const ns = `raw${Date.now().toString(36)}`
  const levels = ["10", "7", "4", "0"] as const
  try {
    await api(connection, `STREAM.CREATE.${ns}_q`, {
      name: `${ns}_q`,
      subjects: [`${ns}.j.>`, `${ns}.s.>`],
      retention: "workqueue",
      storage: "file",
      allow_direct: true,
      allow_msg_ttl: true,
      allow_msg_schedules: true,
    })
    await api(connection, `STREAM.CREATE.${ns}_s`, {
      name: `${ns}_s`,
      subjects: [`${ns}.t.>`],
      storage: "file",
      max_msgs_per_subject: 1,
      allow_direct: true,
      allow_msg_ttl: true,
      republish: { src: `${ns}.t.>`, dest: `${ns}.ev.t.>` },
    })
    for (const level of levels) {
      await api(connection, `CONSUMER.CREATE.${ns}_q.default-${level}`, {
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
    return await cycle(connection, { ns, levels, jobs, concurrency, payload, events })
  } finally {
    await api(connection, `STREAM.DELETE.${ns}_q`, {}).catch(() => undefined)
    await api(connection, `STREAM.DELETE.${ns}_s`, {}).catch(() => undefined)
    await connection.close()
  }
}

interface Cycle extends Required<Omit<RawNatsOptions, "url">> {
  readonly ns: string
  readonly levels: ReadonlyArray<string>
}

/** A producer with a window of 1,024 and a strict puller, at the same time. */
const cycle = async (connection: NatsConnection, given: Cycle): Promise<RawNatsResult> => {
  const { ns, levels, jobs, concurrency, payload, events } = given
  const publisher = new RawPublisher(connection)
  const body = new Uint8Array(payload).fill(120)
  let seen = 0
  if (events) connection.subscribe(`${ns}.ev.>`, { callback: () => void seen++ })

  const start = performance.now()
  const produce = async (): Promise<void> => {
    let next = 0
    const lane = async (): Promise<void> => {
      while (next < jobs) {
        const id = `job-${next++}`
        stored(await publisher.publish(`${ns}.j.default.4._.n.${id}`, `Nats-Msg-Id: ${id}/1/0\r\n`, body))
      }
    }
    await Promise.all(Array.from({ length: 1_024 }, lane))
  }

  const consume = (): Promise<void> =>
    new Promise((resolve, reject) => {
      let done = 0
      let active = 0
      let level = 0
      let outstanding = 0
      const inbox = createInbox()
      const ask = (): void => {
        const free = concurrency - active
        if (outstanding > 0 || free < concurrency / 4) return
        outstanding = free
        connection.publish(
          `$JS.API.CONSUMER.MSG.NEXT.${ns}_q.default-${levels[level]}`,
          JSON.stringify({ batch: free, no_wait: true }),
          { reply: inbox },
        )
      }
      const run = async (message: Msg): Promise<void> => {
        const id = message.subject.slice(message.subject.lastIndexOf(".") + 1)
        const headers =
          `Nats-Expected-Last-Subject-Sequence: 0\r\n` +
          `Nats-Expected-Last-Subject-Sequence-Subject: ${ns}.t.*.${id}.*\r\nNats-TTL: 90000\r\n`
        stored(await publisher.publish(`${ns}.t.succeeded.${id}.default`, headers, body))
        if (message.reply !== undefined) connection.publish(message.reply, Empty)
        active--
        if (++done === jobs) resolve()
        else ask()
      }
      connection.subscribe(inbox, {
        callback: (error, message) => {
          if (error !== null) return reject(error)
          if (message.subject === inbox) {
            // Nothing more on this level: the next one down, and the top again after the last.
            outstanding = 0
            level = (level + 1) % levels.length
            return ask()
          }
          outstanding--
          active++
          if (outstanding === 0) level = 0
          void run(message).catch(reject)
        },
      })
      ask()
    })

  await Promise.all([produce(), consume()])
  await connection.flush()
  const seconds = (performance.now() - start) / 1_000
  return { jobs, seconds, jobsPerSecond: Math.round(jobs / seconds), events: seen }
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const [url = "nats://127.0.0.1:4222", jobs = "50000", concurrency = "200"] = process.argv.slice(2)
  console.log(JSON.stringify(await rawNats({ url, jobs: Number(jobs), concurrency: Number(concurrency) })))
  // The client keeps its connection, and the process with it.
  process.exit(0)
}
