/** The overview: a sentence about the state of the board, its problems with advice, then numbers. */
import type { JSX } from "preact"
import type { Finding, Stats, TaskList } from "../../statistics/schema.ts"
import type { Outcomes } from "../chart.ts"
import { type Loaded, useLoad } from "../load.ts"
import { busyWords, presentStates, rate } from "../numbers.ts"
import { ActionButton, Empty, Panel, Part } from "../parts/basic.tsx"
import { Spark } from "../parts/chart.tsx"
import { EndedPanel } from "../parts/ended.tsx"
import { Glyph, StateWord } from "../parts/icon.tsx"
import { runAction } from "../parts/notice.tsx"
import { RANGE_WORDS, RangeChoice, rangeNow } from "../parts/range.tsx"
import { Cell, num, Row, Table } from "../parts/table.tsx"
import { Moment } from "../parts/time.tsx"
import { View } from "../parts/view.tsx"
import { base, href } from "../router.ts"
import { useStable } from "../stable.ts"
import { counts, cutCounts, get, has } from "../state.ts"
import { duration, many, percent, whole } from "../times.ts"

const MAX_FINDINGS = 5
const MAX_TASKS = 12

export const Overview = (): JSX.Element => {
  const range = rangeNow()
  const stats = useLoad(has("stats") ? range : undefined, (stop) => get<Stats>("/v1/stats", { range }, stop), {
    every: 2,
    keep: true,
  })
  const series = useLoad(
    has("series") ? range : undefined,
    (stop) => get<Outcomes>("/v1/series", { of: "ended", by: "outcome", range }, stop),
    { every: 5, keep: true },
  )
  return (
    <View title="Overview" tools={<RangeChoice />}>
      {has("stats") && <Verdict stats={stats} />}
      <Flow stats={stats.data} />
      <div class="stackv">
        {has("series") && <EndedPanel of={series} />}
        {has("tasks") && <Tasks />}
      </div>
    </View>
  )
}

const Verdict = ({ stats }: { readonly stats: Loaded<Stats> }): JSX.Element => (
  <section class="verdict" aria-label="Verdict">
    <Part of={stats} rows={2}>
      {(data) => (
        <>
          <p role="status">{sentence(data)}</p>
          <ul class="finds" data-hold="">
            {data.findings.slice(0, MAX_FINDINGS).map((finding) => (
              <FindingRow key={`${finding.code} ${finding.title}`} finding={finding} />
            ))}
            <li class="calm">
              <Glyph name="succeeded" label="Fine" />
              <span>
                {many(data.workers.alive, "worker")} alive, {busyWords(data)}
                {moreOf(data.findings.length - MAX_FINDINGS)}
              </span>
              <span class="since">
                checked <Moment at={data.at} />
              </span>
              <span class="acts" />
            </li>
          </ul>
        </>
      )}
    </Part>
  </section>
)

const moreOf = (count: number): string => (count <= 0 ? "" : ` · ${count} more ${count === 1 ? "finding" : "findings"}`)

/** The summary of the service, and how soon jobs start. */
const sentence = ({ findings, verdict, wait }: Stats): JSX.Element => (
  <span>
    <span class={findings.some(({ severity }) => severity === "bad") ? "bad" : ""}>{verdict}</span>{" "}
    {wait !== undefined && <span class="dim">95 % of jobs start within {duration(wait.p95)}.</span>}
  </span>
)

const FindingRow = ({ finding }: { readonly finding: Finding }): JSX.Element => {
  const { severity, title, detail, since, action } = finding
  return (
    <li>
      <Glyph name={severity === "bad" ? "failed" : "warn"} label={severity === "bad" ? "Bad" : "Warning"} />
      <div>
        <b>{title}</b>
        <span class="why">{detail}</span>
      </div>
      <span class="since">
        since <Moment at={since} as="clock" />
        <span>
          <Moment at={since} />
        </span>
      </span>
      <span class="acts">
        <a class="btn small" href={`${base}${finding.href}`}>
          Look
        </a>
        {action !== undefined && (
          <ActionButton
            scope="operate"
            class="small"
            onClick={() => void runAction(action.label, action.method, action.href)}
            command={{ method: action.method, path: action.href }}
          >
            {action.label}
          </ActionButton>
        )}
      </span>
    </li>
  )
}

const Flow = ({ stats }: { readonly stats: Stats | undefined }): JSX.Element => {
  const states = presentStates(counts.value ?? stats?.counts, cutCounts.value, stats)
  const ended = stats?.ended
  return (
    <section class="flow" aria-label="Jobs now">
      {states.map(({ state, value, words }) => (
        <a key={state} href={href("jobs", "", { state })}>
          <StateWord name={state} />
          <span class="v">{value}</span>
          <span class="d">{words}</span>
        </a>
      ))}
      <a href={href("jobs", "", { state: "failed" })}>
        <span class="dim small">Ended at workers in {RANGE_WORDS[rangeNow()]}</span>
        <span class="ends">
          {(["succeeded", "failed", "cancelled", "expired"] as const).map((state) => (
            <b key={state} class={state === "succeeded" || state === "failed" ? `s-${state}` : ""}>
              {ended === undefined ? "–" : whole(ended[state])}
              <span>{state}</span>
            </b>
          ))}
        </span>
      </a>
    </section>
  )
}

const Tasks = (): JSX.Element => {
  const range = rangeNow()
  const tasks = useLoad(
    range,
    (stop) => get<TaskList>("/v1/tasks", { range, sort: "failed", limit: MAX_TASKS }, stop),
    { every: 5, keep: true },
  )
  const rows = useStable(range, tasks.data?.tasks ?? [], ({ task, queue }) => `${task} ${queue}`)
  return (
    <Panel title="Tasks" hint="by failures" hold>
      <Part of={tasks}>
        {(data) =>
          rows.length === 0 ? (
            <Empty title={`No job has run in ${RANGE_WORDS[range]}`} />
          ) : (
            <>
              <Table
                caption="Tasks, most failures first"
                columns={[
                  "Task",
                  num("Per minute"),
                  num("Waits, p95"),
                  num("Runs, p50"),
                  num("p95"),
                  num("Fails"),
                  { title: "How often", class: "hide-m" },
                ]}
              >
                {rows.map((each) => (
                  <Row key={`${each.task} ${each.queue}`}>
                    <Cell class="wide">
                      <a class="b" href={href("jobs", "", { task: each.task })} data-row="">
                        {each.task}
                      </a>{" "}
                      <span class="dim small">{each.queue}</span>
                    </Cell>
                    <Cell class="num" label="/min">
                      {rate(each.perMinute)}
                    </Cell>
                    <Cell class="num" label="waits">
                      {each.wait === undefined ? "–" : duration(each.wait.p95)}
                    </Cell>
                    <Cell class="num mid" label="runs">
                      {each.run === undefined ? "–" : duration(each.run.p50)}
                    </Cell>
                    <Cell class="num mid" label="p95">
                      {each.run === undefined ? "–" : duration(each.run.p95)}
                    </Cell>
                    <Cell
                      class={`num ${each.failRate > 0.05 ? "bad b" : each.failed === 0 ? "dim" : ""}`}
                      label="fails"
                    >
                      {percent(each.failRate)}
                    </Cell>
                    <Cell class="off hide-m">
                      <Spark values={each.spark} class="w" />
                    </Cell>
                  </Row>
                ))}
              </Table>
              {data.partial === true && (
                <p class="body small dim">Not everything could be read in time; the next refresh continues.</p>
              )}
            </>
          )
        }
      </Part>
    </Panel>
  )
}
