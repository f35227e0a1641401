import type { JSX } from "preact"
import { useEffect, useMemo } from "preact/hooks"
import type { FullJob } from "../../jobs/responses.ts"
import { attemptsOf, ENDED } from "../attempts.ts"
import { jobPath } from "../client.ts"
import { useKey } from "../keys.ts"
import { watched } from "../live.ts"
import { useLoad } from "../load.ts"
import { Copy, Part } from "../parts/basic.tsx"
import { type GlyphName, Icon, isGlyph, StateWord, WORDS } from "../parts/icon.tsx"
import { Moment } from "../parts/time.tsx"
import { Head, View } from "../parts/view.tsx"
import { go, href } from "../router.ts"
import { idEnd } from "../seen.ts"
import { getTagged, may } from "../state.ts"
import { percent } from "../times.ts"
import { Actions } from "./job/actions.tsx"
import { Errors, Waterfall } from "./job/attempts.tsx"
import { Belongs } from "./job/belongs.tsx"
import { Facts, Steps, Values } from "./job/facts.tsx"
import { DurableSteps } from "./job/steps.tsx"
import { WhyPanel } from "./job/why.tsx"
import { trail } from "./jobs.tsx"

export const JobView = ({ id }: { readonly id: string }): JSX.Element => {
  // The beginning of a long input is enough here; the download contains all of it.
  const parts = may("payload") ? "input,attempts" : "attempts"
  const job = useLoad(`${id} ${parts}`, (stop) => getTagged<FullJob>(jobPath(id), { with: parts }, stop), {
    every: 1,
  })
  useEffect(() => {
    watched.value = [id]
    return () => {
      watched.value = []
    }
  }, [id])

  const { ids, from } = trail.value
  const at = ids.indexOf(id)
  const older = at < 0 ? undefined : ids[at + 1]
  const newer = at < 0 ? undefined : ids[at - 1]
  useKey("j", () => older !== undefined && go(href("job", older)))
  useKey("k", () => newer !== undefined && go(href("job", newer)))
  useKey("Escape", () => go(from === "" ? href("jobs") : from))

  const name = job.data?.name ?? (job.error?.status === 410 ? "Gone" : "Job")
  const crumb = (
    <>
      <a href={from === "" ? href("jobs") : from}>Jobs</a>
      <Icon name="right" />
      <b class="mono" title={id}>
        {idEnd(id)}
      </b>
      {newer !== undefined && (
        <a class="btn small quiet sq hide-s" href={href("job", newer)} aria-label="Newer job (K)" title="Newer job (K)">
          <Icon name="left" />
        </a>
      )}
      {older !== undefined && (
        <a class="btn small quiet sq hide-s" href={href("job", older)} aria-label="Older job (J)" title="Older job (J)">
          <Icon name="right" />
        </a>
      )}
    </>
  )
  return (
    <View title={name} crumb={crumb}>
      {job.error?.status === 404 || job.error?.status === 410 ? (
        <Missing id={id} isGone={job.error.status === 410} detail={job.error.message} />
      ) : (
        <>
          {job.data === undefined && <h1 class="sr">Job {idEnd(id)}</h1>}
          <Part of={job} rows={8}>
            {(data) => <LoadedJob job={data} />}
          </Part>
        </>
      )}
    </View>
  )
}

/** The view of a job that does not exist: whether it was deleted or never known, and what that means. */
const Missing = ({
  id,
  isGone,
  detail,
}: {
  readonly id: string
  readonly isGone: boolean
  readonly detail: string
}) => (
  <div class="empty">
    <h1>{isGone ? "This job is no longer kept" : "Job not found"}</h1>
    <p class="mono small">{id}</p>
    <p>
      {isGone
        ? "It has ended, and was deleted or has expired. The resultTtl and failureTtl of the job, its method or the service set how long records are kept."
        : "It may have been submitted to another service, or deleted long ago."}
    </p>
    <p>{detail}</p>
    <a class="btn small" href={href("jobs")}>
      All jobs
    </a>
  </div>
)

const LoadedJob = ({ job }: { readonly job: FullJob }): JSX.Element => {
  const isEnded = ENDED.includes(job.state)
  const attempts = useMemo(() => attemptsOf(job), [job])
  const begun = job.attempts.findLast(({ run }) => run === job.run)?.attempt
  const isRetrying = job.state === "scheduled" && begun !== undefined && job.waits === undefined
  const look: GlyphName = isRetrying ? "retrying" : isGlyph(job.state) ? job.state : "queued"
  return (
    <>
      <Head
        title={
          <>
            {job.name}{" "}
            <span class={`pill p-${job.dead === undefined ? look : "dead"}`}>
              <StateWord name={job.dead === undefined ? look : "dead"} word={wordOf(job, isRetrying)} />
            </span>
          </>
        }
        tools={<Actions job={job} isEnded={isEnded} />}
      >
        <span class="row">
          <span class="mono small">{job.id}</span>
          <Copy text={() => job.id} label="Copy the id" />
        </span>
        {begun !== undefined && (
          <span>
            attempt {begun}
            {job.run > 1 && `, run ${job.run}`}
          </span>
        )}
        <span>
          submitted <Moment at={job.times.submitted} as="clock" />, <Moment at={job.times.submitted} />
        </span>
        {job.progress !== undefined && !isEnded && <span>{percent(job.progress.fraction)} done</span>}
      </Head>
      <div class="jobgrid">
        <div class="stackv">
          {!isEnded && <WhyPanel job={job} />}
          {attempts.length > 0 && <Waterfall attempts={attempts} />}
          <Errors job={job} attempts={attempts} />
          {job.attempts.length > 0 && <DurableSteps key={job.id} job={job} isEnded={isEnded} />}
          <Belongs job={job} />
        </div>
        <aside class="stackv" aria-label="Facts">
          <Facts job={job} attempts={attempts} />
          <Values job={job} isEnded={isEnded} />
          <Steps job={job} />
        </aside>
      </div>
    </>
  )
}

const wordOf = (job: FullJob, isRetrying: boolean): string => {
  if (job.dead !== undefined) return `Dead: ${job.dead}`
  if (isRetrying) return "Scheduled, retrying"
  if (job.state === "scheduled" && job.waits !== undefined) return "Scheduled, waiting"
  return isGlyph(job.state) ? WORDS[job.state] : job.state
}
