/**
 * What this transport knows about deliveries: how long they are its own. Of those that arrived at another one, in another
 * connection or thread, only the token came here.
 */
import { numberIn, readToken, type Token } from "./delivery.ts"

interface Held {
  readonly token: Token
  /** When the lease lapses, as far as this thread knows. 0: the delivery is over. */
  until: number
}

/** Deliveries that nobody ends are forgotten this long after their lease. */
const FORGET_MS = 86_400_000

const SWEEP_EVERY = 16_384

export class Ledger {
  readonly #nonce: string
  readonly #lease: number
  readonly #own = new Map<number, Held>()
  readonly #foreign = new Map<string, Held>()
  #additions = 0

  /** `nonce` is that of the deliveries that arrive here. */
  constructor(nonce: string, lease: number) {
    this.#nonce = nonce
    this.#lease = lease
  }

  /**
   * Notes a delivery that arrived here. `again`: its task was delivered before. An earlier delivery that arrived here, too,
   * is over by that, although it may seem to have time left: its lease began when it was sent, and not when it was read.
   */
  hold(token: Token, again: boolean): void {
    const { number, receivedAt, seq } = token
    if (again) for (const held of this.#own.values()) if (held.token.seq === seq) held.until = 0
    this.#own.set(number, { token, until: receivedAt + this.#lease })
    this.#added(receivedAt)
  }

  /** The token in a text, read before if its delivery is in hand here. */
  read(text: string): Token | undefined {
    const number = numberIn(text, this.#nonce)
    return (number === undefined ? undefined : this.#own.get(number)?.token) ?? readToken(text)
  }

  /** Whether it arrived here. */
  isOwn({ nonce }: Token): boolean {
    return nonce === this.#nonce
  }

  /** Whether a delivery's lease still runs, as far as can be told here. What arrived here and is not in hand is over. */
  runs(token: Token, now: number): boolean {
    if (this.isOwn(token)) return now < (this.#own.get(token.number)?.until ?? 0)
    return now < (this.#foreign.get(nameOf(token))?.until ?? token.receivedAt + this.#lease)
  }

  /** A delivery has a full lease from `now` on. */
  extend(token: Token, now: number): void {
    if (this.isOwn(token)) this.extendOwn(token.number, now)
    else this.#note(token, now + this.#lease)
  }

  /** The same for a delivery that arrived here, of which only the number is known. */
  extendOwn(number: number, now: number): void {
    const held = this.#own.get(number)
    if (held !== undefined && held.until > 0) held.until = Math.max(held.until, now + this.#lease)
  }

  /** A delivery is over. */
  end(token: Token): void {
    if (this.isOwn(token)) this.#own.delete(token.number)
    else this.#note(token, 0)
  }

  #note(token: Token, until: number): void {
    this.#foreign.set(nameOf(token), { token, until })
    this.#added(Date.now())
  }

  #added(now: number): void {
    if (++this.#additions % SWEEP_EVERY !== 0) return
    const isOld = ({ token, until }: Held): boolean => Math.max(until, token.receivedAt) + FORGET_MS < now
    for (const [number, held] of this.#own) if (isOld(held)) this.#own.delete(number)
    for (const [name, held] of this.#foreign) if (isOld(held)) this.#foreign.delete(name)
  }
}

const nameOf = ({ nonce, number }: Token): string => `${nonce}.${number}`
