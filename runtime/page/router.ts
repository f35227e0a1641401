/** The address of the page: its path, its query and the history. The server serves the same addresses. */
import { computed, signal } from "@preact/signals"
import { PATHS, type ViewName } from "./paths.ts"

/** Path under which the application is mounted; empty at the root. */
export const base = document.documentElement.dataset["base"] ?? ""

interface Place {
  readonly path: string
  readonly query: string
}

const here = (): Place => {
  const { pathname, search } = window.location
  return { path: pathname.slice(base.length) || "/", query: search }
}

export const place = signal<Place>(here())

/** The query of the address, which holds the filters of a list. */
export const query = computed(() => new URLSearchParams(place.value.query))

export interface Match {
  readonly name: ViewName
  /** The last part of the address, where it names something. */
  readonly id: string
}

const decoded = (text: string): string => {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** The view at a path; `undefined` where there is none. A path without a name in it has precedence. */
export const matchOf = (path: string): Match | undefined => {
  const named = Object.entries(PATHS) as ReadonlyArray<[ViewName, string]>
  const own = named.find(([, pattern]) => pattern === path)
  if (own !== undefined) return { name: own[0], id: "" }
  const cut = path.lastIndexOf("/")
  const under = named.find(([, pattern]) => pattern === `${path.slice(0, cut)}/:id`)
  return under === undefined || cut + 1 >= path.length
    ? undefined
    : { name: under[0], id: decoded(path.slice(cut + 1)) }
}

export const match = computed(() => matchOf(place.value.path))

/** The address of a view. `id` names the job, queue or worker that it shows. */
export const href = (name: ViewName, id = "", filters: Readonly<Record<string, string | undefined>> = {}): string => {
  const given = Object.entries(filters).flatMap(([key, value]) => (value === undefined ? [] : [[key, value]]))
  const text = given.length === 0 ? "" : `?${new URLSearchParams(given)}`
  return `${base}${PATHS[name].replace(":id", () => encodeURIComponent(id))}${text}`
}

/** The current address with some filters changed; `undefined` removes a filter. */
export const withQuery = (changes: Readonly<Record<string, string | undefined>>): string => {
  const next = new URLSearchParams(place.value.query)
  for (const [key, value] of Object.entries(changes)) {
    if (value === undefined) next.delete(key)
    else next.set(key, value)
  }
  return `${base}${place.value.path}${next.size === 0 ? "" : `?${next}`}`
}

/** Stores the scroll position in the history, so that going back shows the same rows. */
const remember = (): void => history.replaceState({ ...history.state, y: window.scrollY }, "")

export const go = (to: string, { replace = false } = {}): void => {
  remember()
  if (replace) history.replaceState(history.state, "", to)
  else history.pushState({}, "", to)
  place.value = here()
  if (replace) return
  window.scrollTo(0, 0)
  // The focus moves, so that screen readers announce the new view.
  document.getElementById("main")?.focus({ preventScroll: true })
}

/** State of a view in this entry of the history, such as the selection. */
export const kept = <T>(name: string): T | undefined => history.state?.[name]
export const keep = (name: string, value: unknown): void =>
  history.replaceState({ ...history.state, [name]: value }, "")

/** Follows links within the page without loading it again. */
export const startRouter = (): void => {
  history.scrollRestoration = "manual"
  window.addEventListener("popstate", () => {
    const y = history.state?.y
    place.value = here()
    // The view must be drawn before the page can be scrolled.
    requestAnimationFrame(() => requestAnimationFrame(() => window.scrollTo(0, typeof y === "number" ? y : 0)))
  })
  document.addEventListener("click", (event) => {
    const plain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey
    if (!plain || event.defaultPrevented || !(event.target instanceof Element)) return
    const link = event.target.closest("a")
    if (link === null || link.target !== "" || link.hasAttribute("download") || link.origin !== window.location.origin)
      return
    if (link.getAttribute("href")?.startsWith("#")) return
    if (!link.pathname.startsWith(base) || matchOf(link.pathname.slice(base.length) || "/") === undefined) return
    event.preventDefault()
    go(`${link.pathname}${link.search}`)
  })
}
