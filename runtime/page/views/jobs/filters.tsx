/**
 * The filters of the list of jobs: tabs of states, the filters in the address, and suggestions where nothing matches.
 */
import { useSignal } from "@preact/signals"
import type { JSX } from "preact"
import type { JobList } from "../../../jobs/lists.ts"
import { FIELDS, filterName, statesOf } from "../../filters.ts"
import { useLoad } from "../../load.ts"
import { Button, Dialog, Empty } from "../../parts/basic.tsx"
import { Glyph, Icon, WORDS } from "../../parts/icon.tsx"
import { base, go, href, withQuery } from "../../router.ts"
import { counts, cutCounts, get, has, me } from "../../state.ts"
import { counted, short } from "../../times.ts"

const TABS = ["deferred", "scheduled", "queued", "started", "succeeded", "failed", "cancelled", "expired"] as const

export const Tabs = ({ filters }: { readonly filters: Readonly<Record<string, string>> }): JSX.Element => {
  const states = statesOf(filters)
  // The counts are of the whole board, so they are left out beside other filters, where the list has fewer jobs.
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

export const Filters = ({ filters }: { readonly filters: Readonly<Record<string, string>> }): JSX.Element => {
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
          <Button onClick={onClose}>Close</Button>
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

/** Shown where no job matches: for each filter an offer to remove it, with the number of jobs that would match then. */
export const Nothing = ({
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
      <Empty title={names.length === 0 ? "New job" : "A job matches now"}>
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
    <Empty title="No jobs yet">
      <p>Submit one, and it appears here.</p>
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
