/**
 * State that all views share: the token and its rights, the clock of the server, the time zone, the theme, and the
 * connection.
 */
import { computed, effect, signal } from "@preact/signals"
import type { Me } from "../config/scopes.ts"
import type { Counts } from "../statistics/schema.ts"
import { type ApiClient, ApiError, apiClient, type Query } from "./client.ts"
import { base } from "./router.ts"

/** Prefix of the names in the browser's store, since several boards may share an origin. */
const named = (name: string): string => `callboard:${base}:${name}`

/** A store of the browser. The page works without it: it may be switched off, or full. */
const stored = (area: "localStorage" | "sessionStorage") => ({
  get: (name: string): string | undefined => {
    try {
      return window[area].getItem(named(name)) ?? undefined
    } catch {
      return undefined
    }
  },
  set: (name: string, value: string | undefined): void => {
    try {
      if (value === undefined) window[area].removeItem(named(name))
      else window[area].setItem(named(name), value)
    } catch {
      // The value is kept in memory, for as long as the page is open.
    }
  },
})
const device = stored("localStorage")
const tab = stored("sessionStorage")

/** Takes the token out of a link and removes it from the address. A fragment is never sent to a server. */
const tokenOfLink = (): string | undefined => {
  const token = new URLSearchParams(window.location.hash.slice(1)).get("token") ?? undefined
  if (token === undefined) return undefined
  history.replaceState(history.state, "", `${window.location.pathname}${window.location.search}`)
  tab.set("token", token)
  return token
}

export const token = signal<string | undefined>(tokenOfLink() ?? tab.get("token") ?? device.get("token"))

/** Sets or removes the token. It is kept in this tab; with `remember` on this device. */
export const setToken = (given: string | undefined, remembered = false): void => {
  tab.set("token", given)
  device.set("token", remembered ? given : undefined)
  token.value = given
  access.value = "asking"
}

/** `needed`: the board requires a token. `wrong`: the board does not know the token that was sent. */
export const access = signal<"asking" | "open" | "needed" | "wrong">("asking")

/** Whether the board wants tokens, as the shell says. */
const asks = document.documentElement.dataset["asks"] === "true"

/**
 * Whether one request is still to say if the reader may come in without a token, as through a proxy that knows who it
 * is. Until then no view is shown, whose requests would all be refused.
 */
export const isUndecided = computed(() => asks && access.value === "asking" && token.value === undefined)

/** The rights of the token and the features of the board; `undefined` until they are loaded. */
export const me = signal<Me | undefined>(undefined)

export const may = (scope: string): boolean => {
  const scopes: ReadonlyArray<string> = me.value?.scopes ?? []
  return scopes.includes(scope) || scopes.includes("admin")
}

/** Until it is known what the board has, it is taken to have everything, so that no view waits for the answer. */
export const has = (feature: string): boolean => me.value?.features.includes(feature) ?? true

// ── The connection ──────────────────────────────────────────────────────────────────────────────────────────────────

export interface Link {
  readonly state: "connecting" | "live" | "offline"
  /** Since when there was no answer, by this machine's clock. */
  readonly since?: number
  /** When the next try begins, by this machine's clock. */
  readonly nextAt?: number
  readonly tries?: number
  /** The message of the service about what is wrong. */
  readonly why?: string
}

export const link = signal<Link>({ state: "connecting" })

/** Whether the reader has paused all refreshing. */
export const paused = signal(false)
export const pausedAt = signal<number | undefined>(undefined)
export const togglePause = (): void => {
  paused.value = !paused.value
  pausedAt.value = paused.value ? Date.now() : undefined
}

/** Rises with each round of refreshing: views load their data again. */
export const beat = signal(0)

/** Rises when everything must be loaded again: after a change of the token, and when the connection is back. */
export const epoch = signal(0)

/** Loads everything again after an action. */
export const refresh = (): void => {
  epoch.value = epoch.peek() + 1
}

/** Number of jobs by state, from the last pulse. */
export const counts = signal<Counts | undefined>(undefined)
/** Names of counts that were cut at a limit: there may be more jobs. */
export const cutCounts = signal<ReadonlyArray<string>>([])

// ── Clocks ──────────────────────────────────────────────────────────────────────────────────────────────────────────

/** How far the server's clock is ahead of this machine's, in milliseconds. */
let ahead = 0
export const serverNow = (): number => Date.now() + ahead

/** The server's time, updated each second, so that "5 s ago" moves on without a request. */
export const now = signal(serverNow())

const startClock = (): void => {
  setInterval(() => {
    if (!document.hidden && !paused.value) now.value = serverNow()
  }, 1000)
}

export const ownZone = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC"
const zoneKept = signal(device.get("zone") === "own" ? "own" : "utc")
export const zone = computed(() => (zoneKept.value === "own" ? ownZone : "UTC"))
export const toggleZone = (): void => {
  zoneKept.value = zoneKept.value === "own" ? "utc" : "own"
  device.set("zone", zoneKept.value)
}

export type Theme = "system" | "light" | "dark"
const THEMES: ReadonlyArray<Theme> = ["system", "light", "dark"]
export const theme = signal<Theme>(THEMES.find((each) => each === device.get("theme")) ?? "system")
export const nextTheme = (): void => {
  theme.value = THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length] ?? "system"
  device.set("theme", theme.value)
}

// ── Calls ───────────────────────────────────────────────────────────────────────────────────────────────────────────

const onError = (error: ApiError): void => {
  if (error.status === 401) access.value = token.value === undefined ? "needed" : "wrong"
  // The token may have lost the scope since the page was opened, so its rights are loaded again.
  if (error.status === 403) void askMe()
}

export const api: ApiClient = apiClient({
  base,
  fetch: (url, init) => window.fetch(url, init),
  token: () => token.value,
  onAnswer: (_status, serverTime) => {
    if (serverTime === undefined) return
    // The header has whole seconds, so a smaller difference is ignored.
    const off = serverTime + 500 - Date.now()
    ahead = Math.abs(off) < 2000 ? 0 : off
  },
  onError,
})

/** Loads a value. Server and page are one package, so the answer has the form that `api.ts` describes. */
export const get = async <T>(path: string, given: Query = {}, signal?: AbortSignal): Promise<T> => {
  const { value } = await api.call("GET", path, { query: given, ...(signal === undefined ? {} : { signal }) })
  return value as T
}

/** The last answers that had an ETag, newest at the end. */
const tagged = new Map<string, { readonly etag: string; readonly value: unknown }>()
const MAX_TAGGED = 4

/** Loads a value that may be large and seldom changes: the server sends it again only when it has changed. */
export const getTagged = async <T>(path: string, given: Query = {}, signal?: AbortSignal): Promise<T> => {
  const name = `${token.peek() ?? ""} ${api.url(path, given)}`
  const known = tagged.get(name)
  const answer = await api.call("GET", path, {
    query: given,
    etag: known?.etag,
    ...(signal === undefined ? {} : { signal }),
  })
  tagged.delete(name)
  const value = answer.value ?? known?.value
  if (answer.etag !== undefined) tagged.set(name, { etag: answer.etag, value })
  for (const oldest of [...tagged.keys()].slice(0, -MAX_TAGGED)) tagged.delete(oldest)
  return value as T
}

export const send = async <T>(method: string, path: string, given: Query = {}, body?: unknown): Promise<T> => {
  const { value } = await api.call(method, path, { query: given, ...(body === undefined ? {} : { body }) })
  return value as T
}

let asking: Promise<void> | undefined

/** Loads the rights of the token. Simultaneous calls share one request. */
export const askMe = (): Promise<void> => {
  asking ??= (async () => {
    try {
      const { value } = await api.call("GET", "/v1/me")
      me.value = value as Me
      access.value = "open"
    } catch (error) {
      if (!(error instanceof ApiError)) throw error
    } finally {
      asking = undefined
    }
  })()
  return asking
}

/** Starts the timers and listeners that run for as long as the page is open. */
export const startState = (): void => {
  startClock()
  // Also in a hidden tab, whose form is to be there when the reader comes to it.
  effect(() => {
    if (isUndecided.value) void askMe()
  })
  // Opening a link with a token in a tab that shows the page changes only the fragment.
  window.addEventListener("hashchange", () => {
    const given = tokenOfLink()
    if (given === undefined) return
    token.value = given
    access.value = "asking"
  })
  effect(() => {
    if (theme.value === "system") delete document.documentElement.dataset["theme"]
    else document.documentElement.dataset["theme"] = theme.value
  })
}
