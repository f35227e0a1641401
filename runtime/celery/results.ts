/**
 * Opens the result back end. With `rpc://` there is none: a worker sends results as messages to the queue from which the
 * client reads, over the broker of the tasks.
 */
import { openCeleryResults } from "../connection/celery.ts"
import { idOfMetaKey, metaKey } from "../protocol/celery-result.ts"
import { jsonCodec } from "../protocol/codec/json.ts"
import type { CeleryMessages, CeleryResults, KeptResult } from "../transport/celery.ts"
import { TransportError } from "../transport/mod.ts"

/** How many received results a client remembers. The oldest are forgotten first. */
const MAX_CAME = 10_000

/** Fails with `TransportError`: `unsupported` for `rpc://` when Celery does not support the broker of the tasks. */
export const openResults = async (
  target: string,
  options: { readonly name: string },
  messages: CeleryMessages | undefined,
): Promise<CeleryResults> => {
  if (!/^rpc:/.test(target)) return openCeleryResults(target, options)
  if (messages !== undefined) return new RpcResults(messages)
  throw new TransportError(
    "unsupported",
    "resultBackend: rpc: requires that the broker of the tasks is redis: or amqp:",
  )
}

class RpcResults implements CeleryResults {
  readonly #messages: CeleryMessages
  readonly #oid = crypto.randomUUID()
  readonly #came = new Map<string, Uint8Array>()
  readonly #watched = new Set<(result: KeptResult) => void>()
  readonly #end = new AbortController()
  #receiving: Promise<void> | undefined

  constructor(messages: CeleryMessages) {
    this.#messages = messages
  }

  /** Only results that this process has received can be read. */
  async read(keys: ReadonlyArray<string>): Promise<ReadonlyArray<Uint8Array | undefined>> {
    return keys.map((key) => this.#came.get(key))
  }

  async write(results: ReadonlyArray<KeptResult>): Promise<void> {
    for (const { key, value, replyTo } of results) {
      if (replyTo === undefined || replyTo === "") continue
      const { contentType: content_type, contentEncoding: content_encoding } = jsonCodec
      const correlation_id = idOfMetaKey(key)
      const properties = { content_type, content_encoding, delivery_mode: 1, priority: 0, correlation_id }
      await this.#messages.send("", replyTo, { headers: {}, properties, body: value })
    }
  }

  async watch(keys: ReadonlyArray<string>, listener: (result: KeptResult) => void, signal: AbortSignal): Promise<void> {
    const told = (result: KeptResult): void => {
      if (keys.includes(result.key)) listener(result)
    }
    if (signal.aborted) return
    this.#watched.add(told)
    signal.addEventListener("abort", () => this.#watched.delete(told), { once: true })
  }

  async replyTo(): Promise<string> {
    this.#receiving ??= this.#messages.receive(
      { exchange: "", routingKey: this.#oid, queue: this.#oid },
      ({ properties: { correlation_id }, body }) => {
        if (correlation_id !== undefined) this.#received({ key: metaKey(correlation_id), value: body })
      },
      this.#end.signal,
    )
    await this.#receiving.catch((cause: unknown) => {
      this.#receiving = undefined
      throw cause
    })
    return this.#oid
  }

  #received(result: KeptResult): void {
    this.#came.set(result.key, result.value)
    const [oldest] = this.#came.keys()
    if (oldest !== undefined && this.#came.size > MAX_CAME) this.#came.delete(oldest)
    for (const told of this.#watched) told(result)
  }

  async close(): Promise<void> {
    this.#end.abort()
  }
}
