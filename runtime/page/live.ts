/**
 * Asks `GET /v1/pulse` every two seconds while the page is visible: how many jobs each state has, and how the jobs in
 * view have changed. It is the only regular request, so it also notices that the service is out of reach.
 */
import { effect, signal } from "@preact/signals"
import type { JobSummary } from "../jobs/responses.ts"
import type { Pulse } from "../statistics/schema.ts"
import { ApiError, backOff } from "./client.ts"
import { access, api, askMe, beat, counts, cutCounts, epoch, get, link, me, paused, token } from "./state.ts"

/** Time between two requests, in milliseconds. */
const EVERY_MS = 2_000

/** Ids of the jobs in view, of which the first 100 are asked about. */
export const watched = signal<ReadonlyArray<string>>([])

/** The newest state of the jobs in view, by id. */
export const changes = signal<ReadonlyMap<string, JobSummary>>(new Map())

let wake = (): void => undefined

/** Makes the next request now instead of after its wait. */
export const tryNow = (): void => wake()

const sleep = (ms: number): Promise<void> =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, ms)
    wake = () => {
      clearTimeout(timer)
      resolve()
    }
  })

/** Resolves when the page is visible, is not paused, and has access. */
const wanted = (): Promise<void> =>
  new Promise((resolve) => {
    const isWanted = (): boolean => {
      // Both are read first: an effect follows only the signals that it has read.
      const [isPaused, state] = [paused.value, access.value]
      return !document.hidden && !isPaused && state !== "needed" && state !== "wrong"
    }
    let end = (): void => undefined
    const look = (): void => {
      if (!isWanted()) return
      document.removeEventListener("visibilitychange", look)
      queueMicrotask(() => end())
      resolve()
    }
    document.addEventListener("visibilitychange", look)
    end = effect(look)
  })

/** The message of the service where its transport is out of reach, else the message of the error. */
const reasonOf = async (error: ApiError): Promise<string> => {
  if (error.status !== 503) return error.message
  try {
    await api.call("GET", "/readyz")
    return error.message
  } catch (other) {
    return other instanceof ApiError && other.status === 503 ? other.message : error.message
  }
}

/** Runs for as long as the page is open. */
export const startPulse = async (): Promise<never> => {
  let etag: string | undefined
  let askedFor = ""
  let tries = 0
  let since: number | undefined
  // Another token may have other rights, so everything is loaded again.
  let known = token.peek()
  effect(() => {
    if (token.value === known) return
    known = token.value
    me.value = undefined
    counts.value = undefined
    changes.value = new Map()
    etag = undefined
    epoch.value = epoch.peek() + 1
    wake()
  })
  for (;;) {
    await wanted()
    try {
      if (me.value === undefined) await askMe()
      if (me.value?.features.includes("pulse")) {
        const ids = watched.value.slice(0, 100).join(",")
        const query = { ids: ids === "" ? undefined : ids }
        const by = token.peek()
        const answer = await api.call("GET", "/v1/pulse", { query, etag: ids === askedFor ? etag : undefined })
        // The token was changed while the request was under way, so the answer is not used.
        if (by !== token.peek()) continue
        askedFor = ids
        etag = answer.etag
        if (answer.value !== undefined) takePulse(answer.value as Pulse)
      } else await get("/healthz")
      // After an outage everything is loaded again, since the server does not repeat the changes of that time.
      if (tries > 0) epoch.value = epoch.peek() + 1
      tries = 0
      since = undefined
      if (link.value.state !== "live") link.value = { state: "live" }
      beat.value = beat.peek() + 1
      await sleep(EVERY_MS)
    } catch (error) {
      if (!(error instanceof ApiError)) throw error
      if (error.status === 401 || error.status === 403) {
        // The service answers. The call that lacks a scope shows that error itself.
        if (error.status === 403) link.value = { state: "live" }
        await sleep(EVERY_MS)
        continue
      }
      tries++
      since ??= Date.now()
      const ms = backOff(tries, Math.random())
      link.value = { state: "offline", since, tries, nextAt: Date.now() + ms, why: await reasonOf(error) }
      await sleep(ms)
    }
  }
}

const takePulse = (pulse: Pulse): void => {
  counts.value = pulse.counts
  cutCounts.value = pulse.more
  if (pulse.jobs.length === 0) return
  const next = new Map(changes.value)
  for (const job of pulse.jobs) next.set(job.id, job)
  // Jobs that are no longer in view are removed.
  const inSight = new Set(watched.value)
  for (const id of next.keys()) if (!inSight.has(id)) next.delete(id)
  changes.value = next
}
