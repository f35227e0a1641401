/**
 * What this transport knows about deliveries: how long they are its own, and which record its claim is. Deliveries that
 * arrived here are known by number; those of other connections and threads, of which only the token came here, by fence.
 * What is missing here is looked up on the server, so that tokens work from anywhere.
 */
import type { Mint, Token } from "./delivery.ts"

export interface Held {
  readonly token: Token
  /** When the lease lapses, as far as this thread knows. */
  until: number
  /** When the running record was last kept alive. */
  keptAt: number
  /** Sequence and subject of the record that is current because of this delivery. */
  claim: { readonly seq: number; readonly subject: string } | undefined
}

/** How many deliveries of other threads are remembered as settled, twice over. */
const SETTLED = 4_096

/** Deliveries that nobody settles are forgotten this long after their lease. */
const FORGET_MS = 86_400_000

const SWEEP_EVERY = 16_384

export class Ledger {
  readonly #mint: Mint
  readonly #lease: number
  readonly #own = new Map<number, Held>()
  readonly #foreign = new Map<string, Held>()
  #settled = new Set<string>()
  #settledBefore = new Set<string>()
  #additions = 0

  constructor(mint: Mint, lease: number) {
    this.#mint = mint
    this.#lease = lease
  }

  /**
   * Notes a delivery that arrived here. `again`: its task was delivered before. An earlier delivery that arrived here, too,
   * is over by that, although it may seem to have time left: its lease began when it was sent, and not when it was read.
   */
  hold(token: Token, again: boolean): void {
    const { number, receivedAt, seq } = token
    if (number === undefined) return
    if (again) for (const held of this.#own.values()) if (held.token.seq === seq) held.until = 0
    this.#own.set(number, { token, until: receivedAt + this.#lease, keptAt: receivedAt, claim: undefined })
    if (++this.#additions % SWEEP_EVERY === 0) this.#sweep(receivedAt)
  }

  /** The token in a text, read before if its delivery is in hand here. */
  read(text: string): Token | undefined {
    const number = this.#mint.numberIn(text)
    return (number === undefined ? undefined : this.#own.get(number)?.token) ?? this.#mint.readToken(text)
  }

  get(token: Token): Held | undefined {
    return token.number === undefined ? this.#foreign.get(token.fence) : this.#own.get(token.number)
  }

  /** Like `get`; begins to note a delivery of another thread. */
  note(token: Token): Held {
    const found = this.get(token)
    if (found !== undefined) return found
    const { receivedAt } = token
    const held: Held = { token, until: receivedAt + this.#lease, keptAt: receivedAt, claim: undefined }
    this.#foreign.set(token.fence, held)
    if (++this.#additions % SWEEP_EVERY === 0) this.#sweep(Date.now())
    return held
  }

  /** Whether a delivery's lease still runs, as far as can be told here. */
  runs(token: Token, now: number): boolean {
    return !this.wasSettled(token) && now < (this.get(token)?.until ?? token.receivedAt + this.#lease)
  }

  /** Forgets a delivery that is over. */
  settle({ number, fence }: Token): void {
    if (number !== undefined) {
      this.#own.delete(number)
      return
    }
    this.#foreign.delete(fence)
    this.#settled.add(fence)
    if (this.#settled.size < SETTLED) return
    this.#settledBefore = this.#settled
    this.#settled = new Set()
  }

  /** What arrived here and is not in hand any more was settled. */
  wasSettled({ number, fence }: Token): boolean {
    if (number !== undefined) return !this.#own.has(number)
    return this.#settled.has(fence) || this.#settledBefore.has(fence)
  }

  #sweep(now: number): void {
    for (const [number, { until }] of this.#own) if (until + FORGET_MS < now) this.#own.delete(number)
    for (const [fence, { until }] of this.#foreign) if (until + this.#lease < now) this.#foreign.delete(fence)
  }
}
