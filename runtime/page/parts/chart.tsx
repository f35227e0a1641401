/**
 * Bars and meters in SVG. Widths are percentages, so that nothing has to be measured, and no inline style is needed.
 */
import type { JSX } from "preact"

/** A fraction as an attribute of SVG. */
export const pct = (part: number): string => `${(part * 100).toFixed(2)}%`

/** Small bars without an axis. Screen readers skip them, since the numbers beside them say the same. */
export const Spark = ({
  values,
  kind = "f-wait",
  class: more = "",
}: {
  readonly values: ReadonlyArray<number | null>
  readonly kind?: string
  readonly class?: string
}): JSX.Element => {
  const top = Math.max(1, ...values.map((value) => value ?? 0))
  const width = 1 / Math.max(1, values.length)
  return (
    <svg class={`spark ${more}`} aria-hidden="true">
      {values.map((value, at) => {
        const height = value === null || value === 0 ? 1 : Math.max(1.5, (value / top) * 21)
        return (
          <rect
            key={at}
            class={value === null || value === 0 ? "f-rail" : kind}
            x={pct(at * width)}
            y={(22 - height).toFixed(1)}
            width={pct(width * 0.74)}
            height={height.toFixed(1)}
            rx="0.8"
          />
        )
      })}
    </svg>
  )
}

/** The parts of a whole side by side. */
export const Meter = ({
  parts,
  class: more = "",
}: {
  readonly parts: ReadonlyArray<readonly [part: number, kind: string]>
  readonly class?: string
}): JSX.Element => {
  let from = 0
  return (
    <svg class={`meter ${more}`} aria-hidden="true">
      <rect class="f-rail" width="100%" height="6" />
      {parts.map(([part, kind]) => {
        const x = from
        from += part
        return <rect key={kind} class={kind} x={pct(x)} width={pct(Math.min(1, Math.max(0, part)))} height="6" />
      })}
    </svg>
  )
}
