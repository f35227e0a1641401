/**
 * The records of jobs: one message per job on one subject, written by compare-and-set on the sequence of the message
 * before, which it replaces. Beside the record of a job that has not succeeded stands an entry, so that lists need not
 * read the jobs that have. An entry is written before its record, and removed after the record that no longer needs it:
 * an entry that a crash leaves behind does not fit its record, and readers skip it.
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

/** A checked record as messages. */
export interface PreparedRecord {
  readonly message: Outgoing
  /** The entry, which must be stored before the record. */
  readonly entry: Outgoing | undefined
  /** Subject of the previous record's entry, if this record does not need it. */
  readonly obsoleteEntry: string | undefined
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
  readonly #reader: StreamReader
  readonly #names: Names
  readonly #maxRecord: number

  constructor(parts: { reader: StreamReader; names: Names; maxRecord: number }) {
    this.#reader = parts.reader
    this.#names = parts.names
    this.#maxRecord = parts.maxRecord
  }

  /** The current records of these jobs, by id, read from the leader. */
  async read(ids: ReadonlyArray<string>): Promise<ReadonlyMap<string, StoredRecord>> {
    const subjects = [...new Set(ids)].map((id) => this.#names.record(id))
    const messages = await this.#reader.last(subjects, true)
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
        `the record of ${id} has ${bytes.length} bytes, ${this.#maxRecord} are allowed`,
      )
    }
    const before = expect === "" ? { seq: 0, list: undefined } : readRevision(expect)
    if (before === undefined) return undefined
    const ttl = keep === undefined ? "" : `Nats-TTL: ${Math.max(Math.ceil(keep / 1_000), 1)}\r\n`
    const headers = indexLine(index) + ttl
    const list = listOf(index)
    // A waiting record gets a new entry each time it is stored, because the search for orphaned jobs reads each entry
    // once.
    const listed = list === before.list && ttl === "" && (index.state === "started" || index.state === "deferred")
    return {
      message: {
        subject: this.#names.record(id),
        headers: `Nats-Expected-Last-Subject-Sequence: ${before.seq}\r\n${headers}`,
        payload: bytes,
      },
      entry:
        list === undefined || listed ? undefined : { subject: this.#names.entry(list, id), headers, payload: NOTHING },
      obsoleteEntry: before.list === undefined || before.list === list ? undefined : this.#names.entry(before.list, id),
      list,
    }
  }

  /** The revision of a prepared record that was stored with this sequence. */
  revision({ list }: PreparedRecord, seq: number): Revision {
    return revisionOf(seq, list)
  }

  /** Removes an entry that was stored before this sequence; a newer one on its subject stays. */
  remove(entry: string, before: number): Promise<void> {
    return this.#reader.purge(entry, before)
  }
}

/** A revision: the sequence, and the list of the record's entry where it has one. */
const revisionOf = (seq: number, list: string | undefined): Revision =>
  list === undefined ? `${seq}` : `${seq}.${list}`

const REVISION = /^([1-9]\d{0,14})(?:\.([a-z]+(?:\.[A-Za-z0-9_%=-]+){3}))?$/

const readRevision = (revision: Revision): { readonly seq: number; readonly list: string | undefined } | undefined => {
  const [, seq, list] = REVISION.exec(revision) ?? []
  return seq === undefined ? undefined : { seq: Number(seq), list }
}

export const recordIn = (message: StoredMessage): StoredRecord => {
  const index = indexOf(message)
  const list = index && listOf(index)
  const { seq, time, data } = message
  return { revision: revisionOf(seq, list), seq, time, bytes: copyOf(data), index }
}
