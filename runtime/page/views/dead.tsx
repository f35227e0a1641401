/** Dead letters: a table of reasons with the meaning and a remedy of each, and the list of jobs. */
import type { JSX } from "preact"
import type { JobList } from "../../jobs/lists.ts"
import type { JobSummary } from "../../jobs/responses.ts"
import { askBulk, bulkPath, onePath } from "../bulk.ts"
import type { Query } from "../client.ts"
import { type Loaded, useLoad } from "../load.ts"
import { ActionButton, Empty, Panel, Part } from "../parts/basic.tsx"
import { Glyph } from "../parts/icon.tsx"
import { RequestButton } from "../parts/notice.tsx"
import { Pager, useCursors } from "../parts/pager.tsx"
import { ACTIONS, Cell, JobCell, num, Row, Table } from "../parts/table.tsx"
import { Moment } from "../parts/time.tsx"
import { View } from "../parts/view.tsx"
import { query, withQuery } from "../router.ts"
import { idEnd } from "../seen.ts"
import { useStable } from "../stable.ts"
import { counts, cutCounts, get } from "../state.ts"
import { many, whole } from "../times.ts"

/** The meaning and the remedy of each reason. */
const MEANINGS: Readonly<Record<string, string>> = {
  "unknown-actor": "No worker served its task. Start a worker that does, or check the name for typos.",
  "worker-lost":
    "Its workers died while they ran it. Check its input and the memory of the workers before you run it again.",
  rejected: "Its handler rejected it permanently: see its details.",
  undecodable: "It cannot be decoded. Its sender must send JSON or msgpack.",
  "invalid-task": "Its headers are not a valid task. Fix the sender.",
  unsupported: "It needs a feature that Callboard does not support: see its details.",
  "errbacks-refused": "It failed, and its errbacks could not be submitted.",
  "follow-ups-refused": "It ended, and its follow-up tasks could not be submitted.",
  "member-failed": "A member of its group did not succeed. Retry the members that its error names, then this job.",
  "revert-failed": "A step could not be reverted: its error says which. Run the job again to continue reverting.",
  "dependency-gone": "A job that it waits for is no longer kept.",
  stopped: "Its worker stopped before it ended, and it must not start twice.",
}

const reasonOf = ({ dead, error }: JobSummary): string => dead ?? error?.reason ?? "unknown"

/** Dead letters that the table of reasons is made of. */
const LOOKED_AT = 200
/** Dead letters per page of the list. */
const LISTED = 50

interface Reason {
  readonly reason: string
  readonly jobs: ReadonlyArray<JobSummary>
}

/** The dead letters by reason, the most frequent reason first. */
const reasonsOf = (jobs: ReadonlyArray<JobSummary>): ReadonlyArray<Reason> =>
  Object.entries(Object.groupBy(jobs, reasonOf))
    .map(([reason, of = []]) => ({ reason, jobs: of }))
    .toSorted((a, b) => b.jobs.length - a.jobs.length || a.reason.localeCompare(b.reason))

/** Up to three names, and the number of the others. */
const namesOf = (jobs: ReadonlyArray<JobSummary>): string => {
  const names = [...new Set(jobs.map(({ name }) => name))]
  return names.length > 3 ? `${names.slice(0, 3).join(", ")} and ${whole(names.length - 3)} more` : names.join(", ")
}

const diedAt = ({ times }: JobSummary): string => times.ended ?? times.submitted

const RedriveButton = ({ job }: { readonly job: JobSummary }): JSX.Element => (
  <RequestButton
    scope="operate"
    class="small"
    icon="retry"
    words={`Redrive ${idEnd(job.id)}`}
    command={{ method: "POST", path: onePath("redrive", job.id) }}
    title={`Run ${idEnd(job.id)} again`}
  >
    Redrive
  </RequestButton>
)

/** Opens the dialog about all dead letters of a reason, also those that the table does not count. */
const RedriveAll = ({ reason }: { readonly reason: string }): JSX.Element => (
  <ActionButton
    scope="operate"
    class="small"
    icon="retry"
    command={{ method: "POST", path: bulkPath("redrive"), query: { reason } }}
    title={`Run all dead letters with reason ${reason} again`}
    onClick={() => askBulk({ action: "redrive", which: { filter: { reason } }, expected: undefined })}
  >
    Redrive all…
  </ActionButton>
)

const ReasonTable = ({ reasons }: { readonly reasons: ReadonlyArray<Reason> }): JSX.Element => {
  const rows = useStable("reasons", reasons, ({ reason }) => reason)
  return (
    <Table
      caption="Reasons, most frequent first"
      columns={["Reason", "Meaning and remedy", "Tasks", num("Oldest"), num("Jobs"), ACTIONS]}
    >
      {rows.map(({ reason, jobs }) => {
        const oldest = jobs.map(diedAt).toSorted()[0]
        return (
          <Row key={reason}>
            <Cell class="wide">
              <span class="row">
                <Glyph name="dead" />
                <a class="b mono small" href={withQuery({ reason })} data-row="">
                  {reason}
                </a>
              </span>
            </Cell>
            <Cell class="mid small" label="">
              {MEANINGS[reason] ?? "See its error."}
            </Cell>
            <Cell class="mono small" label="">
              {namesOf(jobs)}
            </Cell>
            <Cell class="num mid nowrap" label="oldest">
              {oldest === undefined ? "–" : <Moment at={oldest} />}
            </Cell>
            <Cell class="num b" label="jobs">
              {whole(jobs.length)}
            </Cell>
            <Cell class="act keep">
              <RedriveAll reason={reason} />
            </Cell>
          </Row>
        )
      })}
    </Table>
  )
}

const LetterTable = ({ jobs }: { readonly jobs: ReadonlyArray<JobSummary> }) => {
  const rows = useStable("dead", jobs, ({ id }) => id)
  return (
    <Table
      caption="Dead letters, newest first"
      columns={["Job", "Reason", "Detail", "Queue", "Source", num("Died"), ACTIONS]}
    >
      {rows.map((job) => (
        <Row key={job.id}>
          <JobCell id={job.id} name={job.name} />
          <Cell class="mono small s-dead" label="">
            {reasonOf(job)}
          </Cell>
          <Cell class="mid small" label="">
            <span class="clip2">{job.error?.message.slice(0, 300)}</span>
          </Cell>
          <Cell class="mid off">{job.queue}</Cell>
          <Cell class="mid off">{job.sender ?? "–"}</Cell>
          <Cell class="num mid nowrap" label="">
            <Moment at={diedAt(job)} />
          </Cell>
          <Cell class="act keep">
            <RedriveButton job={job} />
          </Cell>
        </Row>
      ))}
    </Table>
  )
}

const loadDead = (limit: number, signal: AbortSignal, more: Query = {}): Promise<JobList> =>
  get<JobList>("/v1/dead", { limit, ...more }, signal)

const Reasons = (): JSX.Element => {
  const looked = useLoad("dead", (signal) => loadDead(LOOKED_AT, signal), { every: 5 })
  const all = counts.value?.["dead"]
  return (
    <Panel
      title={
        all === undefined
          ? "Reasons"
          : `${cutCounts.value.includes("dead") ? "more than " : ""}${many(all, "dead letter")}`
      }
      hint={looked.data?.next === undefined ? undefined : `of the newest ${whole(LOOKED_AT)}`}
      hold
    >
      <Part of={looked} rows={3}>
        {({ jobs }) =>
          jobs.length === 0 ? <Empty title="No dead letters" /> : <ReasonTable reasons={reasonsOf(jobs)} />
        }
      </Part>
    </Panel>
  )
}

const Letters = ({ list }: { readonly list: Loaded<JobList> }): JSX.Element => (
  <Part of={list}>
    {({ jobs }) => (jobs.length === 0 ? <Empty title="No dead letters" /> : <LetterTable jobs={jobs} />)}
  </Part>
)

export const Dead = (): JSX.Element => {
  const reason = query.value.get("reason") ?? undefined
  const cursors = useCursors(reason)
  const cursor = cursors.value.at(-1)
  const list = useLoad(
    `dead ${cursor ?? ""} ${reason ?? ""}`,
    (signal) => loadDead(LISTED, signal, { cursor, reason }),
    {
      every: 3,
    },
  )
  const all = counts.value?.["dead"] ?? 0
  const next = list.data?.next
  return (
    <View title="Dead letters" count={all === 0 ? undefined : String(all)}>
      <div class="stackv">
        <p class="mid">
          Tasks that no worker serves, that cannot be decoded, that kill their workers, or that were rejected by their
          handler.
        </p>
        <Reasons />
        <Panel
          title="Newest"
          hint={reason === undefined ? undefined : <span class="mono">{reason}</span>}
          tools={
            reason !== undefined && (
              <a class="btn small quiet" href={withQuery({ reason: undefined })}>
                All reasons
              </a>
            )
          }
          hold
        >
          <Letters list={list} />
          <Pager cursors={cursors} next={next} back="Newer" forth="Older" />
        </Panel>
      </div>
    </View>
  )
}
