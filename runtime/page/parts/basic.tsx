/** The small components of all views: buttons, panels, notes, and placeholders for data. */
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
  /** CSS classes: `main`, `danger`, `quiet`, `small`; `sq` for a button that has an icon alone. */
  readonly class?: string
  /** Text for screen readers, for a button without words. */
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

/** The request of an action. A reader without the scope can copy it as a command. */
export interface Command {
  readonly method: string
  readonly path: string
  readonly query?: Query
  readonly body?: unknown
}

export interface ActionButtonProps extends Omit<ButtonProps, "disabled"> {
  /** The scope that the action needs. */
  readonly scope: "operate" | "admin" | "submit" | "payload"
  readonly command?: Command
  /** Why the action is not possible now, for any token; `undefined` where it is possible. */
  readonly off?: string | undefined
}

/** A button for an action. Without the scope it is disabled, names the scope and offers the command. */
export const ActionButton = ({ scope, command, off, ...button }: ActionButtonProps): JSX.Element => {
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

/** Copies text to the clipboard and confirms that. */
export const Copy = ({ text, label }: { readonly text: () => string; readonly label: string }): JSX.Element => {
  const done = useSignal<"yes" | "no" | undefined>(undefined)
  const copy = (): void => {
    // Browsers offer no clipboard on a plain http address other than localhost.
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
  const said =
    done.value === "yes" ? "Copied" : done.value === "no" ? "The browser blocked access to the clipboard" : label
  return <Button class="small quiet sq" icon={done.value === "yes" ? "check" : "copy"} label={said} onClick={copy} />
}

export interface PanelProps {
  readonly title: ComponentChildren
  readonly hint?: ComponentChildren
  readonly tools?: ComponentChildren
  readonly children?: ComponentChildren
  readonly class?: string
  /** Whether the rows inside keep their places while the reader points at them (see `stable.ts`). */
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

/** Grey bars as a placeholder for data that is loaded. */
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

/** Why the data of a part could not be loaded. A lost connection is reported by a bar of its own. */
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
        {error.scope === undefined
          ? error.message
          : `Your token does not allow this: it needs the scope ${error.scope}.`}
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

/** The loaded data or a placeholder. An older value stays visible when the next request fails. */
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

/** A modal dialog. The browser keeps the focus inside, closes it on Escape, and returns the focus. */
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
  // The focus is set before the next key press, so that text that is typed at once enters the field.
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

/** A menu with further actions behind one button. */
export const Menu = ({ label, children }: { readonly label: string; readonly children: ComponentChildren }) => {
  const ref = useRef<HTMLDetailsElement>(null)
  const isOpen = useSignal(false)
  useEffect(() => {
    const menu = ref.current
    if (!isOpen.value || menu === null) return
    const onClick = (event: Event): void => {
      const isOpener = event.target instanceof Element && event.target.closest("summary")?.parentElement === menu
      // A click on an entry closes the menu, after the entry has handled it.
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

/** A checkbox with its label, and perhaps a sentence below it. */
export const Check = ({
  label,
  hint,
  checked,
  onChange,
}: {
  readonly label: string
  readonly hint?: string
  readonly checked: boolean
  readonly onChange: (checked: boolean) => void
}): JSX.Element => (
  <label class="opt">
    <input class="ck" type="checkbox" checked={checked} onChange={(event) => onChange(event.currentTarget.checked)} />
    <span>{label}</span>
    {hint !== undefined && <small>{hint}</small>}
  </label>
)

/** A choice of one value among a few. */
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
