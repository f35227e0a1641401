/** The time range of a view. It is part of the address, so that a link shows the same range. */
import type { JSX } from "preact"
import { go, query, withQuery } from "../router.ts"
import { Segments } from "./basic.tsx"

const RANGES = [
  ["1h", "1 h"],
  ["24h", "24 h"],
] as const

export type Range = (typeof RANGES)[number][0]

export const RANGE_WORDS: Readonly<Record<Range, string>> = { "1h": "the last hour", "24h": "the last 24 hours" }

export const rangeNow = (): Range => RANGES.find(([range]) => range === query.value.get("range"))?.[0] ?? "1h"

export const RangeChoice = (): JSX.Element => (
  <Segments
    label="Time range"
    choices={RANGES}
    value={rangeNow()}
    onChoose={(range) =>
      go(withQuery({ range: range === "1h" ? undefined : range, cursor: undefined }), { replace: true })
    }
  />
)
