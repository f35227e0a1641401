/**
 * The one request that goes on while the page is seen: `GET /v1/pulse`, every two seconds, whatever happens on the board. It says
 * how many jobs there are in each state, and what has become of the jobs in sight; and whether the service is within reach.
 */
import { effect, signal } from "@preact/signals"
import type { JobSummary, Pulse } from "./api.ts"
import { ApiError, backOff } from "./client.ts"
import { access, api, askMe, beat, counts, cutCounts, epoch, get, link, me, paused, token } from "./state.ts"

/** How often it is asked, in milliseconds. */
const EVERY_MS = 2_000

/** The jobs in sight, 100 at most: whose changes are asked for. */
export const watched = signal<ReadonlyArray<string>>([])

/** What the pulse has told of jobs in sight, newest by id. */
export const changes = signal<ReadonlyMap<string, JobSummary>>(new Map())

let wake = (): void => undefined

/** Tries at once. */
export const tryNow = (): void => wake()

const sleep = (ms: number): Promise<void> =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, ms)
    wake = () => {
      clearTimeout(timer)
      resolve()
    }
  })

/** Resolves when the page is seen, not paused, and has been let in. */
const wanted = (): Promise<void> =>
  new Promise((resolve) => {
    const isWanted = (): boolean => {
      // Read in any case, so that the effect follows both while the page is hidden.
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

/** What the service says of itself when its transport is away. */
const reasonOf = async (error: ApiError): Promise<string> => {
  if (error.status !== 503) return error.message
  try {
    await api.call("GET", "/readyz")
    return error.message
  } catch (other) {
    return other instanceof ApiError && other.status === 503 ? other.message : error.message
  }
}

/** Goes on for as long as the page is open. */
export const startPulse = async (): Promise<never> => {
  let etag: string | undefined
  let askedFor = ""
  let tries = 0
  let since: number | undefined
  // Another token may see other things: all is asked anew.
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
        // It was told to another token.
        if (by !== token.peek()) continue
        askedFor = ids
        etag = answer.etag
        if (answer.value !== undefined) takePulse(answer.value as Pulse)
      } else await get("/healthz")
      // What was missed meanwhile is asked for, not replayed.
      if (tries > 0) epoch.value = epoch.peek() + 1
      tries = 0
      since = undefined
      if (link.value.state !== "live") link.value = { state: "live" }
      beat.value = beat.peek() + 1
      await sleep(EVERY_MS)
    } catch (error) {
      if (!(error instanceof ApiError)) throw error
      if (error.status === 401 || error.status === 403) {
        // The service is there; what the token lacks is said where it was asked for.
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
  // Only what is in sight is kept.
  const inSight = new Set(watched.value)
  for (const id of next.keys()) if (!inSight.has(id)) next.delete(id)
  changes.value = next
}
