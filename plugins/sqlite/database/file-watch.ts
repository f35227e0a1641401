/**
 * Whether the file under its path is still the one that is open. One that was removed or replaced goes on existing for
 * this process alone: what it accepts would be lost. Looked at five times a second and, while there is work, ten times:
 * a look costs a system call, so that not every operation has its own.
 */
import { type Stats, statSync } from "node:fs"
import type { Database } from "./database.ts"

const IDLE_LOOK_MS = 200
const BUSY_LOOK_MS = 100

export class FileWatch {
  readonly #path: string | undefined
  readonly #onGone: () => void
  readonly #opened: Stats | undefined
  readonly #timer: ReturnType<typeof setInterval>
  #lookedAt = performance.now()

  /** `onGone` is called once. */
  constructor(database: Database, onGone: () => void) {
    this.#path = database.path
    this.#onGone = onGone
    this.#opened = this.#stat()
    this.#timer = setInterval(() => this.#look(), IDLE_LOOK_MS)
    this.#timer.unref()
  }

  /** Called before each operation. */
  touch(): void {
    if (performance.now() - this.#lookedAt >= BUSY_LOOK_MS) this.#look()
  }

  close(): void {
    clearInterval(this.#timer)
  }

  #look(): void {
    this.#lookedAt = performance.now()
    if (this.#opened === undefined) return
    const now = this.#stat()
    if (now?.ino === this.#opened.ino && now.dev === this.#opened.dev) return
    this.close()
    this.#onGone()
  }

  /** `undefined` when there is no such file. What cannot be looked at now counts as it was. */
  #stat(): Stats | undefined {
    if (this.#path === undefined) return undefined
    try {
      return statSync(this.#path, { throwIfNoEntry: false })
    } catch {
      return this.#opened
    }
  }
}
