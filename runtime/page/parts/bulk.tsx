/** The dialog about a bulk action, and the bar that shows its progress. */
import { useSignal } from "@preact/signals"
import type { JSX } from "preact"
import { useEffect } from "preact/hooks"
import type { BulkPlan } from "../../jobs/lists.ts"
import type { JobSummary } from "../../jobs/responses.ts"
import {
  type Action,
  type BulkAction,
  callsOf,
  pending,
  planBulk,
  type RunningAction,
  runBulk,
  running,
} from "../bulk.ts"
import { isNamable } from "../bulk-parts.ts"
import type { Progress } from "../bulk-run.ts"
import { curlOf, jobPath } from "../client.ts"
import { filterName } from "../filters.ts"
import { type Loaded, useLoad } from "../load.ts"
import { href } from "../router.ts"
import { idEnd } from "../seen.ts"
import { get, me } from "../state.ts"
import { whole } from "../times.ts"
import { Button, Check, Copy, Dialog, Note, Skeleton, Trouble } from "./basic.tsx"
import { Meter } from "./chart.tsx"
import { StateWord } from "./icon.tsx"

const VERB: Readonly<Record<Action, readonly [now: string, going: string, done: string]>> = {
  retry: ["Retry", "Retrying", "retried"],
  cancel: ["Cancel", "Cancelling", "cancelled"],
  redrive: ["Redrive", "Redriving", "redriven"],
}

/** Number of jobs from which on a trial on a few jobs is the default. */
const MANY = 20
const FIRST = 5

/** Why a job cannot be changed, in words. */
const REASONS: Readonly<Record<string, string>> = {
  "job-exists": "their state does not allow it",
  "already-terminal": "have already ended",
  unsupported: "their input is not kept",
  gone: "are no longer kept",
  "not-found": "no longer exist",
}

export const BulkDialog = (): JSX.Element | null =>
  pending.value === undefined ? null : <Confirmation key={JSON.stringify(pending.value)} decision={pending.value} />

const Confirmation = ({ decision }: { readonly decision: BulkAction }): JSX.Element => {
  const { action, which, expected } = decision
  const filter = "filter" in which ? which.filter : undefined
  const plan = useLoad("dry", () => planBulk(decision))
  const count = "ids" in which ? which.ids.length : (plan.data?.matches.value ?? expected?.value)
  const isMany = (count ?? 0) > MANY && action !== "cancel"
  const chosen = useSignal<boolean | undefined>(undefined)
  const first = chosen.value ?? isMany
  // Of a job that no list of ids can name it shows when it is decided about.
  const isPlanned = !("ids" in which) || which.ids.every(isNamable)
  const nothing = isPlanned && plan.data?.will === 0 && plan.data.matches.relation === "eq"
  const [verb] = VERB[action]
  const about = plan.data !== undefined && plan.data.matches.relation === "gte" ? "more than " : ""
  const close = (): void => {
    pending.value = undefined
  }
  const rest = (count ?? 0) - FIRST
  const calls = callsOf(decision, plan.data?.until)
  return (
    <Dialog
      title={`${verb} ${count === undefined ? "" : `${about}${whole(count)} `}${count === 1 ? "job" : "jobs"}?`}
      lead={
        filter === undefined
          ? "Exactly the jobs that you have selected."
          : "Exactly the jobs that match now; later jobs are not affected."
      }
      onClose={close}
      footer={
        <>
          <Copy
            label="Copy as curl"
            text={() =>
              calls.map((url) => curlOf("POST", `${window.location.origin}${url}`, me.value?.open === false)).join("\n")
            }
          />
          <span class="grow" />
          <Button onClick={close}>Close</Button>
          <Button
            class="main"
            disabled={plan.data === undefined || nothing}
            onClick={() =>
              runBulk(
                decision,
                filter === undefined ? expected : plan.data?.matches,
                plan.data?.until,
                first && rest > 0 ? FIRST : 0,
              )
            }
          >
            {first && rest > 0
              ? `Try ${FIRST}, then ${about}${whole(rest)}`
              : `${verb} ${count === undefined ? "" : `${about}${whole(count)}`}`}
          </Button>
        </>
      }
    >
      <Plan plan={plan} action={action} />
      {filter !== undefined && (
        <div class="filters">
          {Object.entries(filter).map(([name, value]) => (
            <span class="chip" key={name}>
              <span class="k">{filterName(name)}</span>
              <span class="v">{value}</span>
            </span>
          ))}
        </div>
      )}
      {(count ?? 0) > FIRST && (
        <Check
          label={`Try ${FIRST} first`}
          hint="Their progress is shown; then you decide whether to continue with the rest."
          checked={first}
          onChange={(checked) => {
            chosen.value = checked
          }}
        />
      )}
      <p class="small dim">
        Starts in 8 seconds; you can undo until then. Keep this page open; you can stop at any time.
      </p>
    </Dialog>
  )
}

const Plan = ({ plan, action }: { readonly plan: Loaded<BulkPlan>; readonly action: Action }): JSX.Element => {
  if (plan.data === undefined)
    return plan.error === undefined ? <Skeleton rows={2} /> : <Trouble error={plan.error} reload={plan.reload} />
  const { will, refused, changed, by, warnings, sample, matches } = plan.data
  const not = Object.entries(refused)
  return (
    <>
      <div class="tally">
        <div>
          <b class="good">{whole(will)}</b>
          <span>can be {VERB[action][2]}</span>
        </div>
        {not.map(([code, count]) => (
          <div key={code}>
            <b>{whole(count)}</b>
            <span>cannot: {REASONS[code] ?? code}</span>
          </div>
        ))}
        {changed > 0 && (
          <div>
            <b>{whole(changed)}</b>
            <span>changed in the meantime, skipped</span>
          </div>
        )}
        {matches.relation === "gte" && (
          <div>
            <b>more</b>
            <span>than {whole(matches.value)} were not read</span>
          </div>
        )}
      </div>
      {warnings.map(({ code, text }) => (
        <Note key={code} kind="warn" icon="errors">
          {text}
        </Note>
      ))}
      {will > 0 && (
        <p class="small dim">
          Of {tallied(by.task, "task")}, in {tallied(by.queue, "queue")}.
        </p>
      )}
      {sample.length > 0 && (
        <details>
          <summary class="small">View {sample.length} of them</summary>
          <Sample ids={sample} />
        </details>
      )}
    </>
  )
}

/** `3 tasks: a 12, b 4, c 1`. */
const tallied = (counts: Readonly<Record<string, number>>, word: string): string => {
  const entries = Object.entries(counts)
  const [only] = entries
  if (entries.length === 1 && only !== undefined) return `the ${word} ${only[0]}`
  const named = entries.slice(0, 3).map(([name, count]) => `${name} ${whole(count)}`)
  return `${entries.length} ${word}s (${named.join(", ")}${entries.length > 3 ? ", …" : ""})`
}

/** A few jobs with their current states. */
const Sample = ({ ids }: { readonly ids: ReadonlyArray<string> }): JSX.Element => (
  <ul class="few">
    {ids.slice(0, 10).map((id) => (
      <SampleJob key={id} id={id} />
    ))}
  </ul>
)

const SampleJob = ({ id }: { readonly id: string }): JSX.Element => {
  const job = useLoad(id, (stop) => get<JobSummary>(jobPath(id), {}, stop), { every: 1 })
  return (
    <li>
      {job.data === undefined ? <span class="st">…</span> : <StateWord name={job.data.state} />}
      <a class="link" href={href("job", id)}>
        {job.data?.name ?? "job"}
      </a>
      <span class="id">{idEnd(id)}</span>
      {job.data?.error !== undefined && job.data.state !== "succeeded" && (
        <span class="clip mono small">{job.data.error.message}</span>
      )}
    </li>
  )
}

const refusedWords = (refused: Readonly<Record<string, number>>): string => {
  const entries = Object.entries(refused)
  return entries.length === 0
    ? ""
    : `, ${entries.map(([code, count]) => `${whole(count)} refused (${REASONS[code] ?? code})`).join(", ")}`
}

/** Number of jobs that are left, in words: what the service counted, or what is left of a number that was exact. */
export const leftOf = ({ left }: Pick<Progress, "left">, ofTotal: number | undefined): string | undefined => {
  if (ofTotal !== undefined) return whole(ofTotal)
  return left === undefined ? undefined : `${whole(left.left)}${left.more ? "+" : ""}`
}

export const BulkBar = (): JSX.Element | null =>
  running.value === undefined ? null : <ProgressBar bulk={running.value} />

const ProgressBar = ({ bulk: { decision, total, progress, run } }: { readonly bulk: RunningAction }): JSX.Element => {
  const [, doing, done] = VERB[decision.action]
  const { phase, changed, refused, tried, startsAt, error } = progress
  const all = Object.values(refused).reduce((sum, count) => sum + count, 0) + changed
  const left = leftOf(progress, total === undefined ? undefined : Math.max(0, total - all))
  const seconds = useSignal(0)
  useEffect(() => {
    const tick = (): void => {
      seconds.value = Math.max(0, Math.ceil((startsAt - Date.now()) / 1000))
    }
    tick()
    if (phase !== "waiting") return
    const timer = setInterval(tick, 250)
    return () => clearInterval(timer)
  }, [startsAt, phase])
  const close = (): void => {
    running.value = undefined
  }
  const isOver = phase === "over" || phase === "stopped" || phase === "undone"
  return (
    <section class="bulkbar" aria-label="Bulk operation">
      {phase === "waiting" && (
        <span class="grow">
          <b>
            {total === undefined ? "Jobs" : `${whole(total)} ${total === 1 ? "job" : "jobs"}`} will be {done} in{" "}
            {seconds.value} s.
          </b>
        </span>
      )}
      {phase === "trying" && <b class="grow">Trying {FIRST} first…</b>}
      {phase === "asking" && (
        <div class="grow">
          <div class="row wrap">
            <b>
              {changed} tried first{refusedWords(refused)}.
            </b>
            <Button class="main" onClick={() => run.goOn()}>
              Continue{left === undefined ? "" : ` with the other ${left}`}
            </Button>
          </div>
          <Sample ids={tried} />
        </div>
      )}
      {phase === "running" && (
        <span class="grow">
          <b>
            {doing} {total === undefined ? "" : whole(total)}
          </b>
          : {whole(changed)} done{refusedWords(refused)}
          {left === undefined ? "" : `, ${left} to go`}
          {total !== undefined && total > 0 && (
            <Meter
              parts={[
                [changed / total, "f-ok"],
                [(all - changed) / total, "f-fail"],
              ]}
            />
          )}
        </span>
      )}
      {isOver && (
        <span class="grow" role="status">
          <b>{phase === "over" ? "Done" : phase === "stopped" ? "Stopped" : "Undone"}</b>
          {phase === "undone"
            ? ": nothing was changed."
            : `: ${whole(changed)} ${done}${refusedWords(refused)}${phase === "stopped" && left !== undefined ? `, ${left} left` : ""}.`}{" "}
          {error}
        </span>
      )}
      {/* The button that ends the action is always in this place, so that no other one appears under the pointer. */}
      {isOver ? (
        <Button onClick={close}>Close</Button>
      ) : (
        <Button onClick={() => (phase === "waiting" ? run.undo() : run.stop())}>
          {phase === "waiting" ? "Undo" : "Stop"}
        </Button>
      )}
    </section>
  )
}
