/**
 * What this process knows about deliveries in its hands: how long they are its own, and which record its claim is. Only
 * a shortcut: whatever is missing here is looked up on the server, so that tokens work from any thread.
 */
import type { Token } from "./delivery.ts"

export interface Held {
  /** When the lease lapses, as far as this process knows. */
  until: number
  /** When the running record was last kept alive. */
  keptAt: number
  /** Whether the delivery arrived in another thread or process. */
  readonly foreign: boolean
  /** Sequence and subject of the record that is current because of this delivery. */
  claim: { readonly seq: number; readonly subject: string } | undefined
}

/** How many settled deliveries are remembered, twice over. */
const SETTLED = 8_192

/** Deliveries that nobody settles (superseded ones, say) are forgotten this long after their lease. */
const FORGET_MS = 600_000

const SWEEP_EVERY = 4_096

export class Ledger {
  readonly #lease: number
  readonly #held = new Map<string, Held>()
  #settled = new Set<string>()
  #settledBefore = new Set<string>()
  #additions = 0

  constructor(lease: number) {
    this.#lease = lease
  }

  /** Notes a delivery that arrived. */
  hold(fence: string, now: number): Held {
    return this.#add(fence, now, false)
  }

  /** Notes a delivery of another thread or process. */
  adopt(fence: string, now: number): Held {
    return this.#add(fence, now, true)
  }

  get(fence: string): Held | undefined {
    return this.#held.get(fence)
  }

  /** Whether a delivery's lease still runs, as far as can be told here. */
  runs(token: Token, now: number): boolean {
    return !this.wasSettled(token.fence) && now < (this.#held.get(token.fence)?.until ?? token.receivedAt + this.#lease)
  }

  /** Forgets a delivery that is over. */
  drop(fence: string): void {
    this.#held.delete(fence)
  }

  settle(fence: string): void {
    this.#held.delete(fence)
    this.#settled.add(fence)
    if (this.#settled.size < SETTLED) return
    this.#settledBefore = this.#settled
    this.#settled = new Set()
  }

  wasSettled(fence: string): boolean {
    return this.#settled.has(fence) || this.#settledBefore.has(fence)
  }

  #add(fence: string, now: number, foreign: boolean): Held {
    const held: Held = { until: now + this.#lease, keptAt: now, foreign, claim: undefined }
    this.#held.set(fence, held)
    if (++this.#additions % SWEEP_EVERY === 0) this.#sweep(now)
    return held
  }

  #sweep(now: number): void {
    for (const [fence, { until }] of this.#held) if (until + FORGET_MS < now) this.#held.delete(fence)
  }
}
