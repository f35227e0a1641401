/**
 * Says that this worker is alive, for as long as it holds permits of a limit, and finds out whether others are. The permits
 * of a worker that has died count no more once its entry has lapsed.
 */
import { generateId } from "../../id.ts"
import type { Store } from "../../transport/store.ts"
import { HOLDER_PREFIX } from "./state.ts"

/** An answer about another worker is believed for so long. */
const BELIEVED_MS = 500
/** Clocks and answers are a little late. */
const FRESH = 0.8
const ALIVE = new TextEncoder().encode("alive")

export class Presence {
  /** New with each start: a worker of the same name does not keep the permits of the one before. */
  readonly id = generateId(Date.now())
  readonly key = `${HOLDER_PREFIX}${this.id}`
  readonly #store: Store
  readonly #ttlMs: number
  readonly #begun: () => void
  #beatAt = Number.NEGATIVE_INFINITY
  #first: Promise<void> | undefined
  readonly #alive = new Map<string, number>()

  /** `begun` is called once, when the entry is first written. */
  constructor(store: Store, ttlMs: number, begun: () => void) {
    this.#store = store
    this.#ttlMs = ttlMs
    this.#begun = begun
  }

  /** Resolves once this worker is known to be alive. Fails as the store does. */
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

  /** Whether the entry is certain to be there still: only then the permits that the worker holds are its own. */
  get isFresh(): boolean {
    return performance.now() - this.#beatAt < FRESH * this.#ttlMs
  }

  /** Writes the entry again. Resolves to whether it may have lapsed before, so that others took its permits. */
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
