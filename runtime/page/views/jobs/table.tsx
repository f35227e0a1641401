import type { JSX } from "preact"
import type { JobList } from "../../../jobs/lists.ts"
import type { JobSummary } from "../../../jobs/responses.ts"
import { jobPath } from "../../client.ts"
import { ActionButton, Button, Menu, Note } from "../../parts/basic.tsx"
import { Glyph, Icon, isGlyph, WORDS } from "../../parts/icon.tsx"
import { runAction } from "../../parts/notice.tsx"
import { ACTIONS, Cell, num, Row, Table } from "../../parts/table.tsx"
import { Moment } from "../../parts/time.tsx"
import { href, withQuery } from "../../router.ts"
import { idEnd } from "../../seen.ts"
import { counted, duration, percent } from "../../times.ts"

/** The selected jobs: by ids, or all that match the filters at the moment of the action. */
export type Selection = { readonly ids: ReadonlySet<string> } | "all"
export const NONE: Selection = { ids: new Set() }

export const JobTable = ({
  rows,
  selection,
  select,
  states,
}: {
  readonly rows: ReadonlyArray<JobSummary>
  readonly selection: Selection
  readonly select: (next: Selection) => void
  readonly states: ReadonlyArray<string>
}): JSX.Element => {
  const isSelected = (id: string): boolean => selection === "all" || selection.ids.has(id)
  const all = rows.length > 0 && rows.every(({ id }) => isSelected(id))
  const some = rows.some(({ id }) => isSelected(id))
  const toggle = (id: string): void => {
    const next = new Set(selection === "all" ? rows.map((row) => row.id) : selection.ids)
    if (!next.delete(id)) next.add(id)
    select({ ids: next })
  }
  return (
    <Table
      class="jobs"
      caption={`Jobs${states.length === 1 ? ` that are ${states[0]}` : ""}, newest first`}
      columns={[
        {
          title: (
            <input
              class={`ck ${some && !all ? "part" : ""}`}
              type="checkbox"
              aria-label="Select all on this page"
              checked={all}
              onChange={() => select(all ? NONE : { ids: new Set(rows.map(({ id }) => id)) })}
            />
          ),
        },
        "Job",
        { title: "State", hidden: true },
        "Details",
        { title: "Queue", class: "hide-l" },
        num("Attempt"),
        num("Waited"),
        num("Ran"),
        "Worker",
        num("When"),
        ACTIONS,
      ]}
    >
      {rows.map((job) => (
        <JobRow key={job.id} job={job} selected={isSelected(job.id)} toggle={toggle} />
      ))}
    </Table>
  )
}

/** The time that the row shows, which depends on the state of the job. */
const whenOf = ({ times, state }: JobSummary): string =>
  times.ended ??
  (state === "scheduled" ? times.due : state === "started" ? times.started : times.enqueued) ??
  times.submitted

const JobRow = ({
  job,
  selected,
  toggle,
}: {
  readonly job: JobSummary
  readonly selected: boolean
  readonly toggle: (id: string) => void
}): JSX.Element => {
  const end = idEnd(job.id)
  const to = href("job", job.id)
  const { waited, ran } = job.durations ?? {}
  return (
    <Row aria-selected={selected}>
      <Cell class="w1">
        <input
          class="ck"
          type="checkbox"
          checked={selected}
          aria-label={`Select job ${end}`}
          onChange={() => toggle(job.id)}
        />
      </Cell>
      <Cell class="wide">
        <a class="name" href={to} data-row="">
          {job.name}
        </a>{" "}
        <span class="id" title={job.id}>
          {end}
        </span>
      </Cell>
      <Cell class="stt">
        {isGlyph(job.state) ? <Glyph name={job.state} label={WORDS[job.state]} /> : <span>{job.state}</span>}
      </Cell>
      <Cell class="inf">
        <RowDetails job={job} to={to} />
        <span class="only-s dim small">
          {job.queue} · attempt {job.attempts} · <Moment at={whenOf(job)} />
        </span>
      </Cell>
      <Cell class="off mid hide-l">
        <span class="clip">{job.queue}</span>
      </Cell>
      <Cell class="num off">{job.attempts === 0 ? "–" : job.attempts}</Cell>
      <Cell class="num off mid">{waited === undefined ? "–" : duration(waited)}</Cell>
      <Cell class="num off mid">{ran === undefined ? "–" : duration(ran)}</Cell>
      <Cell class="off mid worker">
        <span class="clip" title={job.worker}>
          {job.worker ?? "–"}
        </span>
      </Cell>
      <Cell class="num off nowrap">
        <Moment at={whenOf(job)} />
      </Cell>
      <Cell class="off">
        <Menu label={`Actions for job ${end}`}>
          <ActionButton
            scope="operate"
            icon="retry"
            onClick={() => runAction(`Retry ${end}`, "POST", jobPath(job.id, "/retry"))}
          >
            Retry
          </ActionButton>
          <ActionButton
            scope="operate"
            icon="x"
            onClick={() => runAction(`Cancel ${end}`, "POST", jobPath(job.id, "/cancel"))}
          >
            Cancel
          </ActionButton>
          <Button icon="copy" onClick={() => void navigator.clipboard?.writeText(job.id)}>
            Copy the id
          </Button>
        </Menu>
      </Cell>
    </Row>
  )
}

/** The details of a row: the error with a link to the job, the progress, or what the job waits for. */
const RowDetails = ({ job, to }: { readonly job: JobSummary; readonly to: string }): JSX.Element => {
  if (job.error !== undefined && job.state !== "succeeded")
    return (
      <a class="err clip mono" href={to} title={`${job.error.name}: ${job.error.message}`}>
        {job.error.message === "" ? job.error.name : job.error.message}
      </a>
    )
  if (job.state === "started" && job.progress !== undefined)
    return <span class="err clip">{percent(job.progress.fraction)} done</span>
  if (job.state === "scheduled" && job.attempts > 0) return <span class="err clip">waiting for its retry</span>
  if (job.after?.waiting !== undefined && job.state === "deferred") {
    const { length } = job.after.waiting
    return <span class="err clip">{length === 1 ? "waiting for 1 other job" : `waiting for ${length} other jobs`}</span>
  }
  return <span class="err clip">{job.description ?? ""}</span>
}

export const Footer = ({
  list,
  total,
  cursor,
  rows,
}: {
  readonly list: JobList
  readonly total: JobList["total"]
  readonly cursor: string | undefined
  readonly rows: number
}): JSX.Element => (
  <>
    {list.partial === true && (
      <div class="body">
        <Note kind="warn" icon="errors">
          Looking through all jobs takes longer than a moment: this is the first part of what matches. Narrow the time,
          or{" "}
          <a class="link" href={withQuery({ cursor: list.next })}>
            continue from here
          </a>
          .
        </Note>
      </div>
    )}
    <div class="tfoot">
      <span>
        {cursor === undefined && rows > 0 ? `1–${rows}` : rows}
        {total !== undefined && (
          <>
            {" of "}
            <b>{counted(total)}</b>
          </>
        )}
      </span>
      <span class="hide-s">newest first</span>
      <span class="grow" />
      {cursor !== undefined && (
        <a class="btn small" href={withQuery({ cursor: undefined })}>
          <Icon name="left" />
          Newest
        </a>
      )}
      {list.next !== undefined && (
        <a class="btn small" href={withQuery({ cursor: list.next })}>
          Older
          <Icon name="right" />
        </a>
      )}
    </div>
  </>
)
