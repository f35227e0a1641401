/**
 * Keyboard shortcuts: `/` searches, J and K move through a list, Enter opens, Escape closes, R retries. Letters can be
 * switched off for people who use speech input.
 */
import { signal } from "@preact/signals"
import { useEffect, useRef } from "preact/hooks"

const OFF = "callboard:letters-off"

const isOff = (): boolean => {
  try {
    return window.localStorage.getItem(OFF) === "1"
  } catch {
    return false
  }
}

export const letters = signal(!isOff())
export const toggleLetters = (): void => {
  letters.value = !letters.value
  try {
    if (letters.value) window.localStorage.removeItem(OFF)
    else window.localStorage.setItem(OFF, "1")
  } catch {
    // Without a store the choice holds until the page is closed.
  }
}

/** The functions of each key. The one of the component that was mounted last is called. */
const wanted = new Map<string, Array<() => void>>()

/** While the component is mounted, the key calls `act`. */
export const useKey = (key: string, act: () => void): void => {
  const newest = useRef(act)
  newest.current = act
  useEffect(() => {
    const call = (): void => newest.current()
    wanted.set(key, [...(wanted.get(key) ?? []), call])
    return () => {
      wanted.set(
        key,
        (wanted.get(key) ?? []).filter((each) => each !== call),
      )
    }
  }, [key])
}

const isTyping = (target: EventTarget | null): boolean =>
  target instanceof Element &&
  target.closest("input:not([type=checkbox]), textarea, select, [contenteditable]") !== null

/** The links of the rows, one in each, in the order of the page. */
const rows = (): ReadonlyArray<HTMLElement> => [...document.querySelectorAll<HTMLElement>("[data-row]")]

/** Moves the focus to the next row, or to the one before. */
const step = (by: 1 | -1): void => {
  const all = rows()
  const at = all.findIndex(
    (row) => row === document.activeElement || row.closest("tr, li")?.contains(document.activeElement),
  )
  const to = all[at < 0 ? (by > 0 ? 0 : all.length - 1) : at + by]
  to?.focus({ preventScroll: true })
  to?.closest("tr, li")?.scrollIntoView({ block: "nearest" })
}

export const startKeys = (): void => {
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key
    const isCharacter = event.key.length === 1
    if (isCharacter && (!letters.value || isTyping(event.target))) return
    // A dialog has its own keys.
    if (document.querySelector("dialog[open]") !== null) return
    const act = wanted.get(key)?.at(-1)
    if (act !== undefined) act()
    else if (key === "j") step(1)
    else if (key === "k") step(-1)
    else return
    event.preventDefault()
  })
}
