/**
 * Tasks on their way into the queue stream. What is due goes where consumers take it; what is not becomes a schedule of
 * the server, which moves it there in time.
 */
import { encodeEnvelope } from "../../../runtime/protocol/envelope.ts"
import { FRONT_LEVEL, type Posting } from "../../../runtime/protocol/message.ts"
import { TransportError } from "../../../runtime/transport/mod.ts"
import { asTransportError } from "../connection/errors.ts"
import { escapeToken, type Names } from "../streams/names.ts"
import type { Outgoing, Published, Publisher } from "../streams/publisher.ts"
import type { Consumers, Lane } from "./consumers.ts"

/** Header of a task that expires: milliseconds since the epoch, so that maintenance need not decode the message. */
export const EXPIRES_HEADER = "Callboard-Expires"

/** How long a confirmation waits until a queue that is new can be listed. */
const LISTED_MS = 200

/** The last moment that a schedule can name. */
const LATEST = Date.UTC(9999, 11, 31)

export interface Posted {
  readonly posting: Posting
  /** A record of the job is stored already: its delivery is not fresh. */
  readonly recorded: boolean
}

export class Posts {
  readonly #publisher: Publisher
  readonly #consumers: Consumers
  readonly #names: Names
  readonly #maxTask: number

  constructor(parts: { publisher: Publisher; consumers: Consumers; names: Names; maxTask: number }) {
    this.#publisher = parts.publisher
    this.#consumers = parts.consumers
    this.#names = parts.names
    this.#maxTask = parts.maxTask
  }

  /** A posting as a message. Fails with `unsupported`, `invalid` or `too-large`. */
  prepare({ posting, recorded }: Posted): Outgoing {
    const { id, run, retries, hops, level, queue, due, expires } = posting
    if (posting.key !== undefined)
      throw new TransportError("unsupported", `${id}: this transport keeps no order by key`)
    if (!isLevel(level)) throw new TransportError("invalid", `${id}: ${level} is no level`)
    const frame = encodeEnvelope(posting.message)
    if (frame._tag === "Failure") throw new TransportError("invalid", `${id}: ${frame.failure.message}`)
    const payload = frame.success
    if (payload.length > this.#maxTask) {
      throw new TransportError("too-large", `${id}: ${payload.length} bytes, ${this.#maxTask} are allowed`)
    }
    const band = this.#consumers.bands.of(level)
    const unrecorded = !recorded && run === 1 && retries === 0 && !hops
    const target = this.#names.task("j", queue, band, unrecorded, id)
    const key = `${escapeToken(id)}/${run}/${retries}${hops ? `/${hops}` : ""}`
    const expiry = expires === undefined ? "" : `${EXPIRES_HEADER}: ${Math.floor(expires)}\r\n`
    const headers = `Nats-Msg-Id: ${key}\r\n${expiry}`
    if (due === undefined || due <= Date.now()) return { subject: target, headers, payload }
    if (!(due <= LATEST)) throw new TransportError("invalid", `${id}: ${due} is no time`)
    // The server drops the publish key when the time comes, so that the task itself is not taken for a duplicate.
    const schedule = `Nats-Schedule: @at ${new Date(due).toISOString()}\r\nNats-Schedule-Target: ${target}\r\n`
    return { subject: this.#names.task("s", queue, band, unrecorded, id), headers: headers + schedule, payload }
  }

  /** Publishes; what cannot be prepared fails alone. */
  async publish(posts: ReadonlyArray<Posted>): Promise<ReadonlyArray<Published>> {
    const outgoing: Array<Outgoing> = []
    const places: Array<number> = []
    const results: Array<Published> = []
    for (const [index, post] of posts.entries()) {
      try {
        outgoing.push(this.prepare(post))
        places.push(index)
      } catch (error) {
        results[index] = { status: "failed", error: asTransportError(error) }
      }
    }
    const published = await this.send(posts, outgoing)
    published.forEach((result, at) => {
      results[places[at] ?? at] = result
    })
    return results
  }

  /** Publishes what was prepared, and makes their queues known. */
  async send(posts: ReadonlyArray<Posted>, outgoing: ReadonlyArray<Outgoing>): Promise<ReadonlyArray<Published>> {
    const unknown = new Set<Lane>()
    for (const { posting } of posts) {
      if (!isLevel(posting.level)) continue
      const lane = this.#consumers.lane(posting.queue, posting.level)
      if (!lane.made) unknown.add(lane)
    }
    // A queue stream keeps tasks that no consumer covers yet: who cannot make consumers now may still publish.
    const known = this.#consumers.ensure([...unknown]).catch(() => undefined)
    const published = await this.#publisher.publish(outgoing)
    // In a cluster that lacks a server this takes seconds, for which nobody must wait whose tasks are kept.
    if (unknown.size > 0) await Promise.race([known, new Promise((resolve) => setTimeout(resolve, LISTED_MS))])
    return published
  }
}

const isLevel = (level: number): boolean => Number.isInteger(level) && level >= 0 && level <= FRONT_LEVEL
