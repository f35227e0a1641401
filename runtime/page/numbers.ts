/** The numbers of jobs and handlers that the page shows, with their words. */
import type { WorkerView } from "../cluster/directory.ts"
import type { Stats } from "../statistics/schema.ts"
import { many, whole } from "./times.ts"

/** How many handlers of a worker run. */
export const busyOf = ({ busy, running }: Pick<WorkerView, "busy" | "running">): number => busy ?? running.length

/** A rate that is not 0 is not shown as 0. */
export const rate = (perMinute: number): string => {
  if (perMinute > 0 && perMinute < 0.05) return "< 0.1"
  return perMinute < 10 ? perMinute.toFixed(1) : whole(perMinute)
}

export const busyWords = ({ handlers: { busy, all } }: Pick<Stats, "handlers">): string =>
  `${whole(busy)} of ${many(all, "handler")} busy`

/** How many of the scheduled jobs retry. `isCut`: not all of them were looked at. */
const retryWords = (count: number, isCut: boolean): string => {
  if (isCut && count === 0) return ""
  return `${isCut ? "at least " : ""}${whole(count)} retrying`
}

const PRESENT = ["deferred", "scheduled", "queued", "started"] as const

/** The states of jobs that have not ended: how many jobs are in each, and a few words about them. `cut`: states with more. */
export const presentStates = (
  counts: Stats["counts"] | undefined,
  cut: ReadonlyArray<string>,
  stats: Pick<Stats, "handlers" | "perMinute"> | undefined,
): ReadonlyArray<{ readonly state: (typeof PRESENT)[number]; readonly value: string; readonly words: string }> => {
  const words: Readonly<Record<(typeof PRESENT)[number], string>> = {
    deferred: counts?.["deferred"] === 1 ? "waits for other jobs" : "wait for other jobs",
    scheduled: counts?.["retrying"] === undefined ? "" : retryWords(counts["retrying"], cut.includes("retrying")),
    queued: stats?.perMinute === undefined ? "" : `${rate(stats.perMinute.in)}/min arriving`,
    started: stats === undefined ? "" : busyWords(stats),
  }
  return PRESENT.map((state) => {
    const count = counts?.[state]
    const value = count === undefined ? "–" : `${whole(count)}${cut.includes(state) ? "+" : ""}`
    return { state, value, words: words[state] }
  })
}
