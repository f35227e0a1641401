/** The small parts that views are made of: buttons, panels, notes, and what is shown in the place of data. */
import { useSignal } from "@preact/signals"
import type { ComponentChildren, JSX } from "preact"
import { useEffect, useId, useLayoutEffect, useRef } from "preact/hooks"
import { type ApiError, curlOf, type Query } from "../client.ts"
import { tryNow } from "../live.ts"
import type { Loaded } from "../load.ts"
import { api, link, may, me } from "../state.ts"
import { Icon, type IconName } from "./icon.tsx"

export interface ButtonProps {
  readonly children?: ComponentChildren
  readonly onClick?: (event: MouseEvent) => void
  readonly icon?: IconName
  /** `main`, `danger`, `quiet`, `small`, `sq` for one with an icon alone. */
  readonly class?: string
  /** What it does, where it has no words. */
  readonly label?: string
  readonly title?: string | undefined
  readonly disabled?: boolean
  readonly pressed?: boolean
}

export const Button = ({ children, onClick, icon, class: more = "", label, title, disabled, pressed }: ButtonProps) => (
  <button
    type="button"
    class={`btn ${more}`}
    {...(onClick === undefined ? {} : { onClick })}
    {...(label === undefined ? {} : { "aria-label": label, title: title ?? label })}
    {...(title === undefined ? {} : { title })}
    {...(disabled === undefined ? {} : { disabled })}
    {...(pressed === undefined ? {} : { "aria-pressed": pressed })}
  >
    {icon !== undefined && <Icon name={icon} />}
    {children}
  </button>
)

/** What a decision would call, for the command line of a person with the scope. */
export interface Command {
  readonly method: string
  readonly path: string
  readonly query?: Query
  readonly body?: unknown
}

export interface DecisionProps extends Omit<ButtonProps, "disabled"> {
  /** The scope that it needs. */
  readonly scope: "operate" | "admin" | "submit" | "payload"
  readonly command?: Command
  /** Why it cannot be decided now, whatever the token may do. */
  readonly off?: string | undefined
}

/** A button that decides something. Without the scope it stays where it is, says what it needs, and offers the command. */
export const Decision = ({ scope, command, off, ...button }: DecisionProps): JSX.Element => {
  if (off !== undefined) return <Button {...button} disabled title={off} />
  if (me.value === undefined || may(scope)) return <Button {...button} disabled={me.value === undefined} />
  const needs = `Your token needs the scope ${scope} for this`
  return (
    <span class="row">
      <Button {...button} disabled title={needs} />
      <span class="sr">{needs}</span>
      {command !== undefined && (
        <Copy
          text={() =>
            curlOf(
              command.method,
              `${window.location.origin}${api.url(command.path, command.query)}`,
              !(me.value?.open ?? false),
              command.body,
            )
          }
          label="Copy as curl"
        />
      )}
    </span>
  )
}

/** Copies text, and says that it has. */
export const Copy = ({ text, label }: { readonly text: () => string; readonly label: string }): JSX.Element => {
  const done = useSignal<"yes" | "no" | undefined>(undefined)
  const copy = (): void => {
    // The clipboard is not there on a plain http address other than localhost.
    const written = navigator.clipboard?.writeText(text()) ?? Promise.reject(new Error("no clipboard"))
    written.then(
      () => {
        done.value = "yes"
      },
      () => {
        done.value = "no"
      },
    )
    setTimeout(() => {
      done.value = undefined
    }, 2000)
  }
  const said = done.value === "yes" ? "Copied" : done.value === "no" ? "The browser does not let this page copy" : label
  return <Button class="small quiet sq" icon={done.value === "yes" ? "check" : "copy"} label={said} onClick={copy} />
}

export interface PanelProps {
  readonly title: ComponentChildren
  readonly hint?: ComponentChildren
  readonly tools?: ComponentChildren
  readonly children?: ComponentChildren
  readonly class?: string
  /** Nothing in it moves while a hand is on it. */
  readonly hold?: boolean
}

export const Panel = ({ title, hint, tools, children, class: more = "", hold = false }: PanelProps): JSX.Element => {
  const id = useId()
  return (
    <section class={`panel ${more}`} aria-labelledby={id} {...(hold ? { "data-hold": "" } : {})}>
      <header>
        <h2 id={id}>{title}</h2>
        {hint !== undefined && <span class="hint small">{hint}</span>}
        <span class="grow" />
        {tools}
      </header>
      {children}
    </section>
  )
}

export const Note = ({
  kind = "",
  icon,
  children,
}: {
  readonly kind?: "" | "warn" | "bad"
  readonly icon: IconName
  readonly children: ComponentChildren
}): JSX.Element => (
  <div class={`note ${kind}`}>
    <Icon name={icon} />
    <span>{children}</span>
  </div>
)

/** Grey bars in the place of what is still to come. */
export const Skeleton = ({ rows = 5 }: { readonly rows?: number }): JSX.Element => (
  <div class="body stackv skeleton" aria-busy="true">
    <span class="sr">Loading</span>
    {Array.from({ length: rows }, (_, at) => (
      <i key={at} class={`sk ${"acbd"[at % 4]}`} />
    ))}
  </div>
)

export const Empty = ({
  title,
  children,
}: {
  readonly title: string
  readonly children?: ComponentChildren
}): JSX.Element => (
  <div class="empty">
    <b>{title}</b>
    {children}
  </div>
)

/** Why a part could not be loaded, in words. The connection has a bar of its own. */
export const Trouble = ({ error, reload }: { readonly error: ApiError; readonly reload: () => void }): JSX.Element => {
  if (error.status === 0 || error.status === 503) {
    return (
      <Note kind="bad" icon="wifi">
        {link.value.why ?? error.message}{" "}
        <Button
          class="small"
          onClick={() => {
            tryNow()
            reload()
          }}
        >
          Try now
        </Button>
      </Note>
    )
  }
  if (error.status === 403) {
    return (
      <Note icon="lock">
        {error.scope === undefined ? error.message : `Your token may not see this: it needs the scope ${error.scope}.`}
      </Note>
    )
  }
  return (
    <Note kind="bad" icon="errors">
      {error.field === undefined ? error.message : <b>{error.message}</b>}{" "}
      <Button class="small" onClick={reload}>
        Try again
      </Button>
    </Note>
  )
}

/** What was loaded, or what stands in its place. An older value stays in sight when the next try fails. */
export const Part = <T,>({
  of,
  children,
  rows = 5,
}: {
  readonly of: Loaded<T>
  readonly children: (data: T) => ComponentChildren
  readonly rows?: number
}): JSX.Element => (
  <>
    {of.error !== undefined && (of.data === undefined || of.error.status >= 400) && of.error.status !== 503 && (
      <div class="body">
        <Trouble error={of.error} reload={of.reload} />
      </div>
    )}
    {of.data !== undefined ? children(of.data) : of.error === undefined && of.slow ? <Skeleton rows={rows} /> : null}
    {of.data === undefined && of.error?.status === 503 && (
      <div class="body">
        <Trouble error={of.error} reload={of.reload} />
      </div>
    )}
  </>
)

/** A dialog over everything. The browser keeps the focus in it, closes it by Escape, and gives the focus back. */
export const Dialog = ({
  title,
  lead,
  children,
  footer,
  onClose,
}: {
  readonly title: ComponentChildren
  readonly lead?: ComponentChildren
  readonly children?: ComponentChildren
  readonly footer: ComponentChildren
  readonly onClose: () => void
}): JSX.Element => {
  const ref = useRef<HTMLDialogElement>(null)
  const id = useId()
  // Before the next key comes: what is typed at once belongs into its field.
  useLayoutEffect(() => {
    const opener = document.activeElement
    ref.current?.showModal()
    return () => {
      if (opener instanceof HTMLElement && opener.isConnected) opener.focus({ preventScroll: true })
    }
  }, [])
  return (
    <dialog class="dialog" ref={ref} aria-labelledby={id} onClose={onClose}>
      <header>
        <h1 id={id}>{title}</h1>
        {lead !== undefined && <p>{lead}</p>}
      </header>
      <div class="in">{children}</div>
      <footer>{footer}</footer>
    </dialog>
  )
}

/** A few further actions behind one button. */
export const Menu = ({ label, children }: { readonly label: string; readonly children: ComponentChildren }) => {
  const ref = useRef<HTMLDetailsElement>(null)
  const isOpen = useSignal(false)
  useEffect(() => {
    const menu = ref.current
    if (!isOpen.value || menu === null) return
    const onClick = (event: Event): void => {
      const isOpener = event.target instanceof Element && event.target.closest("summary")?.parentElement === menu
      // A choice closes it, after it was taken.
      if (!isOpener) menu.open = false
    }
    const onKey = (event: KeyboardEvent): void => {
      if (event.key !== "Escape") return
      event.stopPropagation()
      menu.open = false
      menu.querySelector("summary")?.focus()
    }
    document.addEventListener("click", onClick)
    document.addEventListener("keydown", onKey, true)
    return () => {
      document.removeEventListener("click", onClick)
      document.removeEventListener("keydown", onKey, true)
    }
  }, [isOpen.value])
  return (
    <details
      class="menu"
      ref={ref}
      onToggle={(event) => {
        isOpen.value = event.currentTarget.open
      }}
    >
      <summary class="btn small quiet sq" aria-label={label} title={label}>
        <Icon name="dots" />
      </summary>
      <div class="items">{children}</div>
    </details>
  )
}

/** A choice among a few, of which one holds. */
export const Segments = <T extends string>({
  label,
  choices,
  value,
  onChoose,
  class: more = "",
}: {
  readonly label: string
  readonly choices: ReadonlyArray<readonly [value: T, words: ComponentChildren]>
  readonly value: T
  readonly onChoose: (value: T) => void
  readonly class?: string
}): JSX.Element => (
  // biome-ignore lint/a11y/useSemanticElements: a fieldset has a look and a layout of its own.
  <div class={`seg ${more}`} role="group" aria-label={label}>
    {choices.map(([each, words]) => (
      <button key={each} type="button" aria-pressed={each === value} onClick={() => onChoose(each)}>
        {words}
      </button>
    ))}
  </div>
)
