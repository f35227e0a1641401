/**
 * The records of jobs: one message per job on one subject, written by compare-and-set on the sequence of the message
 * before, which it replaces. The record of a job that has not succeeded has an entry in a stream of its own, so that lists need
 * not read the jobs that have succeeded; a header of the record holds the sequence of the entry. An entry is written before its
 * record, and removed after the record that no longer needs it. An entry that a crash leaves behind does not fit its record, and
 * readers skip it.
 */
import type { CommitRecord } from "../../../runtime/transport/driver.ts"
import type { Index } from "../../../runtime/transport/known.ts"
import { TransportError } from "../../../runtime/transport/mod.ts"
import type { Revision } from "../../../runtime/transport/store.ts"
import { copyOf } from "../connection/answers.ts"
import { listName, type Names } from "../streams/names.ts"
import type { Outgoing } from "../streams/publisher.ts"
import type { StoredMessage, StreamReader } from "../streams/reader.ts"
import { indexLine, indexOf } from "../streams/reader.ts"

/** A stored record. */
export interface StoredRecord {
  readonly revision: Revision
  readonly seq: number
  /** When it was stored, by the clock of the server, in milliseconds since the epoch. */
  readonly time: number
  readonly bytes: Uint8Array
  readonly index: Index | undefined
}

/** A checked record as a message. */
export interface PreparedRecord extends Outgoing {
  /** The entry, which must be stored before the record. */
  readonly entry: Outgoing | undefined
  /** Sequence of the previous record's entry, if this record has it too; 0 otherwise. */
  readonly sameEntry: number
  /** Sequence of the previous record's entry, if this record does not need it. */
  readonly obsoleteEntry: number | undefined
  /** List of its entry; part of the revision. */
  readonly list: string | undefined
}

const NOTHING = new Uint8Array(0)

/** The class of records whose job has not ended. */
export const LIVE = "live"

/**
 * Age from which an entry that does not fit its record is removed. A younger one may belong to a commit that is under
 * way, which writes the entry first.
 */
export const STALE_MS = 600_000

/** The class under which lists find a record; `undefined` if it has no entry. */
export const classOf = ({ state, hidden, dead }: Pick<Index, "state" | "hidden" | "dead">): string | undefined => {
  if (hidden || state === "succeeded") return undefined
  if (state === "failed") return dead ? "dead" : "failed"
  return state === "cancelled" || state === "expired" ? state : LIVE
}

const listOf = (index: Index): string | undefined => {
  const kind = classOf(index)
  return kind && listName(kind, index.queue, index.task, index.method)
}

export class Records {
  readonly #states: StreamReader
  readonly #index: StreamReader
  readonly #names: Names
  readonly #maxRecord: number

  /** `states` reads the state stream, `index` the index stream. */
  constructor(parts: { states: StreamReader; index: StreamReader; names: Names; maxRecord: number }) {
    this.#states = parts.states
    this.#index = parts.index
    this.#names = parts.names
    this.#maxRecord = parts.maxRecord
  }

  /** The current records of these jobs, by id, read from the leader. */
  async read(ids: ReadonlyArray<string>): Promise<ReadonlyMap<string, StoredRecord>> {
    const subjects = [...new Set(ids)].map((id) => this.#names.record(id))
    const messages = await this.#states.last(subjects, true)
    return new Map(messages.map((message) => [this.#names.idIn(message.subject), recordIn(message)]))
  }

  /**
   * A record as messages; `undefined` if the expected revision cannot have been one of this transport. Fails with
   * `too-large`.
   */
  prepare(id: string, { expect, bytes, index, keep }: CommitRecord): PreparedRecord | undefined {
    if (bytes.length > this.#maxRecord) {
      throw new TransportError(
        "too-large",
        `the record of ${id} has ${bytes.length} bytes; at most ${this.#maxRecord} are allowed`,
      )
    }
    const before = expect === "" ? NO_REVISION : readRevision(expect)
    if (before === undefined) return undefined
    const ttl = keep === undefined ? "" : `Nats-TTL: ${Math.max(Math.ceil(keep / 1_000), 1)}\r\n`
    const line = indexLine(index)
    const list = listOf(index)
    // A waiting record gets a new entry each time it is stored, because the search for orphaned jobs reads each entry
    // once.
    const listed = list === before.list && ttl === "" && (index.state === "started" || index.state === "deferred")
    return {
      subject: this.#names.record(id),
      headers: expectedLine(before.seq) + line + ttl,
      payload: bytes,
      entry:
        list === undefined || listed
          ? undefined
          : { subject: this.#names.entry(list, id), headers: line + ttl, payload: NOTHING },
      sameEntry: listed ? before.entry : 0,
      obsoleteEntry: before.list === undefined || before.list === list ? undefined : before.entry,
      list,
    }
  }

  /** The message of a record whose entry was stored with this sequence; 0 if it has none. */
  message(record: PreparedRecord, entry: number): Outgoing {
    if (entry === 0) return record
    const { subject, headers, payload } = record
    return { subject, headers: `${headers}${ENTRY_HEADER}: ${entry}\r\n`, payload }
  }

  /** The revision of a prepared record that was stored with this sequence, and its entry with that one. */
  revision({ list }: PreparedRecord, seq: number, entry: number): Revision {
    return revisionOf(seq, list, entry)
  }

  /** Removes an entry by its sequence; a newer one on its subject stays. */
  remove(entry: number): Promise<void> {
    return this.#index.remove([entry])
  }
}

/** Header by which a record is stored over the message with this sequence; 0 if there is none. */
const expectedLine = (seq: number): string => (seq === 0 ? EXPECTS_NONE : `${EXPECTED}${seq}\r\n`)

const EXPECTED = "Nats-Expected-Last-Subject-Sequence: "
const EXPECTS_NONE = `${EXPECTED}0\r\n`

/** Header of a record with the sequence of its entry. */
const ENTRY_HEADER = "Callboard-Entry"

/** A revision: the sequence, and of the record's entry, where it has one, list and sequence. */
const revisionOf = (seq: number, list: string | undefined, entry: number): Revision =>
  list === undefined ? `${seq}` : `${seq}.${list}.${entry}`

const REVISION = /^([1-9]\d{0,14})(?:\.([a-z]+(?:\.[A-Za-z0-9_%=-]+){3})\.(\d{1,15}))?$/

const NO_REVISION = { seq: 0, list: undefined, entry: 0 } as const

const readRevision = (
  revision: Revision,
): { readonly seq: number; readonly list: string | undefined; readonly entry: number } | undefined => {
  const [, seq, list, entry] = REVISION.exec(revision) ?? []
  return seq === undefined ? undefined : { seq: Number(seq), list, entry: Number(entry ?? 0) }
}

export const recordIn = (message: StoredMessage): StoredRecord => {
  const index = indexOf(message)
  const list = index && listOf(index)
  const { seq, time, data } = message
  const entry = Number(message.header(ENTRY_HEADER)) || 0
  return { revision: revisionOf(seq, list, entry), seq, time, bytes: copyOf(data), index }
}
