/**
 * What deliveries have put off, so that it can be called back. The server takes a hand-back of a message from whoever sends
 * it, also when somebody else holds the message by now, and would deliver it twice: so each delivery that puts a task off
 * leaves a note in the memory stream, and only who takes that note away may call the task back.
 */
import { TransportError } from "../../runtime/transport.ts"
import { Acks, nak } from "./acks.ts"
import type { Token } from "./delivery.ts"
import type { Ledger } from "./ledger.ts"
import type { Link } from "./link.ts"
import type { Publisher } from "./publisher.ts"
import type { Reader, StoredMessage } from "./reader.ts"
import type { Names } from "./subject.ts"

export interface PutOffParts {
  readonly link: Link
  readonly ledger: Ledger
  readonly names: Names
  readonly publisher: Publisher
  /** Of the stream of what runs. */
  readonly running: Reader
  /** The clock of the server. */
  readonly now: () => Promise<number>
}

/** A delivery that puts its task off, in milliseconds. */
export interface PutOff {
  readonly token: Token
  readonly delay: number
}

/** What comes so soon by itself is not called: the server may be handing it over this moment. */
const SOON_MS = 100

const NOTHING = new Uint8Array(0)
const encoder = new TextEncoder()
const decoder = new TextDecoder()

export class PutOffs {
  readonly #parts: PutOffParts

  constructor(parts: PutOffParts) {
    this.#parts = parts
  }

  /** Notes what is being put off. Never fails: what is not noted comes when its delay is over. */
  async note(putOffs: ReadonlyArray<PutOff>): Promise<void> {
    const { names, publisher } = this.#parts
    const notes = putOffs
      .filter(({ delay }) => delay > SOON_MS)
      .map(({ token, delay }) => ({
        subject: names.putOff(token.seq),
        headers: `Nats-TTL: ${Math.ceil(delay / 1_000)}\r\n`,
        payload: encoder.encode(`${token.fence} ${Math.ceil(delay)}`),
      }))
    await publisher.publish(notes).catch(() => undefined)
  }

  /** Fails with `unavailable` when the server does not answer. */
  async hasten(texts: ReadonlyArray<string>): Promise<void> {
    const { link, ledger, names, running, now } = this.#parts
    const tokens = new Map<string, Token>()
    for (const text of texts) {
      const token = ledger.read(text)
      if (token !== undefined) tokens.set(names.putOff(token.seq), token)
    }
    if (tokens.size === 0) return
    await link.ready()
    const notes = await this.#notes([...tokens.keys()], running)
    const soon = notes.length > 0 ? (await now()) + SOON_MS : 0
    const meant = notes.filter(({ subject, time, data }) => {
      const [fence, delay] = decoder.decode(data).split(" ")
      return fence === tokens.get(subject)?.fence && time + Number(delay) > soon
    })
    const taken = await this.#take(meant)
    const acks = new Acks(link)
    for (const { subject } of taken) {
      const token = tokens.get(subject)
      if (token !== undefined) acks.add({ ack: token.ack, consumer: token.consumer, payload: nak(0) })
    }
    await acks.finish()
  }

  async #notes(subjects: ReadonlyArray<string>, running: Reader): Promise<ReadonlyArray<StoredMessage>> {
    try {
      return await running.last(subjects, true)
    } catch (error) {
      // After a restart of a single server its memory streams are gone until somebody makes them anew.
      if (error instanceof TransportError && error.retryable && error.outcome === "none") return []
      throw error
    }
  }

  /** Takes notes away; those that somebody else has taken, or written anew, are left out. */
  async #take(notes: ReadonlyArray<StoredMessage>): Promise<ReadonlyArray<StoredMessage>> {
    const results = await this.#parts.publisher.publish(
      notes.map(({ subject, seq }) => ({
        subject,
        headers: `Nats-Expected-Last-Subject-Sequence: ${seq}\r\nNats-TTL: 1\r\n`,
        payload: NOTHING,
      })),
    )
    return notes.filter((_, at) => results[at]?.status === "stored")
  }
}
