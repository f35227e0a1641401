/**
 * One bulk action on many jobs: a wait in which it can be undone, a trial on the first few jobs, then one call per page
 * until no job is left or the reader stops it. It runs in the browser, so it ends when the page is closed.
 */
import type { PartlyDone } from "../jobs/responses.ts"
import { isNamable, MAX_IDS, partsOf } from "./bulk-parts.ts"
import { ApiError } from "./client.ts"

/** The result of one call. */
export interface Step {
  readonly changed: number
  readonly refused: ReadonlyArray<{ readonly id: string; readonly code: string }>
  /** Ids of the changed jobs, where the call returns them. */
  readonly ids?: ReadonlyArray<string>
  /** Cursor of the next call; absent when no job is left. */
  readonly next?: string
  /** How many jobs are left, where the call counts them. */
  readonly partial?: PartlyDone
}

export interface Progress {
  readonly phase: "waiting" | "trying" | "asking" | "running" | "over" | "stopped" | "undone"
  /** When the action begins, in milliseconds of this machine's clock. */
  readonly startsAt: number
  readonly changed: number
  /** Number of jobs that could not be changed, by reason. */
  readonly refused: Readonly<Record<string, number>>
  /** Ids of the jobs of the trial. */
  readonly tried: ReadonlyArray<string>
  /** How many jobs were left after the last call, where that counted them. */
  readonly left?: Pick<PartlyDone, "left" | "more">
  /** Why the action ended early. */
  readonly error?: string
}

export interface BulkOptions {
  /** Changes at most `limit` jobs from `cursor` on. Rejects with an `ApiError`. */
  readonly step: (limit: number, cursor: string | undefined) => Promise<Step>
  /** Number of jobs in the trial; 0 for no trial. */
  readonly tryFirst: number
  readonly waitMs: number
  readonly onChange: (progress: Progress) => void
  readonly now: () => number
  readonly sleep: (ms: number) => Promise<void>
}

/** How often a call without an answer is repeated, and the wait before each repetition in milliseconds. */
const TRIES = 5
const AGAIN_MS = 2_000

/** What changes jobs by their ids. */
export interface Changes {
  readonly many: (ids: ReadonlyArray<string>) => Promise<Step>
  /** For a job that no list of ids can name. */
  readonly one: (id: string) => Promise<unknown>
}

/** The call that changes the next of these jobs: as many as one request can name. */
export const idsStep =
  (ids: ReadonlyArray<string>, { many, one }: Changes): BulkOptions["step"] =>
  async (limit, cursor) => {
    const from = Number(cursor ?? 0)
    const [part = []] = partsOf(ids.slice(from, from + limit))
    const [only = ""] = part
    const { changed, refused, ids: done = [] } = isNamable(only) ? await many(part) : await alone(only, one)
    const next = from + part.length
    return { changed, refused, ids: done, ...(next < ids.length ? { next: String(next) } : {}) }
  }

const alone = async (id: string, change: Changes["one"]): Promise<Step> => {
  try {
    await change(id)
    return { changed: 1, refused: [], ids: [id] }
  } catch (error) {
    // Such an error is not about this job.
    if (!(error instanceof ApiError) || [0, 401, 403, 503].includes(error.status)) throw error
    return { changed: 0, refused: [{ id, code: error.code }] }
  }
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

  /** Resolves when the action has ended, was stopped or was undone. */
  async run(): Promise<void> {
    this.#set({})
    await this.#options.sleep(this.#options.waitMs)
    if (this.#isEnded()) return
    const { tryFirst } = this.#options
    if (tryFirst > 0) {
      this.#set({ phase: "trying" })
      // The reader may have stopped the action while the call was under way.
      if (!(await this.#step(tryFirst)) || this.#isEnded()) return
      const asked = new Promise<void>((resolve) => {
        this.#goOn = resolve
      })
      this.#set({ phase: "asking" })
      await asked
      if (this.#isEnded()) return
    }
    this.#set({ phase: "running" })
    while (await this.#step(MAX_IDS)) if (this.#isEnded()) return
  }

  /** Undoes the action before its first call: no job is changed. */
  undo(): void {
    if (this.#progress.phase === "waiting") this.#set({ phase: "undone" })
  }

  /** Stops the action: after the call that is under way no further one is made. */
  stop(): void {
    if (this.#isEnded()) return
    this.#set({ phase: "stopped" })
    this.#goOn?.()
  }

  /** Continues after the trial with the other jobs. */
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

  /** Makes one call. Returns whether jobs are left. */
  async #step(limit: number): Promise<boolean> {
    for (let tries = 1; ; tries++) {
      try {
        const { changed, refused, ids = [], next, partial } = await this.#options.step(limit, this.#cursor)
        const counts: Record<string, number> = { ...this.#progress.refused }
        for (const { code } of refused) counts[code] = (counts[code] ?? 0) + 1
        this.#cursor = next
        const isFirst = this.#progress.phase === "trying"
        this.#set({
          changed: this.#progress.changed + changed,
          refused: counts,
          ...(isFirst ? { tried: ids } : {}),
          ...(partial === undefined ? {} : { left: partial }),
          ...(next === undefined ? { phase: "over" } : {}),
        })
        return next !== undefined
      } catch (error) {
        if (!(error instanceof ApiError)) throw error
        // Repeating is safe: a job that was changed already is refused, or no longer matches the filter.
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
