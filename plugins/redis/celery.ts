/**
 * The parts of Celery on Redis beside its queues: commands and events over pub/sub, and the result back end with the results
 * of tasks and the counters of chords. A lost connection is opened again, and its subscriptions are made again.
 */
import type { RedisClientOptions } from "redis"
import { groupKey } from "../../runtime/protocol/celery-result.ts"
import { isUndecodable, type Message } from "../../runtime/protocol/message.ts"
import { decoder, encoder } from "../../runtime/protocol/text.ts"
import {
  type CeleryChords,
  type CeleryConnectOptions,
  type CeleryMessages,
  type CeleryPlugin,
  type CeleryResults,
  type ChordMember,
  heardUntil,
  type KeptResult,
} from "../../runtime/transport/celery.ts"
import { TransportError } from "../../runtime/transport/mod.ts"
import { within } from "../../runtime/transport/timers.ts"
import { envelopeOf, priorityOfWire, readEnvelope, SEPARATOR } from "./envelope.ts"
import { loadRedis } from "./library.ts"
import { type RedisSettings, settingsOf } from "./settings.ts"

type Library = Pick<typeof import("redis"), "createClient">
type RedisClient = ReturnType<Library["createClient"]>

const unavailable = (cause: unknown): TransportError =>
  cause instanceof TransportError
    ? cause
    : new TransportError("unavailable", `redis: ${cause instanceof Error ? cause.message : String(cause)}`, { cause })

const tried = async <A>(what: () => Promise<A>): Promise<A> => {
  try {
    return await what()
  } catch (cause) {
    throw unavailable(cause)
  }
}

/** The settings in the URL. The client library opens a lost connection again after 50 ms, then after up to 2 s. */
const settingsIn = (
  url: URL,
  options: CeleryConnectOptions,
): RedisSettings & { readonly client: RedisClientOptions } => {
  const settings = settingsOf(url, options)
  const reconnectStrategy = (tries: number): number => Math.min(2_000, 50 * 2 ** Math.min(tries, 6))
  return { ...settings, client: { ...settings.client, socket: { ...settings.client.socket, reconnectStrategy } } }
}

/** Connects a client. Fails with `unavailable` after the timeout, in milliseconds. */
const opened = async (settings: RedisClientOptions, timeout: number): Promise<RedisClient> => {
  const { createClient } = await loadRedis()
  const client = createClient(settings)
  // An error event without a listener would end the process. Commands report the loss: they fail, or wait for the
  // connection.
  client.on("error", () => undefined)
  try {
    await within(timeout, client.connect(), () => new Error(`no answer within ${timeout} ms`))
    return client
  } catch (cause) {
    client.destroy()
    throw unavailable(cause)
  }
}

const closed = (client: RedisClient | undefined): void => {
  if (client?.isOpen) client.destroy()
}

/** A second connection with the same settings: one that subscribes, or waits for a message, can send no other commands. */
const another = async (client: RedisClient): Promise<RedisClient> => {
  const made = client.duplicate()
  made.on("error", () => undefined)
  await made.connect()
  return made
}

// ── messages ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/** How long one command waits for the next message, in seconds. A stop takes effect when that wait ends. */
const WAIT_S = 1

type Listener = (message: Message) => void

class RedisMessages implements CeleryMessages {
  readonly #client: RedisClient
  readonly #prefix: string
  readonly #database: number
  #listening: Promise<RedisClient> | undefined

  constructor(client: RedisClient, { prefix, database }: RedisSettings) {
    this.#client = client
    this.#prefix = prefix
    this.#database = database
  }

  #channelOf(exchange: string): string {
    return `${this.#prefix}/${this.#database}.${exchange}`
  }

  #bindingsOf(exchange: string): string {
    return `${this.#prefix}_kombu.binding.${exchange}`
  }

  priorityOf(given: number | null): number {
    return priorityOfWire(given ?? 0)
  }

  async broadcast(exchange: string, routingKey: string, message: Message): Promise<void> {
    const channel = `${this.#channelOf(exchange)}${routingKey === "" ? "" : `/${routingKey}`}`
    await tried(() => this.#client.publish(channel, envelopeOf(message, exchange, routingKey).text))
  }

  async listen(exchange: string, listener: Listener, signal: AbortSignal, routingKey = "#"): Promise<void> {
    const channel = this.#channelOf(exchange)
    const patterns = [`${channel}/${routingKey.replace("#", "*")}`, ...(routingKey === "#" ? [channel] : [])]
    const heard = heardUntil(listener, signal)
    const received = (text: string): void => notify(text, heard)
    await tried(async () => {
      this.#listening ??= another(this.#client)
      const client = await this.#listening
      await client.pSubscribe(patterns, received)
      const stop = () => void client.pUnsubscribe(patterns, received).catch(() => undefined)
      if (signal.aborted) stop()
      else signal.addEventListener("abort", stop, { once: true })
    })
  }

  submit(queue: string, message: Message): Promise<void> {
    return this.send("", queue, message)
  }

  async send(exchange: string, routingKey: string, message: Message): Promise<void> {
    await tried(async () => {
      const bound = exchange === "" ? [listOf(routingKey, message)] : await this.#queuesOf(exchange, routingKey)
      const { text } = envelopeOf(message, exchange, routingKey)
      await Promise.all(bound.map((queue) => this.#client.lPush(`${this.#prefix}${queue}`, text)))
    })
  }

  async #queuesOf(exchange: string, routingKey: string): Promise<ReadonlyArray<string>> {
    const bindings = await this.#client.sMembers(this.#bindingsOf(exchange))
    return bindings.flatMap((binding) => {
      const [key, , queue] = binding.split(SEPARATOR)
      return key === routingKey && queue !== undefined ? [queue] : []
    })
  }

  async receive(
    { exchange, routingKey, queue }: { readonly exchange: string; readonly routingKey: string; readonly queue: string },
    listener: Listener,
    signal: AbortSignal,
  ): Promise<void> {
    const binding = [routingKey, "", queue].join(SEPARATOR)
    const client = await tried(async () => {
      if (exchange !== "") await this.#client.sAdd(this.#bindingsOf(exchange), binding)
      return another(this.#client)
    })
    const heard = heardUntil(listener, signal)
    const take = async (): Promise<void> => {
      while (!signal.aborted && client.isOpen) {
        const found = await client.brPop(`${this.#prefix}${queue}`, WAIT_S).catch(() => null)
        if (found !== null) notify(found.element, heard)
      }
      closed(client)
      await Promise.all([
        this.#client.sRem(this.#bindingsOf(exchange), binding),
        this.#client.del(`${this.#prefix}${queue}`),
      ])
    }
    void take().catch(() => undefined)
  }

  async close(): Promise<void> {
    closed(await this.#listening?.catch(() => undefined))
    closed(this.#client)
  }
}

/**
 * The key of the list in which a message waits: kombu has one for each of four priority steps, and reads the lowest first.
 */
const listOf = (queue: string, { properties: { priority = 9 } }: Message): string => {
  const step = [9, 6, 3].find((each) => 9 - priority >= each)
  return step === undefined ? queue : `${queue}${SEPARATOR}${step}`
}

/** Passes a message on. Text that is no envelope is ignored, since any client of the server may publish on the channel. */
const notify = (text: string, listener: Listener): void => {
  const message = readEnvelope(encoder.encode(text))
  if (!isUndecodable(message)) listener(message)
}

// ── results ──────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Stores results and notifies the clients that wait for them. Arguments: the time to live, then the results. */
const WRITE = `
for at, key in ipairs(KEYS) do
  redis.call('SETEX', key, ARGV[1], ARGV[at + 1])
  redis.call('PUBLISH', key, ARGV[at + 1])
end`

/**
 * Counts a member of a chord. What was noted before for the same member is removed: a task that is delivered again may have
 * another result, and Celery writes the same one in another way. Keys: the members that have ended, and the two numbers.
 * Arguments: id and place of the member, its outcome, the time to live.
 */
const COUNT = `
for _, noted in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], ARGV[2], ARGV[2])) do
  local isRead, member = pcall(cjson.decode, noted)
  if isRead and type(member) == 'table' and member[2] == ARGV[1] then redis.call('ZREM', KEYS[1], noted) end
end
redis.call('ZADD', KEYS[1], ARGV[2], ARGV[3])
for _, key in ipairs(KEYS) do redis.call('EXPIRE', key, ARGV[4]) end
return { redis.call('ZCOUNT', KEYS[1], '-inf', '+inf'), redis.call('GET', KEYS[2]), redis.call('GET', KEYS[3]) }`

class RedisResults implements CeleryResults, CeleryChords {
  readonly chords = this
  readonly #client: RedisClient
  readonly #prefix: string
  #watching: Promise<RedisClient> | undefined

  constructor(client: RedisClient, { prefix }: RedisSettings) {
    this.#client = client
    // Celery puts an underscore behind a prefix that does not end in a separator.
    this.#prefix = prefix === "" || /[:_.-]$/.test(prefix) ? prefix : `${prefix}_`
  }

  #keyOf(key: string): string {
    return `${this.#prefix}${key}`
  }

  /**
   * Keys of the counters of a chord: the members that have ended; how many members there are; and how many more members
   * tasks have added since they were counted.
   */
  #counters(group: string) {
    const key = this.#keyOf(groupKey(group))
    return { ended: `${key}.j`, extra: `${key}.t`, size: `${key}.s` }
  }

  async read(keys: ReadonlyArray<string>): Promise<ReadonlyArray<Uint8Array | undefined>> {
    if (keys.length === 0) return []
    const found = await tried(() => this.#client.mGet(keys.map((key) => this.#keyOf(key))))
    return found.map((text) => (text === null ? undefined : encoder.encode(text)))
  }

  async write(results: ReadonlyArray<KeptResult>, expires: number): Promise<void> {
    const keys = results.map(({ key }) => this.#keyOf(key))
    const values = results.map(({ value }) => Buffer.from(value.buffer, value.byteOffset, value.length))
    await tried(() => this.#client.eval(WRITE, { keys, arguments: [String(expires), ...values] }))
  }

  async watch(keys: ReadonlyArray<string>, listener: (result: KeptResult) => void, signal: AbortSignal): Promise<void> {
    const names = keys.map((key) => this.#keyOf(key))
    const heard = heardUntil(listener, signal)
    const received = (text: string, name: string): void =>
      heard({ key: name.slice(this.#prefix.length), value: encoder.encode(text) })
    await tried(async () => {
      this.#watching ??= another(this.#client)
      const client = await this.#watching
      await client.subscribe(names, received)
      const stop = () => void client.unsubscribe(names, received).catch(() => undefined)
      if (signal.aborted) stop()
      else signal.addEventListener("abort", stop, { once: true })
    })
  }

  async count({ group, id, index, value }: ChordMember, expires: number) {
    const { ended, extra, size } = this.#counters(group)
    const given = [id, index === null ? "+inf" : String(index), decoder.decode(value), String(expires)]
    const answer: unknown = await tried(() =>
      this.#client.eval(COUNT, { keys: [ended, extra, size], arguments: given }),
    )
    const numbers: ReadonlyArray<unknown> = Array.isArray(answer) ? answer : []
    const [count, more, wanted] = numbers.map((each) => (each === null ? undefined : Number(each)))
    return { ended: count ?? 0, size: wanted === undefined ? undefined : wanted + (more ?? 0) }
  }

  async members(group: string): Promise<ReadonlyArray<Uint8Array>> {
    const members = await tried(() => this.#client.zRange(this.#counters(group).ended, 0, -1))
    return members.map((member) => encoder.encode(member))
  }

  async expect(group: string, size: number, expires: number): Promise<void> {
    await tried(() => this.#client.setEx(this.#counters(group).size, expires, String(size)))
  }

  async forget(group: string): Promise<void> {
    const { ended, extra, size } = this.#counters(group)
    await tried(() => this.#client.del([ended, extra, size]))
  }

  async close(): Promise<void> {
    closed(await this.#watching?.catch(() => undefined))
    closed(this.#client)
  }
}

const open = async (url: URL, options: CeleryConnectOptions) => {
  const settings = settingsIn(url, options)
  return { client: await opened(settings.client, options.timeout), settings }
}

/** Connects to the messages and the result back end of Celery at the URL of a Redis server. */
export const celery: CeleryPlugin = {
  messages: async (url, options) => {
    const { client, settings } = await open(url, options)
    return new RedisMessages(client, settings)
  },
  results: async (url, options) => {
    const { client, settings } = await open(url, options)
    return new RedisResults(client, settings)
  },
}
