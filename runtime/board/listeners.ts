/** Listeners of a board: told what all processes announce about it, and of entries that cannot be read. */
import { refuseInput } from "../options/refuse.ts"
import type { BoardNotification } from "./news.ts"

export type BoardEvent = BoardNotification | { readonly event: "UNREADABLE"; readonly key: string }
export type BoardListener = (told: BoardEvent) => unknown

/** Most keys of unreadable entries that are remembered, so that each is reported once. */
const REPORTED = 1_000

export class Listeners {
  readonly #listeners = new Map<string, Set<BoardListener>>()
  readonly #reported = new Set<string>()

  /** Whether there was one ever. */
  get isUsed(): boolean {
    return this.#listeners.size > 0
  }

  /** The returned function ends it. Fails with `invalid-input`. */
  add(event: BoardEvent["event"] | "*", listener: BoardListener): () => void {
    const known: ReadonlyArray<string> = ["POSTED", "REMOVAL", "UNREADABLE", "*"]
    if (!known.includes(event)) refuseInput("event", `must be one of ${known.join(", ")}`)
    if (typeof listener !== "function") refuseInput("listener", "must be a function")
    const listeners = this.#listeners.get(event) ?? new Set()
    this.#listeners.set(event, listeners.add(listener))
    return () => {
      listeners.delete(listener)
    }
  }

  tell(told: BoardEvent): void {
    for (const event of ["*", told.event]) {
      for (const listener of this.#listeners.get(event) ?? []) {
        // A listener that fails must neither end the board nor keep the others from hearing.
        void Promise.resolve()
          .then(() => listener({ ...told }))
          .catch(() => undefined)
      }
    }
  }

  /** Tells of an entry that cannot be read, once. */
  unreadable(key: string): void {
    if (this.#reported.has(key)) return
    if (this.#reported.size >= REPORTED) this.#reported.clear()
    this.#reported.add(key)
    this.tell({ event: "UNREADABLE", key })
  }
}
