/**
 * Run notes: the last report of each running attempt, one entry of the store each, which lives for three leases. A note
 * names the revision of the job that it was written for. A claim, an outcome or a release changes that revision, and thereby
 * makes the note void without another write.
 */
import { type JobRecord, recordFromJson, recordToJson } from "../../protocol/record.ts"
import { decoder, encoder } from "../../protocol/text.ts"
import type { Driver } from "../driver.ts"
import type { Known } from "../known.ts"
import type { Revision, Store } from "../store.ts"
import { type DeliveryToken, readToken } from "./attempt.ts"
import type { BatchedDriver } from "./batching.ts"
import { decodeStored } from "./codec.ts"
import { judgeConflict } from "./judge.ts"
import type { Revisions } from "./revisions.ts"
import type { Report } from "./transport.ts"
import type { RunNote } from "./view.ts"

/** Begins the keys of notes in the store. */
export const NOTES = "run/"

/** Fits into a key of the store, which has 512 bytes; an id has 255 at most. */
export const noteKey = (id: string): string => NOTES + id

/** The form of a note: revision, line feed, record. */
const encodeNote = (about: Revision, record: JobRecord): Uint8Array =>
  encoder.encode(`${about}\n${recordToJson(record)}`)

/** `undefined` for a note that cannot be read: the record alone is shown then. */
const decodeNote = (bytes: Uint8Array | undefined): RunNote | undefined => {
  const [, about, json] = /^([^\n]*)\n(.*)$/s.exec(decoder.decode(bytes)) ?? []
  if (about === undefined || json === undefined) return undefined
  const record = recordFromJson(json)
  return record._tag === "Success" ? { about, record: record.success } : undefined
}

interface Noted {
  readonly id: string
  readonly about: Revision
  readonly bytes: Uint8Array
}

const isStillAbout = ({ about }: Noted, known: Known | undefined): boolean => {
  const { revision = "", record } = known ?? {}
  return revision === about || (record !== undefined && decodeStored(record).metaChange?.about === about)
}

export class Notes {
  readonly #store: Store
  readonly #batched: BatchedDriver
  readonly #revisions: Revisions
  readonly #lease: number
  /** Notes of this process, by token of the delivery. */
  readonly #own = new Map<string, Noted>()
  #renewing: ReturnType<typeof setInterval> | undefined

  constructor({ store }: Pick<Driver, "store">, batched: BatchedDriver, revisions: Revisions, lease: number) {
    this.#store = store
    this.#batched = batched
    this.#revisions = revisions
    this.#lease = lease
  }

  async report(reports: ReadonlyArray<Report>): Promise<void> {
    const noted: Array<Noted> = []
    for (const { token, record, onBehalf } of reports) {
      const attempt = readToken(token)
      const { fresh, fence } = attempt
      const about = this.#revisions.get(token) ?? (fresh ? "" : await this.#revision(token, record, attempt))
      // Another attempt has the job now, and sends its own reports.
      if (about === undefined) continue
      const { message: _message, ...said } = record
      const note = { id: record.id, about, bytes: encodeNote(about, { ...said, fence }) }
      if (!onBehalf) this.#own.set(token, note)
      noted.push(note)
    }
    this.#renewing ??= this.#renewals()
    await this.#write(noted)
  }

  /** Reads the revision for a delivery that has not claimed the job: a worker took over its own attempt. */
  async #revision(token: string, record: JobRecord, attempt: DeliveryToken): Promise<Revision | undefined> {
    const known = await this.#batched.read(record.id, "record")
    const stored = known?.record && decodeStored(known.record)
    if (judgeConflict(stored, record, attempt) !== "retry") return undefined
    const revision = known?.revision ?? ""
    this.#revisions.set(token, revision)
    return revision
  }

  /** Stops renewing the note of an attempt that ends. The entry then expires by itself. */
  end(token: string): void {
    if (this.#own.size === 0) return
    this.#own.delete(token)
  }

  /** Notes about jobs, by id. */
  async of(ids: ReadonlyArray<string>): Promise<ReadonlyArray<RunNote | undefined>> {
    const entries = await this.#store.get(ids.map(noteKey))
    return entries.map((entry) => decodeNote(entry?.value))
  }

  close(): void {
    clearInterval(this.#renewing)
    this.#own.clear()
  }

  async #write(noted: ReadonlyArray<Noted>): Promise<void> {
    if (noted.length === 0) return
    const ttl = Math.max(3 * this.#lease, 1_000)
    // Of several notes about one job only the newest is written.
    const operations = new Map(noted.map(({ id, bytes }) => [id, { key: noteKey(id), value: bytes, ttl }]))
    await this.#store.write([...operations.values()])
  }

  #renewals(): ReturnType<typeof setInterval> {
    const timer = setInterval(() => {
      if (this.#own.size === 0) {
        clearInterval(timer)
        this.#renewing = undefined
      } else void this.#renew().catch(() => undefined)
    }, this.#lease)
    timer.unref?.()
    return timer
  }

  /** Writes notes again before they expire. A note whose job has another revision by now is dropped. */
  async #renew(): Promise<void> {
    const own = [...this.#own]
    const found = await Promise.all(own.map(([, { id }]) => this.#batched.read(id, "record")))
    const standing = own.filter(([token, noted], at) => {
      // The delivery may have ended, or reported again, while its record was read.
      if (this.#own.get(token) !== noted) return false
      const stands = isStillAbout(noted, found[at])
      if (!stands) this.#own.delete(token)
      return stands
    })
    await this.#write(standing.map(([, noted]) => noted))
  }
}
