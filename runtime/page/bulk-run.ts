/**
 * A decision about many jobs, as it goes: a wait in which it can be taken back, the first few, and then page after page until
 * none is left or it is stopped. The server holds nothing of it: it goes on for as long as the page is open.
 */
import { ApiError } from "./client.ts"

/** What one call has done. */
export interface Step {
  readonly changed: number
  readonly refused: ReadonlyArray<{ readonly id: string; readonly code: string }>
  /** Ids of those that were changed, as far as the call tells them. */
  readonly ids?: ReadonlyArray<string>
  /** Where it goes on; absent: nothing is left. */
  readonly next?: string
}

export interface Progress {
  readonly phase: "waiting" | "trying" | "asking" | "running" | "over" | "stopped" | "undone"
  /** When it begins, by the clock of this machine. */
  readonly startsAt: number
  readonly changed: number
  /** How many could not be changed, by the reason. */
  readonly refused: Readonly<Record<string, number>>
  /** Those that were tried first. */
  readonly tried: ReadonlyArray<string>
  /** Why it ended before its time. */
  readonly error?: string
}

export interface BulkOptions {
  /** Changes at most `limit` jobs, from `cursor` on. Rejects with an `ApiError`. */
  readonly step: (limit: number, cursor: string | undefined) => Promise<Step>
  /** How many are tried first; 0: none. */
  readonly tryFirst: number
  readonly waitMs: number
  readonly onChange: (progress: Progress) => void
  readonly now: () => number
  readonly sleep: (ms: number) => Promise<void>
}

/** Jobs of one call. */
const PAGE = 100

/** How often a call is made again that nothing answered, and the wait before. */
const TRIES = 5
const AGAIN_MS = 2_000

/** Jobs that are decided one by one in one call, so that a stop comes soon. */
const FEW = 10

/** A call about the next of these jobs, each of which is decided by itself. */
export const idsStep =
  (ids: ReadonlyArray<string>, decide: (id: string) => Promise<unknown>): BulkOptions["step"] =>
  async (limit, cursor) => {
    const from = Number(cursor ?? 0)
    const done: Array<string> = []
    const refused: Array<{ readonly id: string; readonly code: string }> = []
    const next = (): number => from + done.length + refused.length
    for (const id of ids.slice(from, from + Math.min(limit, FEW))) {
      try {
        await decide(id)
        done.push(id)
      } catch (error) {
        if (!(error instanceof ApiError)) throw error
        if ([0, 401, 403, 503].includes(error.status)) {
          // It says nothing of this job. What was decided before is told, and the next call begins here.
          if (next() === from) throw error
          break
        }
        refused.push({ id, code: error.code })
      }
    }
    return { changed: done.length, refused, ids: done, ...(next() < ids.length ? { next: String(next()) } : {}) }
  }

export class BulkRun {
  readonly #options: BulkOptions
  #progress: Progress
  #cursor: string | undefined
  #goOn: (() => void) | undefined

  constructor(options: BulkOptions) {
    this.#options = options
    const startsAt = options.now() + options.waitMs
    this.#progress = { phase: "waiting", startsAt, changed: 0, refused: {}, tried: [] }
  }

  get progress(): Progress {
    return this.#progress
  }

  /** Resolves when it is over, stopped or undone. */
  async run(): Promise<void> {
    this.#set({})
    await this.#options.sleep(this.#options.waitMs)
    if (this.#isEnded()) return
    const { tryFirst } = this.#options
    if (tryFirst > 0) {
      this.#set({ phase: "trying" })
      // It may have been stopped while the call was under way.
      if (!(await this.#step(tryFirst)) || this.#isEnded()) return
      const asked = new Promise<void>((resolve) => {
        this.#goOn = resolve
      })
      this.#set({ phase: "asking" })
      await asked
      if (this.#isEnded()) return
    }
    this.#set({ phase: "running" })
    while (await this.#step(PAGE)) if (this.#isEnded()) return
  }

  /** Before the first call: nothing happens. */
  undo(): void {
    if (this.#progress.phase === "waiting") this.#set({ phase: "undone" })
  }

  /** After the call that is under way no other one is made. */
  stop(): void {
    if (this.#isEnded()) return
    this.#set({ phase: "stopped" })
    this.#goOn?.()
  }

  /** After the first few: with the rest. */
  goOn(): void {
    this.#goOn?.()
  }

  #isEnded(): boolean {
    return ["over", "stopped", "undone"].includes(this.#progress.phase)
  }

  #set(change: Partial<Progress>): void {
    this.#progress = { ...this.#progress, ...change }
    this.#options.onChange(this.#progress)
  }

  /** One call. Returns whether more is left to do. */
  async #step(limit: number): Promise<boolean> {
    for (let tries = 1; ; tries++) {
      try {
        const { changed, refused, ids = [], next } = await this.#options.step(limit, this.#cursor)
        const counts: Record<string, number> = { ...this.#progress.refused }
        for (const { code } of refused) counts[code] = (counts[code] ?? 0) + 1
        this.#cursor = next
        const isFirst = this.#progress.phase === "trying"
        this.#set({
          changed: this.#progress.changed + changed,
          refused: counts,
          ...(isFirst ? { tried: ids } : {}),
          ...(next === undefined ? { phase: "over" } : {}),
        })
        return next !== undefined
      } catch (error) {
        if (!(error instanceof ApiError)) throw error
        // What was changed already is refused the second time, or does not match any more: repeating is safe.
        const isPassing = error.status === 0 || error.status === 503
        if (this.#isEnded()) return false
        if (!isPassing || tries >= TRIES) {
          this.#set({ phase: "stopped", error: error.message })
          return false
        }
        await this.#options.sleep(AGAIN_MS)
        if (this.#isEnded()) return false
      }
    }
  }
}
