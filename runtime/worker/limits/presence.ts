/**
 * Keeps an entry in the store that shows that this worker is alive while it holds permits, and looks up the entries of
 * other workers. The permits of a dead worker are free once its entry has expired.
 */
import { generateId } from "../../id.ts"
import { encoder } from "../../protocol/text.ts"
import type { Store } from "../../transport/store.ts"

/** Prefix of the entries that workers with permits or requests keep alive. */
export const HOLDER_PREFIX = "limit-holder/"

/** Time for which the answer about another worker is cached. */
const BELIEVED_MS = 500
/** Part of the entry's life in which it certainly exists; the rest allows for late timers and answers. */
const FRESH = 0.8
const ALIVE = encoder.encode("alive")

export class Presence {
  /** New with each start, so that a worker does not own the permits of an earlier one with its name. */
  readonly id = generateId(Date.now())
  readonly key = `${HOLDER_PREFIX}${this.id}`
  readonly #store: Store
  readonly #ttlMs: number
  readonly #begun: () => void
  #beatAt = Number.NEGATIVE_INFINITY
  #first: Promise<void> | undefined
  readonly #alive = new Map<string, number>()

  /** `begun` is called once, when the entry was first written. */
  constructor(store: Store, ttlMs: number, begun: () => void) {
    this.#store = store
    this.#ttlMs = ttlMs
    this.#begun = begun
  }

  /** Resolves once the entry is written. Fails as the store does. */
  begin(): Promise<void> {
    this.#first ??= this.beat().then(this.#begun, (cause: unknown) => {
      this.#first = undefined
      throw cause
    })
    return this.#first
  }

  get hasBegun(): boolean {
    return this.#first !== undefined
  }

  /** Whether the entry certainly still exists. Only then are the worker's permits its own. */
  get isFresh(): boolean {
    return performance.now() - this.#beatAt < FRESH * this.#ttlMs
  }

  /**
   * Writes the entry again. Resolves to true if it may have expired before, so that other workers may have taken the
   * permits.
   */
  async beat(): Promise<boolean> {
    const at = performance.now()
    await this.#store.write([{ key: this.key, value: ALIVE, ttl: this.#ttlMs }])
    const lapsed = at - this.#beatAt >= this.#ttlMs
    this.#beatAt = at
    return lapsed
  }

  async isAlive(id: string): Promise<boolean> {
    const now = performance.now()
    if (id === this.id || (this.#alive.get(id) ?? Number.NEGATIVE_INFINITY) > now - BELIEVED_MS) return true
    const alive = (await this.#store.get([`${HOLDER_PREFIX}${id}`]))[0] !== undefined
    if (alive) this.#alive.set(id, now)
    else this.#alive.delete(id)
    return alive
  }

  async end(): Promise<void> {
    if (this.hasBegun) await this.#store.write([{ key: this.key, value: null }])
  }
}
