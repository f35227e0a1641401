/**
 * How many tasks each limit holds up, of all workers: each worker writes its numbers into an entry of the store while there are
 * some, for `GET /v1/limits`.
 */
import * as Schema from "effect/Schema"
import { StoreEntry } from "../async/store-entry.ts"
import type { Log } from "../log/log.ts"
import type { Store } from "../transport/store.ts"

/** By the key of the limit. The name is that of the worker as a holder of permits. */
const HELD_TASKS = new StoreEntry("limit-held/", Schema.Record(Schema.String, Schema.Int))

/** Most limits in an entry, those with the most tasks first: each tenant has one. */
const MAX_LIMITS = 1_000
/** Shortest time between two writes of changed numbers. */
const STEP_MS = 1_000

/** How many tasks are held up, by the key of the limit. Reads up to `max` workers. Fails as the store does. */
export const readHeldTasks = async (store: Store, max: number): Promise<ReadonlyMap<string, number>> => {
  const sums = new Map<string, number>()
  for (const { value } of await HELD_TASKS.list(store, max))
    for (const [key, count] of Object.entries(value)) sums.set(key, (sums.get(key) ?? 0) + count)
  return sums
}

/** Writes the numbers of one worker. */
export class HeldTasksReport {
  readonly #store: Store
  readonly #log: Log
  readonly #name: string
  readonly #ttlMs: number
  #written = ""
  #writtenAt = Number.NEGATIVE_INFINITY
  #writing: Promise<void> | undefined

  /** `ttlMs`: how long the numbers of a worker that was killed are kept. */
  constructor(store: Store, log: Log, name: string, ttlMs: number) {
    this.#store = store
    this.#log = log
    this.#name = name
    this.#ttlMs = ttlMs
  }

  /** Called regularly: writes the numbers if they have changed, or expire soon. */
  report(held: () => ReadonlyMap<string, number>): void {
    const passed = performance.now() - this.#writtenAt
    if (this.#writing !== undefined || passed < STEP_MS) return
    const most = [...held()].sort(([, a], [, b]) => b - a).slice(0, MAX_LIMITS)
    const value = Object.fromEntries(most)
    const text = most.length === 0 ? "" : JSON.stringify(value)
    if (text === this.#written && (text === "" || passed < this.#ttlMs / 3)) return
    const entry = text === "" ? HELD_TASKS.remove(this.#name) : HELD_TASKS.put(this.#name, value, this.#ttlMs)
    this.#writtenAt = performance.now()
    this.#writing = this.#store
      .write([entry])
      .then(
        () => {
          this.#written = text
        },
        (cause: unknown) =>
          this.#log.debug("the number of limited tasks could not be written", { cause: String(cause) }),
      )
      .finally(() => {
        this.#writing = undefined
      })
  }

  /** Removes the numbers. Never rejects: what cannot be removed expires. */
  async end(): Promise<void> {
    await this.#writing
    if (this.#written !== "") await this.#store.write([HELD_TASKS.remove(this.#name)]).catch(() => undefined)
  }
}
