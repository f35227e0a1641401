/** The decision about many jobs that is being made, or goes on: one at a time. */
import { signal } from "@preact/signals"
import type { BulkReport, Total } from "./api.ts"
import { BulkRun, idsStep, type Progress, type Step } from "./bulk-run.ts"
import { jobPath, type Query } from "./client.ts"
import { paused, refresh, send } from "./state.ts"

export type Action = "retry" | "cancel" | "redrive"

/** Jobs by their ids, or by filters of the server: what is seen is what is meant. */
export type Which = { readonly ids: ReadonlyArray<string> } | { readonly filter: Readonly<Record<string, string>> }

export interface Decision {
  readonly action: Action
  readonly which: Which
  /** How many that were, where the reader decided. */
  readonly expected: Total | undefined
}

/** What the dialog asks about. */
export const asked = signal<Decision | undefined>(undefined)

export interface Going {
  readonly decision: Decision
  /** How many it is about. */
  readonly total: number | undefined
  readonly progress: Progress
  readonly run: BulkRun
}

/** What goes on, or has ended and was not put away yet. */
export const going = signal<Going | undefined>(undefined)

const isOver = (): boolean =>
  going.value === undefined || ["over", "stopped", "undone"].includes(going.value.progress.phase)

/** Asks about a decision, unless another one goes on still. */
export const startBulk = (decision: Decision): void => {
  if (isOver()) asked.value = decision
}

export const bulkPath = (action: Action): string => (action === "redrive" ? "/v1/dead/redrive" : `/v1/jobs/${action}`)

export const onePath = (action: Action, id: string): string =>
  action === "redrive" ? `/v1/dead/${encodeURIComponent(id)}/redrive` : jobPath(id, `/${action}`)

/** How long it can be undone before it begins, in milliseconds. */
export const UNDO_MS = 8_000

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

const filterStep =
  (action: Action, query: Query, expect: number | undefined) =>
  async (limit: number, cursor: string | undefined): Promise<Step> => {
    // What is begun is not what was seen, where another number of jobs matches: then nothing is changed.
    const asked = { ...query, limit, cursor, expect: cursor === undefined ? expect : undefined }
    const { changed, refused, ids, next, more } = await send<BulkReport>("POST", bulkPath(action), asked)
    return { changed, refused, ids, ...(more && next !== undefined ? { next } : {}) }
  }

/** Begins, after the time in which it can be undone. `until` freezes what the filters match. */
export const goBulk = (
  decision: Decision,
  matches: Total | undefined,
  until: string | undefined,
  tryFirst: number,
): void => {
  const { action, which } = decision
  const total = matches?.relation === "eq" ? matches.value : undefined
  const step =
    "ids" in which
      ? idsStep(which.ids, (id) => send("POST", onePath(action, id)))
      : filterStep(action, { ...which.filter, until }, total)
  const run = new BulkRun({
    step,
    tryFirst,
    waitMs: UNDO_MS,
    now: Date.now,
    sleep,
    onChange: (progress) => {
      const before = going.peek()
      if (before !== undefined && before.run === run) going.value = { ...before, progress }
      if (progress.phase === "over" || progress.phase === "stopped") refresh()
    },
  })
  going.value = { decision, total, progress: run.progress, run }
  asked.value = undefined
  paused.value = false
  void run.run()
}

/** The browser asks before a tab is closed on which jobs are still being changed. */
export const startBulkGuard = (): void =>
  window.addEventListener("beforeunload", (event) => {
    if (!isOver() && going.value?.progress.phase !== "waiting") event.preventDefault()
  })
