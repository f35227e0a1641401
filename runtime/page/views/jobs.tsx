/** The list of jobs: tabs of states, filters that stand in the address, 50 rows. Rows change in place, and new ones are announced. */
import { signal, useSignal } from "@preact/signals"
import type { JSX } from "preact"
import { useEffect, useMemo, useRef } from "preact/hooks"
import type { JobList, JobSummary } from "../api.ts"
import { going, startBulk } from "../bulk.ts"
import { FIELDS, filterName, filtersOf, listKey, statesOf } from "../filters.ts"
import { useKey } from "../keys.ts"
import { changes, watched } from "../live.ts"
import { type Loaded, useLoad } from "../load.ts"
import { Button, Decision, Dialog, Empty, Menu, Note, Part } from "../parts/basic.tsx"
import { Glyph, Icon, isGlyph, WORDS } from "../parts/icon.tsx"
import { decide } from "../parts/said.tsx"
import { ACTIONS, Cell, num, Row, Table } from "../parts/table.tsx"
import { Moment } from "../parts/time.tsx"
import { View } from "../parts/view.tsx"
import { base, go, href, keep, kept, place, query, withQuery } from "../router.ts"
import { counts, cutCounts, get, has, may, me, token } from "../state.ts"
import { duration, percent, short, whole } from "../times.ts"

const PAGE = 50

const TABS = ["deferred", "scheduled", "queued", "started", "succeeded", "failed", "cancelled", "expired"] as const

/** The ids of the list that was seen last: from one of its jobs, J and K lead to the next. */
export const trail = signal<{ readonly from: string; readonly ids: ReadonlyArray<string> }>({ from: "", ids: [] })

/** What is selected: jobs by their ids, or all that match, as they match when it is decided. */
type Selection = { readonly ids: ReadonlySet<string> } | "all"
const NONE: Selection = { ids: new Set() }

interface ShownList {
  readonly key: string
  readonly list: JobList
}

/** The list that was shown last: on the way back from one of its jobs it has the same rows, at the same place. */
let lastShown: ShownList | undefined

export const idEnd = (id: string): string => id.slice(-8)

export const Jobs = (): JSX.Element => {
  const filters = filtersOf(query.value)
  // What one token was shown is not shown to the next.
  const key = `${listKey(query.value)} ${token.value ?? ""}`
  const cursor = query.value.get("cursor") ?? undefined
  // What the list began with stays: later answers change rows, and are counted.
  const first = useSignal(lastShown)
  const isAnew = useRef(false)
  const selection = useSignal<Selection>(NONE)

  const latest = useLoad(
    key,
    (stop) => {
      const isFirst = first.peek()?.key !== key || isAnew.current
      const asked = { ...filters, limit: PAGE, cursor, budget: "50ms", count: isFirst ? true : undefined }
      return get<JobList>("/v1/jobs", asked, stop)
    },
    { every: cursor === undefined ? 1 : 0, keep: true },
  )
  const isOwn = first.value?.key === key
  useEffect(() => {
    if (latest.of !== key || latest.data === undefined) return
    if (first.peek()?.key === key && !isAnew.current) return
    isAnew.current = false
    lastShown = { key, list: latest.data }
    first.value = lastShown
  }, [latest.data, key])
  useEffect(() => {
    selection.value = { ids: new Set(kept<ReadonlyArray<string>>("selected") ?? []) }
  }, [key])

  const show = (): void => {
    isAnew.current = true
    latest.reload()
  }
  const list = isOwn ? first.value?.list : undefined
  const rows = useRows(list, latest.data)
  useEffect(() => {
    watched.value = rows.map(({ id }) => id)
    trail.value = { from: `${base}${place.value.path}${place.value.query}`, ids: rows.map(({ id }) => id) }
    return () => {
      watched.value = []
    }
  }, [list])

  const selected = shownOf(selection.value, rows)
  const select = (next: Selection): void => {
    selection.value = next
    keep("selected", next === "all" ? [] : [...next.ids])
  }
  useKey("Escape", () => select(NONE))
  useKey("r", () => {
    if (may("operate") && (selected === "all" || selected.ids.size > 0)) begin("retry", selected, filters, list)
  })

  const shown: Loaded<JobList> = { ...latest, data: list }
  const total = totalOf(list, cursor)
  return (
    <View title="Jobs" count={total === undefined ? undefined : counted(total)}>
      <Tabs filters={filters} />
      <Filters filters={filters} />
      {latest.error?.field !== undefined && (
        <Note kind="warn" icon="filter">
          <b>{latest.error.message}</b>{" "}
          {latest.error.field in Object.fromEntries(query.value) && (
            <a class="link" href={withQuery({ [latest.error.field]: undefined, cursor: undefined })}>
              Drop {latest.error.field}
            </a>
          )}
        </Note>
      )}
      <section class="panel list" aria-label="Jobs" data-hold="" hidden={latest.error?.field !== undefined}>
        <Part of={shown} rows={8}>
          {(data) =>
            data.jobs.length === 0 && data.next === undefined ? (
              <Nothing filters={filters} newer={latest.data?.jobs.length ?? 0} show={show} />
            ) : (
              <>
                <Newer
                  list={data}
                  latest={cursor === undefined ? latest.data : undefined}
                  rows={rows}
                  filters={filters}
                  show={show}
                />
                <JobTable rows={rows} selection={selected} select={select} states={statesOf(filters)} />
                <Footer list={data} total={total} cursor={cursor} rows={rows.length} />
              </>
            )
          }
        </Part>
      </section>
      <SelectionBar
        selection={selected}
        select={select}
        total={total}
        filters={filters}
        act={(action) => begin(action, selected, filters, list)}
      />
    </View>
  )
}

/** How many match. A count that its budget has cut short may be of fewer jobs than the page has. */
const totalOf = (list: JobList | undefined, cursor: string | undefined): JobList["total"] => {
  if (list?.total === undefined || list.total.relation === "eq") return list?.total
  const isWhole = list.next === undefined && cursor === undefined
  return { value: Math.max(list.total.value, list.jobs.length), relation: isWhole ? "eq" : "gte" }
}

const counted = ({ value, relation }: { readonly value: number; readonly relation: string }): string =>
  relation === "eq" ? whole(value) : `more than ${whole(value)}`

/** Of what is selected that which is in sight: a job that has left the list is not meant any more. */
const shownOf = (selection: Selection, rows: ReadonlyArray<JobSummary>): Selection =>
  selection === "all" ? selection : { ids: new Set(rows.flatMap(({ id }) => (selection.ids.has(id) ? [id] : []))) }

/** Opens the dialog about what is selected. */
const begin = (
  action: "retry" | "cancel",
  selection: Selection,
  filters: Readonly<Record<string, string>>,
  list: JobList | undefined,
): void =>
  startBulk({
    action,
    which: selection === "all" ? { filter: filters } : { ids: [...selection.ids] },
    expected: selection === "all" ? list?.total : { value: selection.ids.size, relation: "eq" },
  })

/** The rows that were shown first, each with what is known of it last. */
const useRows = (list: JobList | undefined, latest: JobList | undefined): ReadonlyArray<JobSummary> => {
  const told = changes.value
  return useMemo(() => {
    const newest = new Map((latest?.jobs ?? []).map((job) => [job.id, job]))
    return (list?.jobs ?? []).map((job) => newest.get(job.id) ?? told.get(job.id) ?? job)
  }, [list, latest, told])
}

const Tabs = ({ filters }: { readonly filters: Readonly<Record<string, string>> }): JSX.Element => {
  const states = statesOf(filters)
  // The counts are of the whole board: beside other filters they would say something else than the list.
  const isWhole = Object.keys(filters).every((name) => name === "state")
  const count = (state: string): JSX.Element | null => {
    const value = counts.value?.[state]
    return isWhole && value !== undefined ? (
      <span class="n">
        {short(value)}
        {cutCounts.value.includes(state) && "+"}
      </span>
    ) : null
  }
  return (
    <nav class="tabs" aria-label="State">
      <a
        href={withQuery({ state: undefined, cursor: undefined })}
        aria-current={states.length === 0 ? "true" : undefined}
      >
        All
      </a>
      {TABS.map((state) => (
        <a
          key={state}
          href={withQuery({ state, cursor: undefined })}
          aria-current={states.length === 1 && states[0] === state ? "true" : undefined}
        >
          <Glyph name={state} />
          {WORDS[state]}
          {count(state)}
        </a>
      ))}
      {has("dead") && (
        <a href={href("dead")}>
          <Glyph name="dead" />
          Dead
          {count("dead")}
        </a>
      )}
    </nav>
  )
}

const Filters = ({ filters }: { readonly filters: Readonly<Record<string, string>> }): JSX.Element => {
  const isAdding = useSignal(false)
  const shown = Object.entries(filters).filter(([name, value]) => name !== "state" || value.includes(","))
  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset has a look and a layout of its own.
    <div class="filters" role="group" aria-label="Filters">
      {shown.map(([name, value]) => (
        <span class="chip" key={name}>
          <span class="k">{filterName(name)}</span>
          <span class="v">{value}</span>
          <a
            class="x"
            href={withQuery({ [name]: undefined, cursor: undefined })}
            aria-label={`Remove the filter ${name}`}
          >
            <Icon name="x" />
          </a>
        </span>
      ))}
      <button type="button" class="chip add" onClick={() => (isAdding.value = true)}>
        <span>
          <Icon name="plus" />
          Filter
        </span>
      </button>
      {isAdding.value && <AddFilter filters={filters} onClose={() => (isAdding.value = false)} />}
    </div>
  )
}

const AddFilter = ({
  filters,
  onClose,
}: {
  readonly filters: Readonly<Record<string, string>>
  readonly onClose: () => void
}): JSX.Element => {
  const offered = FIELDS.filter(([name]) => name !== "error" || has("errors"))
  const field = useSignal<string>(offered.find(([name]) => !(name in filters))?.[0] ?? "task")
  const value = useSignal(filters[field.value] ?? "")
  const apply = (): void => {
    onClose()
    go(withQuery({ [field.value]: value.value.trim() === "" ? undefined : value.value.trim(), cursor: undefined }))
  }
  return (
    <Dialog
      title="Filter"
      onClose={onClose}
      footer={
        <>
          <span class="grow" />
          <Button onClick={onClose}>Not now</Button>
          <Button class="main" onClick={apply}>
            Filter
          </Button>
        </>
      }
    >
      <form
        class="stackv"
        onSubmit={(event) => {
          event.preventDefault()
          apply()
        }}
      >
        <label class="stackv">
          By
          <select
            class="fld"
            value={field.value}
            onChange={(event) => {
              field.value = event.currentTarget.value
              value.value = filters[field.value] ?? ""
            }}
          >
            {offered.map(([name, words]) => (
              <option key={name} value={name}>
                {words}
              </option>
            ))}
          </select>
        </label>
        <label class="stackv">
          Exactly
          <input
            class="fld"
            type="text"
            spellcheck={false}
            value={value.value}
            placeholder={offered.find(([name]) => name === field.value)?.[2]}
            onInput={(event) => {
              value.value = event.currentTarget.value
            }}
          />
        </label>
      </form>
    </Dialog>
  )
}

/** What has come since, and what does not match any more. The line takes its room from the beginning of the list. */
const Newer = ({
  list,
  latest,
  rows,
  filters,
  show,
}: {
  readonly list: JobList
  readonly latest: JobList | undefined
  readonly rows: ReadonlyArray<JobSummary>
  readonly filters: Readonly<Record<string, string>>
  readonly show: () => void
}): JSX.Element | null => {
  if (latest === undefined) return null
  const known = new Set(list.jobs.map(({ id }) => id))
  const newer = latest.jobs.findIndex(({ id }) => known.has(id))
  const count = newer < 0 ? latest.jobs.length : newer
  const states = statesOf(filters)
  const gone = states.length === 0 ? 0 : rows.filter(({ state }) => !states.includes(state)).length
  if (count === 0 && gone === 0) return null
  const words = [
    ...(count === 0
      ? []
      : [`${count}${count === PAGE ? " or more" : ""} newer ${count === 1 ? "job matches" : "jobs match"}`]),
    ...(gone === 0 ? [] : [`${gone} ${gone === 1 ? "does" : "do"} not match any more`]),
  ]
  return (
    <button type="button" class="newer" onClick={show}>
      {words.join(", ")} · show
    </button>
  )
}

const JobTable = ({
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
        "What is known",
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

/** The time that says most about a job in its state. */
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
        <Known job={job} to={to} />
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
          <Decision
            scope="operate"
            icon="retry"
            onClick={() => decide(`Retry ${end}`, "POST", `/v1/jobs/${encodeURIComponent(job.id)}/retry`)}
          >
            Retry
          </Decision>
          <Decision
            scope="operate"
            icon="x"
            onClick={() => decide(`Cancel ${end}`, "POST", `/v1/jobs/${encodeURIComponent(job.id)}/cancel`)}
          >
            Cancel
          </Decision>
          <Button icon="copy" onClick={() => void navigator.clipboard?.writeText(job.id)}>
            Copy the id
          </Button>
        </Menu>
      </Cell>
    </Row>
  )
}

/** What a row says beside the state: the error, which leads to the job; how far it is; what it waits for. */
const Known = ({ job, to }: { readonly job: JobSummary; readonly to: string }): JSX.Element => {
  if (job.error !== undefined && job.state !== "succeeded")
    return (
      <a class="err clip mono" href={to} title={`${job.error.name}: ${job.error.message}`}>
        {job.error.message === "" ? job.error.name : job.error.message}
      </a>
    )
  if (job.state === "started" && job.progress !== undefined)
    return <span class="err clip">{percent(job.progress.fraction)} done</span>
  if (job.state === "scheduled" && job.attempts > 0) return <span class="err clip">waits for its retry</span>
  if (job.after?.waiting !== undefined && job.state === "deferred")
    return <span class="err clip">waits for {job.after.waiting.length} other jobs</span>
  return <span class="err clip">{job.description ?? ""}</span>
}

const Footer = ({
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
            go on from here
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

/** An empty board, or filters that nothing matches: each filter is offered to be dropped, with what that would show. */
const Nothing = ({
  filters,
  newer,
  show,
}: {
  readonly filters: Readonly<Record<string, string>>
  readonly newer: number
  readonly show: () => void
}): JSX.Element => {
  const names = Object.keys(filters)
  if (newer > 0)
    return (
      <Empty title={names.length === 0 ? "A job has come" : "A job matches now"}>
        <Button class="main" onClick={show}>
          Show it
        </Button>
      </Empty>
    )
  if (names.length > 0)
    return (
      <Empty title="No job matches">
        <ul class="stackv">
          {names.slice(0, 4).map((name) => (
            <Without key={name} name={name} filters={filters} />
          ))}
        </ul>
        <a class="btn small" href={href("jobs")}>
          Clear filters
        </a>
      </Empty>
    )
  return (
    <Empty title="No job has come yet">
      <p>Post one, and it shows up here by itself.</p>
      <pre class="code">{`curl ${window.location.origin}${base}/v1/jobs \\
  -H 'content-type: application/json' \\${me.value?.open === false ? '\n  -H "Authorization: Bearer $CALLBOARD_TOKEN" \\' : ""}
  -d '{"task": "hello.count"}'`}</pre>
    </Empty>
  )
}

const Without = ({ name, filters }: { readonly name: string; readonly filters: Readonly<Record<string, string>> }) => {
  const { [name]: _dropped, ...rest } = filters
  const found = useLoad(JSON.stringify(rest), (stop) =>
    get<JobList>("/v1/jobs", { ...rest, limit: 1, count: true, budget: "50ms" }, stop),
  )
  const total = found.data?.total
  if (total === undefined || (total.value === 0 && total.relation === "eq")) return null
  return (
    <li>
      <a class="link" href={withQuery({ [name]: undefined, cursor: undefined })}>
        {total.value === 0 ? "Jobs" : counted(total)} without {filterName(name)} {filters[name]}
      </a>
    </li>
  )
}

const SelectionBar = ({
  selection,
  select,
  total,
  filters,
  act,
}: {
  readonly selection: Selection
  readonly select: (next: Selection) => void
  readonly total: JobList["total"]
  readonly filters: Readonly<Record<string, string>>
  readonly act: (action: "retry" | "cancel") => void
}): JSX.Element | null => {
  const isAll = selection === "all"
  // While a decision about many is made or told, its bar stands here.
  if (going.value !== undefined || (!isAll && selection.ids.size === 0)) return null
  const isMore = total !== undefined && total.value > (isAll ? 0 : selection.ids.size)
  // A count that its budget has cut short may be of fewer jobs than there are on the page.
  const canBeAll = Object.keys(filters).length > 0 && (isMore || total?.relation === "gte")
  return (
    <div class="selbar" role="toolbar" aria-label="With the selected jobs">
      <b>
        {isAll ? `All${total === undefined ? "" : ` ${counted(total)}`} that match` : `${selection.ids.size} selected`}
      </b>
      {canBeAll && !isAll && (
        <button type="button" class="all" onClick={() => select("all")}>
          Select all {isMore ? `${counted(total)} ` : ""}that match
        </button>
      )}
      <span class="sep" />
      <Decision scope="operate" class="main" icon="retry" onClick={() => act("retry")}>
        Retry…
      </Decision>
      <Decision scope="operate" onClick={() => act("cancel")}>
        Cancel…
      </Decision>
      <span class="sep" />
      <Button class="sq" icon="x" label="Clear the selection" onClick={() => select(NONE)} />
    </div>
  )
}
