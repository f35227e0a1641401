/** What all views share: the token, what it may do, the clock of the server, the time zone, the theme, and the connection. */
import { computed, effect, signal } from "@preact/signals"
import type { Counts, Me } from "./api.ts"
import { type ApiClient, ApiError, apiClient, type Query } from "./client.ts"
import { base } from "./router.ts"

/** Names of this board within an origin that may hold several. */
const named = (name: string): string => `callboard:${base}:${name}`

/** A store of the browser. It may be switched off, or full: the page works without. */
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
      // It is held in memory meanwhile.
    }
  },
})
const device = stored("localStorage")
const tab = stored("sessionStorage")

/** The token of a link: taken at once, and removed from the address. A fragment is never sent to a server. */
const tokenOfLink = (): string | undefined => {
  const token = new URLSearchParams(window.location.hash.slice(1)).get("token") ?? undefined
  if (token === undefined) return undefined
  history.replaceState(history.state, "", `${window.location.pathname}${window.location.search}`)
  tab.set("token", token)
  return token
}

export const token = signal<string | undefined>(tokenOfLink() ?? tab.get("token") ?? device.get("token"))

/** Takes another token, or none. It stays in this tab, or on this device if it is to be remembered. */
export const setToken = (given: string | undefined, remembered = false): void => {
  tab.set("token", given)
  device.set("token", remembered ? given : undefined)
  token.value = given
  access.value = "asking"
}

/** `needed`: the board asks for a token. `wrong`: it does not know the one that it got. */
export const access = signal<"asking" | "open" | "needed" | "wrong">("asking")

/** What the reader may do, and what this board has; `undefined` until it is known. */
export const me = signal<Me | undefined>(undefined)

export const may = (scope: string): boolean => {
  const scopes = me.value?.scopes ?? []
  return scopes.includes(scope) || scopes.includes("admin")
}

export const has = (feature: string): boolean => me.value?.features.includes(feature) ?? false

// ── The connection ──────────────────────────────────────────────────────────────────────────────────────────────────

export interface Link {
  readonly state: "connecting" | "live" | "offline"
  /** Since when nothing has come, by the clock of this machine. */
  readonly since?: number
  /** When it is tried again, likewise. */
  readonly nextAt?: number
  readonly tries?: number
  /** What is wrong, as the service says it. */
  readonly why?: string
}

export const link = signal<Link>({ state: "connecting" })

/** Nothing is refreshed while the reader has said so. */
export const paused = signal(false)
export const pausedAt = signal<number | undefined>(undefined)
export const togglePause = (): void => {
  paused.value = !paused.value
  pausedAt.value = paused.value ? Date.now() : undefined
}

/** Rises with each round of refreshing: views ask again. */
export const beat = signal(0)

/** Rises when everything is to be asked anew: another token, a connection that is back. */
export const epoch = signal(0)

/** Asks everything anew, after a decision. */
export const refresh = (): void => {
  epoch.value = epoch.peek() + 1
}

/** How many jobs there are in each state, as the pulse says it. */
export const counts = signal<Counts | undefined>(undefined)
/** The counts that were cut: there may be more. */
export const cutCounts = signal<ReadonlyArray<string>>([])

// ── Clocks ──────────────────────────────────────────────────────────────────────────────────────────────────────────

/** How far the clock of the server is ahead of this one, in milliseconds. */
let ahead = 0
export const serverNow = (): number => Date.now() + ahead

/** The time, each second, by the clock of the server: what is so many seconds ago moves on by itself. */
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
  // The token may have lost the scope while the page was open: what may be done is asked again.
  if (error.status === 403) void askMe()
}

export const api: ApiClient = apiClient({
  base,
  fetch: (url, init) => window.fetch(url, init),
  token: () => token.value,
  onAnswer: (_status, serverTime) => {
    if (serverTime === undefined) return
    // The header has whole seconds. A clock that is off by less is right.
    const off = serverTime + 500 - Date.now()
    ahead = Math.abs(off) < 2000 ? 0 : off
  },
  onError,
})

/** Asks for a value. The server and its page are one package: what it answers has the form that `api.ts` describes. */
export const get = async <T>(path: string, given: Query = {}, signal?: AbortSignal): Promise<T> => {
  const { value } = await api.call("GET", path, { query: given, ...(signal === undefined ? {} : { signal }) })
  return value as T
}

/** The answers that were told with an ETag last, the newest at the end. */
const tagged = new Map<string, { readonly etag: string; readonly value: unknown }>()
const MOST_TAGGED = 4

/** Asks for a value that may be large and seldom changes: it is sent again only when it has. */
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
  for (const oldest of [...tagged.keys()].slice(0, -MOST_TAGGED)) tagged.delete(oldest)
  return value as T
}

export const send = async <T>(method: string, path: string, given: Query = {}, body?: unknown): Promise<T> => {
  const { value } = await api.call(method, path, { query: given, ...(body === undefined ? {} : { body }) })
  return value as T
}

let asking: Promise<void> | undefined

/** Asks what the reader may do. Calls at a time are one. */
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

/** Starts what goes on for as long as the page is open. */
export const startState = (): void => {
  startClock()
  // A link with a token that is opened where the page is open already changes nothing but the fragment.
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
