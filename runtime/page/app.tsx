/** The page: the navigation, the bar about the connection, and the view of the current address. */
import type { ComponentType, JSX } from "preact"
import { useEffect } from "preact/hooks"
import { useKey } from "./keys.ts"
import { tryNow } from "./live.ts"
import { Button, Empty, Note } from "./parts/basic.tsx"
import { BulkBar, BulkDialog } from "./parts/bulk.tsx"
import { Icon } from "./parts/icon.tsx"
import { later, type Shown } from "./parts/later.tsx"
import { VIEWS } from "./parts/nav.ts"
import { NoticeBar } from "./parts/notice.tsx"
import { openSearch, Search } from "./parts/search.tsx"
import { TokenForm } from "./parts/token.tsx"
import { View } from "./parts/view.tsx"
import type { ViewName } from "./paths.ts"
import { base, href, match } from "./router.ts"
import { access, counts, isUndecided, link, me, now, serverNow, setToken, token, zone } from "./state.ts"
import { clock, short } from "./times.ts"
import { JobView } from "./views/job.tsx"
import { Jobs } from "./views/jobs.tsx"
import { Overview } from "./views/overview.tsx"
import { QueueOf, Queues } from "./views/queues.tsx"

const Errors = later("Errors", () => import("./views/errors.tsx").then((view) => view.Errors))

/**
 * The component of each view. A new view is a file in `views/` and an entry here. Those that few visits begin with are
 * loaded when they are opened.
 */
const SHOWN: Readonly<Record<ViewName, ComponentType<Shown>>> = {
  overview: Overview,
  queues: Queues,
  queue: QueueOf,
  workers: later("Workers", () => import("./views/workers.tsx").then((view) => view.Workers)),
  worker: later("Worker", () => import("./views/workers.tsx").then((view) => view.WorkerOf)),
  schedules: later("Schedules", () => import("./views/schedules.tsx").then((view) => view.Schedules)),
  dead: later("Dead letters", () => import("./views/dead.tsx").then((view) => view.Dead)),
  jobs: Jobs,
  job: JobView,
  errors: Errors,
  error: Errors,
}

/** The number beside an entry of the navigation, and whether it is a problem. */
const noteOf = (name: ViewName): readonly [text: string, isBad: boolean] | undefined => {
  const of = counts.value
  if (of === undefined) return undefined
  if (name === "queues" && (of["queued"] ?? 0) > 0) return [short(of["queued"] ?? 0), false]
  if (name === "dead" && (of["dead"] ?? 0) > 0) return [short(of["dead"] ?? 0), false]
  return undefined
}

const current = (name: ViewName, also: ReadonlyArray<ViewName>): "page" | undefined => {
  const shown = match.value?.name
  return shown !== undefined && (shown === name || also.includes(shown)) ? "page" : undefined
}

const Side = (): JSX.Element => (
  <aside class="side">
    <div class="brand">
      <svg class="logo" viewBox="0 0 22 22" aria-hidden="true">
        <rect class="pb" x="1" y="1" width="20" height="20" rx="5.5" />
        <path class="pl" d="M6 7h10M6 11.2h6" />
        <path class="pa" d="M6 15.4h3.5" />
      </svg>
      Callboard
    </div>
    <nav class="nav" aria-label="Views">
      {VIEWS.filter(({ shown }) => shown()).map(({ name, title, icon, also }) => {
        const note = noteOf(name)
        return (
          <a key={name} href={href(name)} aria-current={current(name, also)}>
            <Icon name={icon} />
            {title}
            {note !== undefined && <span class={`n ${note[1] ? "bad" : ""}`}>{note[0]}</span>}
          </a>
        )
      })}
    </nav>
    <div class="foot">
      {token.value !== undefined && (
        <span class="who">
          <Icon name="key" />
          <span class="clip">{me.value?.name ?? "Token"}</span>
          <Button class="small quiet" onClick={() => setToken(undefined)}>
            Leave
          </Button>
        </span>
      )}
      <span>
        <a class="link" href={`${base}/reference`}>
          HTTP API
        </a>
      </span>
    </div>
  </aside>
)

/** Five tabs for phones; the last one leads to the other views. */
const TabBar = (): JSX.Element => (
  <nav class="tabbar" aria-label="Views">
    {VIEWS.filter(({ shown }) => shown())
      .slice(0, 4)
      .map(({ name, title, icon, also }) => (
        <a key={name} href={href(name)} aria-current={current(name, also)}>
          <Icon name={icon} />
          {title.split(" ")[0]}
        </a>
      ))}
    <button type="button" onClick={openSearch}>
      <Icon name="more" />
      More
    </button>
  </nav>
)

const OfflineBar = (): JSX.Element | null => {
  const { state, since, nextAt, tries, why } = link.value
  if (state !== "offline" || since === undefined || nextAt === undefined) return null
  // Times of the connection are of this machine's clock, not of the server's.
  const left = Math.max(0, Math.ceil((nextAt - now.value + (serverNow() - Date.now())) / 1000))
  return (
    <div class="offline" role="status">
      <Note kind="bad" icon="wifi">
        <b>No connection since {clock(since, zone.value)}.</b> {why} This page shows the state at that time. Trying
        again in {left} s (attempt {tries}).{" "}
        <Button class="small" onClick={tryNow}>
          Try now
        </Button>
      </Note>
    </div>
  )
}

/** After three missed refreshes the data loses its colour, since it is old. */
const isStale = (): boolean =>
  link.value.state === "offline" && link.value.since !== undefined && now.value - link.value.since > 6_000

const Content = (): JSX.Element => {
  if (access.value === "needed" || access.value === "wrong") return <TokenForm />
  if (isUndecided.value) return <View title="Callboard">{null}</View>
  const found = match.value
  const Found = found === undefined ? undefined : SHOWN[found.name]
  if (found === undefined || Found === undefined) {
    return (
      <View title="Nothing here">
        <Empty title="This page does not exist">
          <a class="link" href={href("overview")}>
            Overview
          </a>
        </Empty>
      </View>
    )
  }
  return <Found key={found.name.replace(/s$/, "")} id={found.id} />
}

export const App = (): JSX.Element => {
  useKey("/", openSearch)
  useEffect(() => {
    // The first render replaces the placeholder of the shell.
    document.getElementById("main")?.removeAttribute("aria-busy")
  }, [])
  return (
    <>
      <a class="skip" href="#main">
        Skip to content
      </a>
      <div class="app">
        <Side />
        <main id="main" tabIndex={-1} class={isStale() ? "stale" : ""}>
          <OfflineBar />
          <Content />
        </main>
      </div>
      <TabBar />
      <BulkBar />
      <NoticeBar />
      <Search />
      <BulkDialog />
    </>
  )
}
