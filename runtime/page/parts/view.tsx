/** The frame of each view: its title, its tools, and what all views have at the top. */
import type { ComponentChildren, JSX } from "preact"
import { useEffect } from "preact/hooks"
import type { ViewName } from "../paths.ts"
import { href } from "../router.ts"
import { seen } from "../seen.ts"
import { link, now, ownZone, paused, pausedAt, togglePause, toggleZone, zone } from "../state.ts"
import { clock } from "../times.ts"
import { Button } from "./basic.tsx"
import { Icon } from "./icon.tsx"
import { openSearch } from "./search.tsx"
import { ThemeButton } from "./theme.tsx"

export interface ViewProps {
  /** Title of the browser's tab, and the heading unless there is a `crumb`. */
  readonly title: string
  /** A number for the browser's tab. */
  readonly count?: string | undefined
  /** The path to this view in place of the heading, for a view that has a heading of its own. */
  readonly crumb?: ComponentChildren
  readonly tools?: ComponentChildren
  readonly children: ComponentChildren
}

const liveWord = (): readonly [kind: string, words: string, more: string] => {
  const { state, since } = link.value
  if (paused.value) return ["warn", "Paused", clock(pausedAt.value ?? now.value, zone.value)]
  if (state === "offline") return ["bad", "Offline", since === undefined ? "" : `since ${clock(since, zone.value)}`]
  if (state === "connecting") return ["warn", "Connecting", ""]
  return ["beat", "Live", clock(now.value, zone.value)]
}

const Live = (): JSX.Element => {
  const [kind, words, more] = liveWord()
  return (
    <button
      type="button"
      class="live"
      aria-pressed={!paused.value}
      title={paused.value ? "Resume refreshing" : "Stop refreshing"}
      onClick={togglePause}
    >
      <i class={`dot ${kind}`} />
      {words}
      <span class="dim l2">{more}</span>
    </button>
  )
}

export const View = ({ title, count, crumb, tools, children }: ViewProps): JSX.Element => {
  useEffect(() => {
    document.title = seen(`${count === undefined ? "" : `${count} `}${title} · Callboard`)
  }, [title, count])
  const isUtc = zone.value === "UTC"
  return (
    <>
      <div class="top">
        {crumb === undefined ? <h1>{title}</h1> : <span class="crumb clip">{crumb}</span>}
        {tools}
        <span class="grow" />
        <button
          type="button"
          class="find"
          aria-label="Go to a job, a task… /"
          aria-keyshortcuts="/"
          onClick={openSearch}
        >
          <Icon name="search" />
          <span>Go to a job, a task…</span>
          <kbd>/</kbd>
        </button>
        <Button
          title={
            isUtc
              ? `Times are in UTC. Show them in your zone: ${ownZone}`
              : `Times are in your zone, ${ownZone}. Show them in UTC`
          }
          onClick={toggleZone}
        >
          {isUtc ? "UTC" : (zone.value.split("/").at(-1) ?? "").replaceAll("_", " ")}
        </Button>
        <ThemeButton class="hide-s" />
        <Live />
      </div>
      {children}
    </>
  )
}

/** The path from a list to one of its members. */
export const Crumb = ({
  to,
  title,
  name,
}: {
  readonly to: ViewName
  readonly title: string
  readonly name: string
}) => (
  <>
    <a href={href(to)}>{title}</a>
    <Icon name="right" />
    <b>{name}</b>
  </>
)

/** The heading of a view about one job, queue or worker: its name, a line of details, and its actions. */
export const Head = ({
  title,
  tools,
  children,
}: {
  readonly title: ComponentChildren
  readonly tools: ComponentChildren
  readonly children: ComponentChildren
}): JSX.Element => (
  <div class="jobhead">
    <div class="grow">
      <h1>{title}</h1>
      <p class="meta">{children}</p>
    </div>
    <div class="row wrap">{tools}</div>
  </div>
)
