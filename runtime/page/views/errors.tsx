/** Why jobs fail: a list of causes, and the details of one cause beside it. */
import type { ComponentChildren, JSX } from "preact"
import type { Cause, CauseDetails, ErrorList } from "../../statistics/schema.ts"
import { askBulk } from "../bulk.ts"
import { useKey } from "../keys.ts"
import { useLoad } from "../load.ts"
import { ActionButton, Empty, Note, Panel, Part, Segments } from "../parts/basic.tsx"
import { Meter, Spark } from "../parts/chart.tsx"
import { Icon } from "../parts/icon.tsx"
import { RANGE_WORDS, RangeChoice, rangeNow } from "../parts/range.tsx"
import { Moment } from "../parts/time.tsx"
import { Traceback } from "../parts/trace.tsx"
import { View } from "../parts/view.tsx"
import { go, href, query, withQuery } from "../router.ts"
import { idEnd } from "../seen.ts"
import { useStable } from "../stable.ts"
import { get, may } from "../state.ts"
import { counted, many, percent, whole } from "../times.ts"

const STATES = [
  ["open", "Open"],
  ["quiet", "Quiet"],
] as const

const SORTS = [
  ["count", "Most"],
  ["last", "Last seen"],
  ["first", "Newest"],
] as const

const chosen = <T extends string>(name: string, choices: ReadonlyArray<readonly [T, string]>, normal: T): T =>
  choices.find(([value]) => value === query.value.get(name))?.[0] ?? normal

const useCauses = () => {
  const range = rangeNow()
  const state = chosen("state", STATES, "open")
  const sort = chosen("sort", SORTS, "count")
  const [task, queue, cursor] = ["task", "queue", "cursor"].map((name) => query.value.get(name) ?? undefined)
  const asked = { range, state, sort, task, queue, cursor, limit: 50 }
  const key = JSON.stringify(asked)
  const causes = useLoad(key, (stop) => get<ErrorList>("/v1/errors", asked, stop), { every: 3, keep: true })
  return { causes, range, state, sort, key, task, queue, cursor }
}

export const Errors = ({ id }: { readonly id: string }): JSX.Element => {
  const { causes, range, state, sort, key, task, queue, cursor } = useCauses()
  const rows = useStable(key, causes.data?.errors ?? [], ({ fingerprint }) => fingerprint)
  const set = (name: string, normal: string) => (value: string) =>
    go(withQuery({ [name]: value === normal ? undefined : value, cursor: undefined }), { replace: true })
  useKey("Escape", () => id !== "" && go(listHref()))
  // A later page does not tell how many causes there are in all.
  const count =
    causes.data === undefined || cursor !== undefined
      ? undefined
      : counted({ value: rows.length, relation: causes.data.next === undefined ? "eq" : "gte" })
  return (
    <View title="Errors" count={count} tools={<RangeChoice />}>
      {/* biome-ignore lint/a11y/useSemanticElements: a fieldset has a look and a layout of its own. */}
      <div class="filters" role="group" aria-label="Filters">
        <Segments label="State" choices={STATES} value={state} onChoose={set("state", "open")} />
        <Segments label="Order" choices={SORTS} value={sort} onChoose={set("sort", "count")} />
        {[
          ["task", task],
          ["queue", queue],
        ].map(
          ([name = "", value]) =>
            value !== undefined && (
              <span class="chip" key={name}>
                <span class="k">{name}</span>
                <span class="v">{value}</span>
                <a
                  class="x"
                  href={withQuery({ [name]: undefined, cursor: undefined })}
                  aria-label={`Remove the filter ${name}`}
                >
                  <Icon name="x" />
                </a>
              </span>
            ),
        )}
        <span class="end small dim">messages are compared without numbers, ids, quotes and addresses</span>
      </div>
      <div class={id === "" ? "stackv" : "md"}>
        <Panel title="Causes" hint={`${RANGE_WORDS[range]}`} hold>
          <Part of={causes}>
            {(data) => (
              <>
                {rows.length === 0 ? (
                  <Empty title={state === "quiet" ? "No quiet causes" : "No failures"}>
                    <p>
                      {state === "quiet"
                        ? `All causes from ${RANGE_WORDS[range]}, if there are any, are still active.`
                        : `No attempt has failed in ${RANGE_WORDS[range]}, or not recently.`}
                    </p>
                  </Empty>
                ) : (
                  <ul class="groups">
                    {rows.map((cause) => (
                      <CauseRow key={cause.fingerprint} cause={cause} current={cause.fingerprint === id} />
                    ))}
                  </ul>
                )}
                {data.partial === true && (
                  <p class="body small dim">Not everything could be read in time; the next refresh continues.</p>
                )}
              </>
            )}
          </Part>
          {(cursor !== undefined || causes.data?.next !== undefined) && (
            <div class="tfoot">
              <span class="grow" />
              {cursor !== undefined && (
                <a class="btn small" href={withQuery({ cursor: undefined })}>
                  <Icon name="left" />
                  First
                </a>
              )}
              {causes.data?.next !== undefined && (
                <a class="btn small" href={withQuery({ cursor: causes.data.next })}>
                  More
                  <Icon name="right" />
                </a>
              )}
            </div>
          )}
        </Panel>
        {id !== "" && <Details key={id} id={id} />}
      </div>
    </View>
  )
}

/** The address of the list of jobs with the filters of this view. */
const listHref = (): string => href("errors", "", Object.fromEntries(query.value))

const MARKS: Readonly<Record<string, readonly [kind: string, words: string]>> = {
  new: ["bad", "new"],
  back: ["warn", "came back"],
  quiet: ["", "quiet"],
}

/** A message with its placeholders marked. */
const Template = ({ text }: { readonly text: string }): JSX.Element => (
  <span>
    {text.split(/(<(?:n|uuid|hex|id|text|email|url)>)/).map((part, at) =>
      at % 2 === 1 ? (
        <i class="ph" key={at}>
          ‹{part.slice(1, -1)}›
        </i>
      ) : (
        part
      ),
    )}
  </span>
)

const CauseRow = ({ cause, current }: { readonly cause: Cause; readonly current: boolean }): JSX.Element => {
  const mark = MARKS[cause.status]
  const facts: ReadonlyArray<ComponentChildren> = [
    <span key="first">
      since <Moment at={cause.first} as="clock" />
    </span>,
    ...(cause.jobs.retrying > 0 ? [`${whole(cause.jobs.retrying)} retried`] : []),
    ...(cause.jobs.dead > 0 ? [`${whole(cause.jobs.dead)} dead-lettered`] : []),
  ]
  return (
    <li aria-current={current ? "true" : undefined}>
      <div class="clip">
        <a href={href("error", cause.fingerprint, Object.fromEntries(query.value))} data-row="">
          <span class="t">{cause.name}</span> <span class="dim small">{cause.tasks.join(", ")}</span>
        </a>
        <div class="m">
          <Template text={cause.template} />
        </div>
        <div class="w">
          {mark !== undefined && <span class={`tag ${mark[0]}`}>{mark[1]}</span>}
          {facts.map((fact, at) => (
            <span key={at}>{fact}</span>
          ))}
        </div>
      </div>
      <Spark values={cause.spark} kind="f-fail" />
      <span class="c">
        {whole(cause.count)}
        <small>
          <Moment at={cause.last} />
        </small>
      </span>
    </li>
  )
}

const Details = ({ id }: { readonly id: string }): JSX.Element => {
  const range = rangeNow()
  const error = useLoad(
    `${id} ${range}`,
    (stop) => get<CauseDetails>(`/v1/errors/${encodeURIComponent(id)}`, { range }, stop),
    { every: 5 },
  )
  const data = error.data
  const filter = { error: id, state: "failed" }
  const retry = (): void => askBulk({ action: "retry", which: { filter }, expected: undefined })
  useKey("r", () => may("operate") && retry())
  return (
    <div class="stackv detail">
      <Panel
        title={<span class="bad">{data?.name ?? "Cause"}</span>}
        hint={<span class="id">{id}</span>}
        tools={
          <>
            <ActionButton
              scope="operate"
              class="small main"
              icon="retry"
              onClick={retry}
              command={{ method: "POST", path: "/v1/jobs/retry", query: filter }}
            >
              Retry…
            </ActionButton>
            <a class="btn small quiet sq" href={listHref()} aria-label="Close" title="Close">
              <Icon name="x" />
            </a>
          </>
        }
      >
        {error.error?.status === 404 ? (
          <Empty title="This cause is no longer kept">
            <p>It has not occurred for a while, or newer causes have replaced it.</p>
            <a class="btn small" href={href("jobs", "", { error: id })}>
              Its jobs
            </a>
          </Empty>
        ) : (
          <Part of={error}>{(found) => <CausePanel cause={found} />}</Part>
        )}
      </Panel>
    </div>
  )
}

const TITLES = [
  ["version", "Version"],
  ["worker", "Worker"],
  ["attempt", "Attempt"],
  ["queue", "Queue"],
] as const

const CausePanel = ({ cause }: { readonly cause: CauseDetails }): JSX.Element => (
  <div class="body stackv">
    <p class="mono small">
      <Template text={cause.template} />
    </p>
    <div>
      <Spark values={cause.spark} kind="f-fail" class="w" />
      <p class="row tiny dim">
        <span>
          first <Moment at={cause.first} as="clock" />
        </span>
        <span class="grow" />
        <span>
          last <Moment at={cause.last} as="clock" />
        </span>
      </p>
    </div>
    <VersionNote cause={cause} />
    <div class="brk">
      {TITLES.map(([name, title]) => {
        const shares = cause.by[name]
        const all = shares.reduce((sum, { count }) => sum + count, 0)
        return (
          <div key={name}>
            <h3>{title}</h3>
            <ul>
              {shares.map(({ key, count }) => (
                <li key={key}>
                  <span class="clip" title={key}>
                    {key}
                  </span>
                  <Meter parts={[[all === 0 ? 0 : count / all, key === "(other)" ? "f-wait" : "f-fail"]]} />
                  <span class="num">{percent(all === 0 ? 0 : count / all)}</span>
                </li>
              ))}
              {shares.length === 0 && <li class="dim">not known</li>}
            </ul>
          </div>
        )
      })}
    </div>
    {cause.traceback !== undefined ? (
      <Traceback text={cause.traceback} />
    ) : (
      cause.frame !== undefined && <p class="mono small">{cause.frame}</p>
    )}
    <p class="row wrap small">
      <span>
        {many(cause.count, "attempt")} failed: {many(cause.jobs.failed, "job")} failed for this reason,{" "}
        {many(cause.jobs.retrying, "is", "are")} being retried, {many(cause.jobs.dead, "was", "were")} dead-lettered.
      </span>
      <a class="link" href={href("jobs", "", { error: cause.fingerprint })}>
        All its jobs
      </a>
    </p>
    {cause.ids.length > 0 && (
      <p class="small">
        Newest:{" "}
        {cause.ids.slice(0, 5).map((each) => (
          <a key={each} class="link mono" href={href("job", each)}>
            {idEnd(each)}{" "}
          </a>
        ))}
      </p>
    )}
  </div>
)

/** A note about a new cause whose failures all come from one version of the application. */
const VersionNote = ({ cause }: { readonly cause: CauseDetails }): JSX.Element | null => {
  const [only, ...others] = cause.by.version
  if (only === undefined || only.key.startsWith("(") || others.length > 0 || cause.status !== "new" || cause.count < 5)
    return null
  return (
    <Note icon="overview">
      <b>All of them ran on {only.key}</b>, and this failure is new: check the changes in that version first.
    </Note>
  )
}
