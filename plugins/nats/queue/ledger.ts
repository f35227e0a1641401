/**
 * What this transport knows about deliveries: how long they are its own. Of those that arrived at another one, in another
 * connection or thread, only the token came here.
 */
import { numberIn, readToken, type Token } from "./delivery.ts"

/** Deliveries that nobody ends are forgotten this long after their lease. */
const FORGET_MS = 86_400_000

const SWEEP_EVERY = 16_384

export class Ledger {
  readonly #nonce: string
  readonly #lease: number
  readonly #own = new Map<number, Token>()
  readonly #foreign = new Map<string, Token>()
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
    if (again) for (const held of this.#own.values()) if (held.seq === token.seq) held.until = 0
    token.until = token.receivedAt + this.#lease
    this.#own.set(token.number, token)
    this.#added(token.receivedAt)
  }

  /** The token in a text. What arrived here and is not in hand any more is over. */
  read(text: string): Token | undefined {
    const number = numberIn(text, this.#nonce)
    if (number !== undefined) return this.#own.get(number) ?? readToken(text)
    const token = readToken(text)
    if (token === undefined) return undefined
    token.until = token.receivedAt + this.#lease
    return this.#foreign.get(nameOf(token)) ?? token
  }

  /** Whether it arrived here. */
  isOwn({ nonce }: Token): boolean {
    return nonce === this.#nonce
  }

  /** A delivery has a full lease from `now` on, unless it is over. */
  extend(token: Token, now: number): void {
    if (token.until === 0) return
    token.until = Math.max(token.until, now + this.#lease)
    this.#note(token)
  }

  /** The same for a delivery that arrived here, of which only the number is known. */
  extendOwn(number: number, now: number): void {
    const token = this.#own.get(number)
    if (token !== undefined) this.extend(token, now)
  }

  /** A delivery is over. */
  end(token: Token): void {
    token.until = 0
    if (this.isOwn(token)) this.#own.delete(token.number)
    else this.#note(token)
  }

  #note(token: Token): void {
    if (this.isOwn(token)) return
    this.#foreign.set(nameOf(token), token)
    this.#added(Date.now())
  }

  #added(now: number): void {
    if (++this.#additions % SWEEP_EVERY !== 0) return
    const isOld = ({ until, receivedAt }: Token): boolean => Math.max(until, receivedAt) + FORGET_MS < now
    for (const [number, token] of this.#own) if (isOld(token)) this.#own.delete(number)
    for (const [name, token] of this.#foreign) if (isOld(token)) this.#foreign.delete(name)
  }
}

const nameOf = ({ nonce, number }: Token): string => `${nonce}.${number}`
