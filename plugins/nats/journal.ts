/**
 * What is stored about jobs: one current record per job, written by compare-and-set against everything that is stored
 * under its id. The class of a record is part of its subject, so that those that failed can be listed without reading
 * those that did not; when a record changes its class, the one before is removed after it.
 */
import { decodeRecord, encodeRecord, type JobRecord, tombstoneOf } from "../../runtime/protocol/record.ts"
import { isTerminal } from "../../runtime/protocol/state.ts"
import { TOMBSTONE_MS, TransportError } from "../../runtime/transport/mod.ts"
import { textOf } from "./connection/errors.ts"
import { escapeToken, type Names } from "./streams/names.ts"
import type { Outgoing, Published, Publisher } from "./streams/publisher.ts"
import type { Reader, StoredMessage } from "./streams/reader.ts"

/** A record as it is stored. */
export interface Kept {
  readonly record: JobRecord
  readonly seq: number
  readonly subject: string
}

/** Bytes of a record, checked and ready to be written. */
export interface Prepared {
  readonly subject: string
  readonly idToken: string
  readonly payload: Uint8Array
  readonly ttlSeconds: number | undefined
}

export class Journal {
  readonly #publisher: Publisher
  readonly #reader: Reader
  readonly #names: Names
  readonly #maxRecord: number

  constructor(parts: { publisher: Publisher; reader: Reader; names: Names; maxRecord: number }) {
    this.#publisher = parts.publisher
    this.#reader = parts.reader
    this.#names = parts.names
    this.#maxRecord = parts.maxRecord
  }

  /**
   * The current records of these jobs, by id. Sees what anybody was told is written. Removes what a crash left behind
   * of earlier classes.
   */
  async read(ids: ReadonlyArray<string>): Promise<ReadonlyMap<string, Kept>> {
    const tokens = [...new Set(ids)].map(escapeToken)
    const messages = await this.#reader.last(
      tokens.map((token) => this.#names.recordsOf(token)),
      true,
    )
    const found = new Map<string, Kept>()
    const stale: Array<number> = []
    for (const message of messages) {
      const record = readRecord(message)
      const other = found.get(record.id)
      if (other !== undefined) stale.push(Math.min(other.seq, message.seq))
      if (other === undefined || other.seq < message.seq) {
        found.set(record.id, { record, seq: message.seq, subject: message.subject })
      }
    }
    if (stale.length > 0) await this.#reader.remove(stale)
    return found
  }

  /** Fails with `invalid` when the record is not JSON, with `too-large` when it is over the limit. */
  prepare(record: JobRecord): Prepared {
    let payload: Uint8Array
    try {
      payload = encodeRecord(record)
    } catch (error) {
      throw new TransportError("invalid", `the record of ${record.id} is not plain JSON: ${textOf(error)}`)
    }
    if (payload.length > this.#maxRecord) {
      throw new TransportError(
        "too-large",
        `the record of ${record.id} has ${payload.length} bytes, ${this.#maxRecord} are allowed`,
      )
    }
    return {
      subject: this.#names.record(record),
      idToken: escapeToken(record.id),
      payload,
      ttlSeconds: ttlOf(record),
    }
  }

  /** A prepared record as a message that is stored only if `expect` is still the current sequence. */
  message({ subject, idToken, payload, ttlSeconds }: Prepared, expect: number): Outgoing {
    const headers =
      `Nats-Expected-Last-Subject-Sequence: ${expect}\r\n` +
      `Nats-Expected-Last-Subject-Sequence-Subject: ${this.#names.recordsOf(idToken)}\r\n` +
      (ttlSeconds === undefined ? "" : `Nats-TTL: ${ttlSeconds}\r\n`)
    return { subject, headers, payload }
  }

  write(
    writes: ReadonlyArray<Outgoing>,
    each?: (index: number, result: Published) => void,
  ): Promise<ReadonlyArray<Published>> {
    return this.#publisher.publish(writes, each)
  }

  /** Removes a record that another one, with another subject, has replaced. */
  forget(replaced: ReadonlyArray<Pick<Kept, "seq">>): Promise<void> {
    return this.#reader.remove(replaced.map(({ seq }) => seq))
  }
}

/** The record in a message. Fails with `internal` when it holds none: nobody else writes there. */
export const readRecord = (message: StoredMessage): JobRecord => {
  const decoded = decodeRecord(message.data)
  if (decoded._tag === "Success") return decoded.success
  throw new TransportError("internal", `${message.subject} at ${message.seq}: ${decoded.failure.message}`)
}

/** Anything else is for ever. */
const isKeptFor = (keepMs: number | undefined): keepMs is number => Number.isFinite(keepMs) && Number(keepMs) >= 0

/** How long the server keeps a record: its own time, then as long again as its tombstone stays. */
const ttlOf = ({ state, keepMs, endedAt, tombstone }: JobRecord): number | undefined => {
  if (tombstone) return TOMBSTONE_MS / 1_000
  if (!isTerminal(state) || !isKeptFor(keepMs)) return undefined
  const keep = endedAt === undefined ? keepMs : endedAt + keepMs - Date.now()
  return Math.max(Math.ceil((keep + TOMBSTONE_MS) / 1_000), TOMBSTONE_MS / 1_000)
}

/** A record as it is to be seen now: a tombstone once it was kept long enough. */
export const aged = (record: JobRecord, now: number): JobRecord => {
  const { state, keepMs, endedAt, tombstone } = record
  if (tombstone || !isTerminal(state) || !isKeptFor(keepMs) || endedAt === undefined) return record
  return endedAt + keepMs > now ? record : tombstoneOf(record)
}
