/**
 * Keeps rows in place while the reader points at them or has the focus in them: values change, but no row is added,
 * removed or moved.
 */
import { useRef } from "preact/hooks"
import { keepOrder } from "./order.ts"

/** Whether the pointer or the focus is in a list, text is selected, or a dialog or menu is open. */
export const isHeld = (): boolean =>
  document.querySelector("[data-hold]:hover, [data-hold]:focus-within, dialog[open], details.menu[open]") !== null ||
  window.getSelection()?.isCollapsed === false

/** The rows to show for a list. `of`: name of the list's content; under another name all rows are new. */
export const useStable = <T>(of: string, rows: ReadonlyArray<T>, key: (row: T) => string): ReadonlyArray<T> => {
  const last = useRef<{ readonly of: string; readonly rows: ReadonlyArray<T> }>(undefined)
  const before = last.current
  const shown =
    before !== undefined && before.of === of && before.rows.length > 0 && isHeld()
      ? keepOrder(before.rows, rows, key)
      : rows
  last.current = { of, rows: shown }
  return shown
}
