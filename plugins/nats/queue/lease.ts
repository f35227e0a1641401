/**
 * Extends leases. For JetStream any acknowledgement of progress renews the lease, also one from a delivery whose task
 * another delivery has by now; so a lease that may have ended is not extended. When a transport extends a delivery that
 * another transport has received, it notifies that one: a worker extends leases from a thread of its own, and its main
 * thread would otherwise consider the tasks lost.
 */
import { decoder, encoder } from "../../../runtime/protocol/text.ts"
import type { TransportError } from "../../../runtime/transport/mod.ts"
import { listAt, numberAt } from "../connection/answers.ts"
import type { NatsLink } from "../connection/link.ts"
import type { ServerClock } from "../connection/server-clock.ts"
import type { Names } from "../streams/names.ts"
import type { StreamReader } from "../streams/reader.ts"
import { Acks, IN_PROGRESS } from "./acks.ts"
import { numberIn, readToken, type Token } from "./delivery.ts"

export interface LeasesParts {
  readonly link: NatsLink
  readonly names: Names
  /** Identifies the deliveries that this transport received. */
  readonly nonce: string
  readonly tracker: DeliveryTracker
  readonly clock: ServerClock
  /** Reads the queue stream. */
  readonly tasks: StreamReader
}

/** The message from one transport to another: which of its deliveries have a full lease from `at` on, by the clock of the server. */
interface Extended {
  readonly at: number
  readonly numbers: ReadonlyArray<number>
}

export class Leases {
  readonly #parts: LeasesParts

  constructor(parts: LeasesParts) {
    this.#parts = parts
    const { link, names, nonce, tracker, clock } = parts
    const subscription = link.subscribe(names.lease(nonce), ({ data }) => {
      const { at, numbers } = readExtended(data)
      // The message may have waited in the socket while this thread was blocked: its time is used, and not the time of
      // reading.
      for (const number of numbers) tracker.extendOwn(number, Math.min(at, clock.now()))
    })
    link.closing.addEventListener("abort", () => subscription.unsubscribe(), { once: true })
  }

  /** Fails with `unavailable` when the server does not answer. */
  async extend(texts: ReadonlyArray<string>): Promise<ReadonlyArray<boolean>> {
    const { link, tracker, clock } = this.#parts
    await clock.certain()
    const start = clock.now()
    const tokens = texts.map((text) => tracker.read(text))
    const ours = await Promise.all(
      tokens.map(async (token) => (token !== undefined && (await this.#isOurs(token, start)) ? token : undefined)),
    )
    await link.ready()
    const acks = new Acks(link)
    for (const token of ours) if (token !== undefined) acks.add(token, IN_PROGRESS)
    const unanswered = await acks.finish()
    const elsewhere = new Map<string, Array<number>>()
    const extended = (token: Token): void => {
      tracker.extend(token, start)
      const { nonce, number } = token
      if (!tracker.isOwn(token)) elsewhere.set(nonce, [...(elsewhere.get(nonce) ?? []), number])
    }
    try {
      return keptOf(ours, unanswered, link.connected, extended)
    } finally {
      for (const [nonce, numbers] of elsewhere) this.#tell(nonce, { at: start, numbers })
    }
  }

  #tell(nonce: string, extended: Extended): void {
    const { link, names } = this.#parts
    link.send(names.lease(nonce), encoder.encode(JSON.stringify(extended)))
  }

  async #isOurs(token: Token, now: number): Promise<boolean> {
    const { tracker, tasks } = this.#parts
    if (token.until <= now) return false
    // A delivery that this transport received and has not ended still has its task in the queue. Of others the stream
    // is asked.
    return tracker.isOwn(token) || (await tasks.at(token.seq)) !== undefined
  }
}

/**
 * Which deliveries have their task still, after `unanswered` of their consumers did not reply. Calls `extended` with each of these,
 * and fails afterwards, so that a consumer that does not answer costs the deliveries of no other their leases.
 */
export const keptOf = (
  tokens: ReadonlyArray<Token | undefined>,
  unanswered: ReadonlyMap<string, TransportError>,
  isConnected: boolean,
  extended: (token: Token) => void,
): ReadonlyArray<boolean> => {
  let failure: TransportError | undefined
  const kept = tokens.map((token) => {
    const error = token && unanswered.get(token.consumer)
    // When the consumer was deleted, its tasks are delivered anew and none of these deliveries has its task any more.
    // A lost connection says nothing about that.
    if (error !== undefined && (error.outcome !== "none" || !isConnected)) failure ??= error
    if (token === undefined || error !== undefined) return false
    extended(token)
    return true
  })
  if (failure !== undefined) throw failure
  return kept
}

const readExtended = (data: Uint8Array): Extended => {
  try {
    const said: unknown = JSON.parse(decoder.decode(data))
    return { at: numberAt(said, "at"), numbers: listAt(said, "numbers").map(Number) }
  } catch {
    return { at: 0, numbers: [] }
  }
}

// ── deliveries and their leases ──────────────────────────────────────────────────────────────────────────────────────

/** Deliveries that are never ended are forgotten this long after their lease. */
const FORGET_MS = 86_400_000

const SWEEP_EVERY = 16_384

/**
 * Tracks deliveries and their leases. Of a delivery that another transport (another connection or thread) received,
 * only the token is known.
 */
export class DeliveryTracker {
  readonly #nonce: string
  readonly #lease: number
  readonly #own = new OwnDeliveries()
  readonly #foreign = new Map<string, Token>()
  #additions = 0

  /** `nonce` identifies the deliveries that this transport received; `lease` is in milliseconds. */
  constructor(nonce: string, lease: number) {
    this.#nonce = nonce
    this.#lease = lease
  }

  /**
   * Adds a delivery that this transport received. `again`: its task was delivered before. That ends an earlier delivery
   * of the task, even if its lease seems to go on: a lease begins when the server sends a message, and not when it is
   * read.
   */
  add(token: Token, again: boolean): void {
    if (again) this.#own.end(token.seq)
    token.until = token.receivedAt + this.#lease
    this.#own.add(token)
    this.#added(token.receivedAt)
  }

  /**
   * The token in a text, with the lease that is known for it. A delivery that this transport received and does not
   * track any more has ended.
   */
  read(text: string): Token | undefined {
    const number = numberIn(text, this.#nonce)
    if (number !== undefined) return this.#own.get(number) ?? readToken(text)
    const token = readToken(text)
    if (token === undefined) return undefined
    token.until = token.receivedAt + this.#lease
    return this.#foreign.get(nameOf(token)) ?? token
  }

  /** Whether this transport received the delivery. */
  isOwn({ nonce }: Token): boolean {
    return nonce === this.#nonce
  }

  /** Gives a delivery a full lease from `now` on, unless it has ended. */
  extend(token: Token, now: number): void {
    if (token.until === 0) return
    token.until = Math.max(token.until, now + this.#lease)
    this.#note(token)
  }

  /** Like {@link extend}, for a delivery that this transport received, by its number. */
  extendOwn(number: number, now: number): void {
    const token = this.#own.get(number)
    if (token !== undefined) this.extend(token, now)
  }

  /** Notes that a delivery has ended. */
  end(token: Token): void {
    token.until = 0
    if (this.isOwn(token)) this.#own.delete(token.number)
    else this.#note(token)
  }

  #note(token: Token): void {
    if (this.isOwn(token)) return
    this.#foreign.set(nameOf(token), token)
    this.#added(token.receivedAt)
  }

  #added(now: number): void {
    if (++this.#additions % SWEEP_EVERY !== 0) return
    const isOld = ({ until, receivedAt }: Token): boolean => Math.max(until, receivedAt) + FORGET_MS < now
    this.#own.forget(isOld)
    for (const [name, token] of this.#foreign) if (isOld(token)) this.#foreign.delete(name)
  }
}

/** Tokens in one block. */
const BLOCK = 256

interface Block {
  /** Tokens of consecutive numbers; `undefined` where a delivery has ended. */
  readonly tokens: Array<Token | undefined>
  /** How many of them have not ended. */
  left: number
}

/**
 * The tokens of the deliveries that this transport received, by number, in blocks: JavaScriptCore keeps what was in a `Map` until
 * it next collects all garbage, and a block that was emptied keeps nothing.
 */
class OwnDeliveries {
  readonly #blocks = new Map<number, Block>()

  add(token: Token): void {
    const key = Math.floor(token.number / BLOCK)
    let block = this.#blocks.get(key)
    if (block === undefined) {
      block = { tokens: [], left: 0 }
      this.#blocks.set(key, block)
    }
    block.tokens[token.number - key * BLOCK] = token
    block.left++
  }

  get(number: number): Token | undefined {
    const key = Math.floor(number / BLOCK)
    return this.#blocks.get(key)?.tokens[number - key * BLOCK]
  }

  delete(number: number): void {
    const key = Math.floor(number / BLOCK)
    const block = this.#blocks.get(key)
    if (block?.tokens[number - key * BLOCK] === undefined) return
    block.tokens[number - key * BLOCK] = undefined
    if (--block.left === 0) this.#blocks.delete(key)
  }

  /** Ends the deliveries of one task, by the sequence of its message. */
  end(seq: number): void {
    for (const { tokens } of this.#blocks.values()) {
      for (const token of tokens) {
        if (token?.seq !== seq) continue
        token.until = 0
        this.delete(token.number)
      }
    }
  }

  forget(isOld: (token: Token) => boolean): void {
    for (const { tokens } of this.#blocks.values())
      for (const token of tokens) if (token !== undefined && isOld(token)) this.delete(token.number)
  }
}

const nameOf = ({ nonce, number }: Token): string => `${nonce}.${number}`
