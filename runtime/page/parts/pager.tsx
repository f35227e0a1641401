/** The buttons between the pages of a list that uses cursors. */
import { type Signal, useSignal, useSignalEffect } from "@preact/signals"
import type { JSX } from "preact"
import { useRef } from "preact/hooks"
import { keep, kept } from "../router.ts"
import { Button } from "./basic.tsx"

const keptCursors = (): ReadonlyArray<string> => kept<ReadonlyArray<string>>("cursors") ?? []

/**
 * Cursors of the pages of a view's list up to the current one; the first page has none. They are kept in the history, so
 * that going back, and loading the page again, shows the same rows. `of`: what is listed; each has pages of its own.
 */
export const useCursors = (of = ""): Signal<ReadonlyArray<string>> => {
  const cursors = useSignal(keptCursors())
  const listed = useRef(of)
  // Before the list is asked for: a cursor of another list would be refused.
  if (listed.current !== of) {
    listed.current = of
    cursors.value = keptCursors()
  }
  useSignalEffect(() => keep("cursors", cursors.value))
  return cursors
}

/**
 * `cursors`: of the pages up to the current one; `next`: of the page after it. Shows nothing where there is one page
 * only.
 */
export const Pager = ({
  cursors,
  next,
  back,
  forth,
}: {
  readonly cursors: Signal<ReadonlyArray<string>>
  readonly next: string | undefined
  readonly back: string
  readonly forth: string
}): JSX.Element | null => {
  const isFirst = cursors.value.length === 0
  if (isFirst && next === undefined) return null
  return (
    <div class="tfoot">
      <span class="grow" />
      <Button
        class="small"
        icon="left"
        disabled={isFirst}
        onClick={() => {
          cursors.value = cursors.value.slice(0, -1)
        }}
      >
        {back}
      </Button>
      <Button
        class="small"
        disabled={next === undefined}
        onClick={() => {
          if (next !== undefined) cursors.value = [...cursors.value, next]
        }}
      >
        {forth}
      </Button>
    </div>
  )
}
