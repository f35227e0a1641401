/** The limits of methods: how many tasks each holds back, and for which keys. */
import { useSignal } from "@preact/signals"
import type { JSX } from "preact"
import type { Limit, LimitKey } from "../../statistics/schema.ts"
import { HIDDEN } from "../json.ts"
import { useLoad } from "../load.ts"
import { Empty, Panel, Part } from "../parts/basic.tsx"
import { Meter } from "../parts/chart.tsx"
import { Icon } from "../parts/icon.tsx"
import { Pager } from "../parts/pager.tsx"
import { Moment } from "../parts/time.tsx"
import { get } from "../state.ts"
import { duration, many, whole } from "../times.ts"

const limitWords = ({ concurrency, rate }: Limit): string =>
  [concurrency === undefined ? "" : `${whole(concurrency)} at a time`, rate ?? ""]
    .filter((each) => each !== "")
    .join(", ")

interface LimitKeyList {
  readonly keys: ReadonlyArray<LimitKey>
  readonly next?: string
}

/** Keys of a limit per page. */
const PAGE = 20

const Keys = ({ limit }: { readonly limit: Limit }): JSX.Element => {
  const path = `/v1/limits/${encodeURIComponent(limit.task)}/keys`
  const cursors = useSignal<ReadonlyArray<string>>([])
  const cursor = cursors.value.at(-1)
  const keys = useLoad(
    `${path} ${cursor ?? ""}`,
    (signal) => get<LimitKeyList>(path, { limit: PAGE, cursor }, signal),
    { every: 2 },
  )
  return (
    <div class="in">
      <Part of={keys} rows={3}>
        {(found) =>
          found.keys.length === 0 ? (
            <p class="small dim">No permits are held.</p>
          ) : (
            <ul class="keys">
              <li>
                <span>Key</span>
                <span>Runs</span>
                <span>Share of waiting jobs</span>
                <span class="num">Waiting</span>
                <span class="num">Next starts</span>
              </li>
              {found.keys.map((each, at) => (
                // Keys that the method hides all have the same text.
                <li key={`${each.key} ${each.key === HIDDEN ? at : ""}`}>
                  {each.key === HIDDEN ? <i class="red">redacted</i> : <b>{each.key}</b>}
                  <span>{whole(each.running)}</span>
                  <Meter parts={[[each.held / Math.max(1, limit.held), "f-warn"]]} />
                  <span class="num">
                    {whole(each.held)}{" "}
                    {each.oldest !== undefined && <span class="dim small">{duration(each.oldest)}</span>}
                  </span>
                  <span class="num small mid">
                    {each.nextFree === undefined ? "–" : <Moment at={each.nextFree} as="clock" />}
                  </span>
                </li>
              ))}
            </ul>
          )
        }
      </Part>
      <Pager cursors={cursors} next={keys.data?.next} back="Before" forth="After" />
    </div>
  )
}

const LimitRow = ({ limit }: { readonly limit: Limit }): JSX.Element => {
  const isOpen = useSignal(false)
  return (
    <details class="lim" onToggle={(event) => (isOpen.value = event.currentTarget.open)}>
      <summary data-row="">
        <Icon name="right" class="c" />
        <span class="clip">
          <b>{limit.task}</b> {limit.keyed && <span class="dim small">by key</span>}
        </span>
        <span class="mid small">{limitWords(limit)}</span>
        <span class="small mid">
          {many(limit.running, "runs", "run")}
          {limit.keys === undefined ? "" : `, ${many(limit.keys.total, "key")}`}
        </span>
        <span class={`num ${limit.held === 0 ? "dim" : ""}`}>{whole(limit.held)} held</span>
        <span class="num small mid">{limit.oldest === undefined ? "–" : `oldest ${duration(limit.oldest)}`}</span>
      </summary>
      {isOpen.value &&
        (limit.keyed ? (
          <Keys limit={limit} />
        ) : (
          <p class="in small dim">It has no key: it applies to all jobs of the method together.</p>
        ))}
    </details>
  )
}

export const Limits = (): JSX.Element => {
  const limits = useLoad(
    "limits",
    (signal) => get<{ readonly limits: ReadonlyArray<Limit> }>("/v1/limits", {}, signal),
    { every: 2 },
  )
  return (
    <Panel title="Limits" hint="of methods, across all workers" hold>
      <Part of={limits} rows={3}>
        {(found) =>
          found.limits.length === 0 ? (
            <Empty title="No method has a limit" />
          ) : (
            found.limits.map((limit) => <LimitRow key={limit.task} limit={limit} />)
          )
        }
      </Part>
    </Panel>
  )
}
