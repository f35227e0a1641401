/**
 * The list of jobs, 50 rows per page. Values change in place; new jobs are counted above the list and shown on request.
 */
import { signal, useSignal } from "@preact/signals"
import type { JSX } from "preact"
import { useEffect, useMemo, useRef } from "preact/hooks"
import type { JobList } from "../../jobs/lists.ts"
import type { JobSummary } from "../../jobs/responses.ts"
import { askBulk, running } from "../bulk.ts"
import { filtersOf, listKey, statesOf } from "../filters.ts"
import { useKey } from "../keys.ts"
import { changes, watched } from "../live.ts"
import { type Loaded, useLoad } from "../load.ts"
import { ActionButton, Button, Note, Part } from "../parts/basic.tsx"
import { View } from "../parts/view.tsx"
import { base, keep, kept, place, query, withQuery } from "../router.ts"
import { get, may, token } from "../state.ts"
import { counted } from "../times.ts"
import { Filters, Nothing, Tabs } from "./jobs/filters.tsx"
import { Footer, JobTable, NONE, type Selection } from "./jobs/table.tsx"

const PAGE = 50

/** Ids of the list that was shown last: in the view of a job, J and K lead to its neighbours in that list. */
export const trail = signal<{ readonly from: string; readonly ids: ReadonlyArray<string> }>({ from: "", ids: [] })

interface ShownList {
  readonly key: string
  readonly list: JobList
}

/** The list that was shown last: on the way back from the view of a job it has the same rows in the same place. */
let lastShown: ShownList | undefined

export const Jobs = (): JSX.Element => {
  const filters = filtersOf(query.value)
  // Another token may have other rights, so it gets a list of its own.
  const key = `${listKey(query.value)} ${token.value ?? ""}`
  const cursor = query.value.get("cursor") ?? undefined
  // The first answer decides which rows are shown. Later answers only change their values and are counted as newer
  // jobs.
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

/**
 * The number of jobs that match. A count that was cut by its budget may be lower than the number of jobs on the page.
 */
const totalOf = (list: JobList | undefined, cursor: string | undefined): JobList["total"] => {
  if (list?.total === undefined || list.total.relation === "eq") return list?.total
  const isWhole = list.next === undefined && cursor === undefined
  return { value: Math.max(list.total.value, list.jobs.length), relation: isWhole ? "eq" : "gte" }
}

/** The selected jobs that are on the page. A job that has left the list is no longer selected. */
const shownOf = (selection: Selection, rows: ReadonlyArray<JobSummary>): Selection =>
  selection === "all" ? selection : { ids: new Set(rows.flatMap(({ id }) => (selection.ids.has(id) ? [id] : []))) }

/** Opens the dialog about an action on the selected jobs. */
const begin = (
  action: "retry" | "cancel",
  selection: Selection,
  filters: Readonly<Record<string, string>>,
  list: JobList | undefined,
): void =>
  askBulk({
    action,
    which: selection === "all" ? { filter: filters } : { ids: [...selection.ids] },
    expected: selection === "all" ? list?.total : { value: selection.ids.size, relation: "eq" },
  })

/** The rows of the first answer, each with its newest values. */
const useRows = (list: JobList | undefined, latest: JobList | undefined): ReadonlyArray<JobSummary> => {
  const told = changes.value
  return useMemo(() => {
    const newest = new Map((latest?.jobs ?? []).map((job) => [job.id, job]))
    return (list?.jobs ?? []).map((job) => newest.get(job.id) ?? told.get(job.id) ?? job)
  }, [list, latest, told])
}

/**
 * Says how many newer jobs match, and how many rows no longer match. The line overlaps the list, so that no row moves.
 */
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
    ...(gone === 0 ? [] : [`${gone} no longer ${gone === 1 ? "matches" : "match"}`]),
  ]
  return (
    <button type="button" class="newer" onClick={show}>
      {words.join(", ")} · show
    </button>
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
  // The bar of the bulk action stands in this place while there is one.
  if (running.value !== undefined || (!isAll && selection.ids.size === 0)) return null
  const isMore = total !== undefined && total.value > (isAll ? 0 : selection.ids.size)
  // A count that was cut by its budget may be lower than the number of jobs on the page.
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
      <ActionButton scope="operate" class="main" icon="retry" onClick={() => act("retry")}>
        Retry…
      </ActionButton>
      <ActionButton scope="operate" onClick={() => act("cancel")}>
        Cancel…
      </ActionButton>
      <span class="sep" />
      <Button class="sq" icon="x" label="Clear the selection" onClick={() => select(NONE)} />
    </div>
  )
}
