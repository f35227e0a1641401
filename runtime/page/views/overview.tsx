import type { JSX } from "preact"
import { StateWord } from "../parts/icon.tsx"
import { View } from "../parts/view.tsx"
import { href } from "../router.ts"
import { counts } from "../state.ts"
import { whole } from "../times.ts"

const FLOW = ["deferred", "scheduled", "queued", "started"] as const

export const Overview = (): JSX.Element => (
  <View title="Overview">
    <section class="flow" aria-label="Jobs now">
      {FLOW.map((state) => (
        <a key={state} href={href("jobs", "", { state })}>
          <StateWord name={state} />
          <span class="v">{counts.value === undefined ? "–" : whole(counts.value[state] ?? 0)}</span>
        </a>
      ))}
    </section>
  </View>
)
