/** The bulk action that the reader is asked about, and the one that runs. There is one at a time. */
import { signal } from "@preact/signals"
import type { BulkPlan, BulkReport } from "../jobs/lists.ts"
import type { Total } from "../options/fields.ts"
import { isNamable, mergedPlans, partsOf } from "./bulk-parts.ts"
import { BulkRun, idsStep, type Progress, type Step } from "./bulk-run.ts"
import { jobPath, type Query } from "./client.ts"
import { api, paused, refresh, send } from "./state.ts"

export type Action = "retry" | "cancel" | "redrive"

/** The jobs to change: by ids, or by the filters of the list that the reader sees. */
export type Which = { readonly ids: ReadonlyArray<string> } | { readonly filter: Readonly<Record<string, string>> }

export interface BulkAction {
  readonly action: Action
  readonly which: Which
  /** Number of these jobs when the reader decided. */
  readonly expected: Total | undefined
}

/** The action that the dialog asks about; `undefined` while the dialog is closed. */
export const pending = signal<BulkAction | undefined>(undefined)

export interface RunningAction {
  readonly decision: BulkAction
  /** Number of jobs to change, where it is exact. */
  readonly total: number | undefined
  readonly progress: Progress
  readonly run: BulkRun
}

/** The action that runs, or that has ended and was not dismissed yet. */
export const running = signal<RunningAction | undefined>(undefined)

const isOver = (): boolean =>
  running.value === undefined || ["over", "stopped", "undone"].includes(running.value.progress.phase)

/** Opens the dialog about an action, unless another one still runs. */
export const askBulk = (decision: BulkAction): void => {
  if (isOver()) pending.value = decision
}

export const bulkPath = (action: Action): string => (action === "redrive" ? "/v1/dead/redrive" : `/v1/jobs/${action}`)

export const onePath = (action: Action, id: string): string =>
  action === "redrive" ? `/v1/dead/${encodeURIComponent(id)}/redrive` : jobPath(id, `/${action}`)

/** How long an action can be undone before it begins, in milliseconds. */
export const UNDO_MS = 8_000

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

/** What an action would do now. Jobs that no list of ids can name are left out of it. */
export const planBulk = async ({ action, which }: BulkAction): Promise<BulkPlan> => {
  const ask = (query: Query) => send<BulkPlan>("POST", bulkPath(action), { ...query, dryRun: true })
  if ("filter" in which) return ask(which.filter)
  const parts = partsOf(which.ids.filter(isNamable))
  return mergedPlans(await Promise.all(parts.map((ids) => ask({ ids: ids.join(",") }))))
}

/** The requests that an action consists of, as addresses. `until`: that of the plan. */
export const callsOf = ({ action, which }: BulkAction, until: string | undefined): ReadonlyArray<string> =>
  "filter" in which
    ? [api.url(bulkPath(action), { ...which.filter, until: until ?? which.filter["until"] })]
    : partsOf(which.ids).map((ids) =>
        ids.every(isNamable)
          ? api.url(bulkPath(action), { ids: ids.join(",") })
          : api.url(onePath(action, ids[0] ?? "")),
      )

const filterStep =
  (action: Action, query: Query, expect: number | undefined) =>
  async (limit: number, cursor: string | undefined): Promise<Step> => {
    // `expect` makes the server refuse the first call where another number of jobs matches by now.
    const asked = { ...query, limit, cursor, expect: cursor === undefined ? expect : undefined }
    const { changed, refused, ids, next, partial } = await send<BulkReport>("POST", bulkPath(action), asked)
    return {
      changed,
      refused,
      ids,
      ...(next === undefined ? {} : { next }),
      ...(partial === undefined ? {} : { partial }),
    }
  }

/** Starts an action, which begins after `UNDO_MS`. `until`: only jobs that were submitted by then match the filters. */
export const runBulk = (
  decision: BulkAction,
  matches: Total | undefined,
  until: string | undefined,
  tryFirst: number,
): void => {
  const { action, which } = decision
  const total = matches?.relation === "eq" ? matches.value : undefined
  const step =
    "ids" in which
      ? idsStep(which.ids, {
          many: (ids) => send<BulkReport>("POST", bulkPath(action), { ids: ids.join(",") }),
          one: (id) => send("POST", onePath(action, id)),
        })
      : filterStep(action, { ...which.filter, until }, total)
  const run = new BulkRun({
    step,
    tryFirst,
    waitMs: UNDO_MS,
    now: Date.now,
    sleep,
    onChange: (progress) => {
      const before = running.peek()
      if (before !== undefined && before.run === run) running.value = { ...before, progress }
      if (progress.phase === "over" || progress.phase === "stopped") refresh()
    },
  })
  running.value = { decision, total, progress: run.progress, run }
  pending.value = undefined
  paused.value = false
  void run.run()
}

/** Makes the browser ask before it closes a tab whose action still changes jobs. */
export const guardBulk = (): void =>
  window.addEventListener("beforeunload", (event) => {
    if (!isOver() && running.value?.progress.phase !== "waiting") event.preventDefault()
  })
