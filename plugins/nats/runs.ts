/**
 * What running jobs last said, in a memory stream: less durable than records, and gone a while after nobody keeps it
 * alive. Read before records are, so that what is stored durably always has the last word.
 */
import { encodeRecord, type JobRecord } from "../../runtime/protocol/record.ts"
import { TransportError } from "../../runtime/transport/mod.ts"
import { readRecord } from "./journal.ts"
import { escapeToken, type Names } from "./streams/names.ts"
import type { Outgoing, Publisher } from "./streams/publisher.ts"
import type { Reader, StoredMessage } from "./streams/reader.ts"

/** Marks a record that is only kept alive: no news to whoever watches. */
export const KEPT_HEADER = "Callboard-Kept"

const NOTHING = new Uint8Array(0)

export class Runs {
  readonly #publisher: Publisher
  readonly #reader: Reader
  readonly #names: Names
  readonly #leaseSeconds: number
  readonly #ttlSeconds: number

  constructor(parts: { publisher: Publisher; reader: Reader; names: Names; lease: number }) {
    this.#publisher = parts.publisher
    this.#reader = parts.reader
    this.#names = parts.names
    this.#leaseSeconds = Math.max(Math.floor(parts.lease / 1_000), 1)
    this.#ttlSeconds = Math.max(3 * this.#leaseSeconds, 30)
  }

  /** What these jobs last said, by id. */
  async read(ids: ReadonlyArray<string>): Promise<ReadonlyMap<string, JobRecord>> {
    const messages = await this.#last(ids.map((id) => this.#names.run(escapeToken(id))))
    return new Map(messages.map((message) => readRecord(message)).map((record) => [record.id, record]))
  }

  async write(records: ReadonlyArray<JobRecord>): Promise<void> {
    const outgoing = records.map((record) => this.#message(escapeToken(record.id), encodeRecord(record)))
    for (const result of await this.#publisher.publish(outgoing)) {
      if (result.status === "failed") throw result.error
    }
  }

  /** Keeps alive what deliveries with these fences said, by token of the id. */
  async keep(fences: ReadonlyMap<string, string>): Promise<void> {
    const messages = await this.#last([...fences.keys()].map((idToken) => this.#names.run(idToken)))
    const outgoing = messages.flatMap((message) => {
      const record = readRecord(message)
      const idToken = escapeToken(record.id)
      return fences.get(idToken) === record.fence ? this.#message(idToken, message.data, `${KEPT_HEADER}: 1\r\n`) : []
    })
    await this.#publisher.publish(outgoing)
  }

  /** Says for other threads that deliveries with these fences are extended. */
  async extended(fences: ReadonlyArray<string>): Promise<void> {
    await this.#publisher.publish(
      fences.map((fence) => ({
        subject: this.#names.lease(fence),
        headers: `Nats-TTL: ${this.#leaseSeconds}\r\n`,
        payload: NOTHING,
      })),
    )
  }

  /** Whether another thread has extended the delivery with this fence, within the last lease. */
  async isExtended(fence: string): Promise<boolean> {
    return (await this.#last([this.#names.lease(fence)])).length > 0
  }

  async #last(filters: ReadonlyArray<string>): Promise<ReadonlyArray<StoredMessage>> {
    try {
      return await this.#reader.last(filters)
    } catch (error) {
      // After a restart of a single server its memory streams are gone until somebody makes them anew.
      if (error instanceof TransportError && error.retryable && error.outcome === "none") return []
      throw error
    }
  }

  #message(idToken: string, payload: Uint8Array, headers = ""): Outgoing {
    return { subject: this.#names.run(idToken), headers: `Nats-TTL: ${this.#ttlSeconds}\r\n${headers}`, payload }
  }
}
