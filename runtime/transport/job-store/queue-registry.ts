/**
 * The names of all queues that were used and not deleted: entries of the store, so that a queue is listed while it is
 * empty, or while it has only jobs that wait for others.
 */
import type { Store } from "../store.ts"

/** Prefix of the keys; the name of a queue follows. */
const PREFIX = "queue/"

/** How long a process takes a queue for listed before it looks again, since another process may have deleted it. */
const LOOK_AGAIN_MS = 60_000

/** Most names that a process remembers. */
const MOST = 10_000

/** Longest that a closing transport waits for names that are being listed. */
const CLOSING_MS = 250

export class QueueRegistry {
  readonly #store: Store
  /** The listing of each queue that this process has used lately. */
  readonly #known = new Map<string, Promise<void>>()
  #lookAgain = 0

  constructor(store: Store) {
    this.#store = store
  }

  /**
   * Lists a queue that is used. Resolves once it is listed. It never rejects: a failure does not fail the use of the
   * queue. It is tried again when the process looks again, not with each task: a submitter may have no permission to do it.
   */
  note(queue: string): Promise<void> {
    const now = performance.now()
    if (now >= this.#lookAgain || this.#known.size >= MOST) {
      this.#known.clear()
      this.#lookAgain = now + LOOK_AGAIN_MS
    }
    let listing = this.#known.get(queue)
    if (listing === undefined) {
      listing = this.#list(queue).catch(() => undefined)
      this.#known.set(queue, listing)
    }
    return listing
  }

  /** Reads first, since a submitter need not be allowed to write the store. */
  async #list(queue: string): Promise<void> {
    const key = PREFIX + queue
    const [found] = await this.#store.get([key])
    if (found === undefined) await this.#store.write([{ key, value: new Uint8Array(0) }])
  }

  async names(): Promise<ReadonlyArray<string>> {
    const entries = await this.#store.list({ prefix: PREFIX, limit: MOST })
    return entries.map(({ key }) => key.slice(PREFIX.length))
  }

  /** Takes a queue off the list, until it is used again. */
  async remove(queue: string): Promise<void> {
    this.#known.delete(queue)
    await this.#store.write([{ key: PREFIX + queue, value: null }])
  }

  /** Resolves when no name is being listed any more, or soon. */
  async settled(): Promise<void> {
    let timer: ReturnType<typeof setTimeout> | undefined
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, CLOSING_MS)
    })
    await Promise.race([Promise.all(this.#known.values()), late])
    clearTimeout(timer)
  }
}
