/** The buttons between the pages of a list that uses cursors. */
import type { Signal } from "@preact/signals"
import type { JSX } from "preact"
import { Button } from "./basic.tsx"

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
