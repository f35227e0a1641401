import type { ComponentChildren, JSX } from "preact"
import type { FullJob, Job, JobInput } from "../../../jobs/responses.ts"
import type { DrawnAttempt } from "../../attempts.ts"
import { ApiError, jobPath } from "../../client.ts"
import { Button, Empty, Panel } from "../../parts/basic.tsx"
import { Glyph, isGlyph, WORDS } from "../../parts/icon.tsx"
import { save, ValuePanel } from "../../parts/json.tsx"
import { notify } from "../../parts/notice.tsx"
import { Moment } from "../../parts/time.tsx"
import { href } from "../../router.ts"
import { idEnd } from "../../seen.ts"
import { get, may, now } from "../../state.ts"
import { bytes, duration } from "../../times.ts"

const Fact = ({ name, children }: { readonly name: string; readonly children: ComponentChildren }): JSX.Element => (
  <>
    <dt>{name}</dt>
    <dd>{children}</dd>
  </>
)

const JobLink = ({ id }: { readonly id: string }): JSX.Element => (
  <a class="link mono small" href={href("job", id)} title={id}>
    {idEnd(id)}
  </a>
)

export const Facts = ({
  job,
  attempts,
}: {
  readonly job: FullJob
  readonly attempts: ReadonlyArray<DrawnAttempt>
}): JSX.Element => {
  const { times, timeLimit } = job
  // The last attempt may not have begun.
  const runs = attempts.flatMap(({ started, ended }) => (started === undefined ? [] : [(ended ?? now.value) - started]))
  const ran = runs.reduce((sum, ms) => sum + ms, 0)
  return (
    <Panel title="Facts">
      <div class="body">
        <dl class="kv">
          <Fact name="Queue">
            <a class="link" href={href("queue", job.queue)}>
              {job.queue}
            </a>
            , priority {job.priority}
            {job.front === true && ", at the front"}
          </Fact>
          {job.worker !== undefined && (
            <Fact name="Worker">
              <a class="link" href={href("worker", job.worker)}>
                {job.worker}
              </a>
            </Fact>
          )}
          <Fact name="Submitted">
            <Moment at={times.submitted} as="clock" />
            {job.sender !== undefined && ` by ${job.sender}`}
          </Fact>
          {times.due !== undefined && (
            <Fact name="Due">
              <Moment at={times.due} as="clock" />
            </Fact>
          )}
          {times.started !== undefined && (
            <Fact name="Started">
              <Moment at={times.started} as="clock" />
            </Fact>
          )}
          {times.ended !== undefined && (
            <Fact name="Ended">
              <Moment at={times.ended} as="clock" />
            </Fact>
          )}
          {times.expires !== undefined && (
            <Fact name="Expires">
              <Moment at={times.expires} as="clock" />, <Moment at={times.expires} />
            </Fact>
          )}
          {times.keptUntil !== undefined && (
            <Fact name="Kept until">
              <Moment at={times.keptUntil} as="clock" />
            </Fact>
          )}
          {timeLimit !== undefined && (
            <Fact name="Time limit">
              {timeLimit.hard === null
                ? "none"
                : timeLimit.hard === undefined
                  ? "of its method"
                  : duration(timeLimit.hard)}
              {timeLimit.soft !== undefined && `, soft ${duration(timeLimit.soft)}`}
            </Fact>
          )}
          {job.retries > 0 && <Fact name="Retries">{job.retries}</Fact>}
          {job.durations?.waited !== undefined && <Fact name="Waited">{duration(job.durations.waited)}</Fact>}
          {ran > 0 && (
            <Fact name="Ran">
              {duration(ran / 1000)}
              {runs.length > 1 && ` in ${runs.length} attempts`}
            </Fact>
          )}
          {job.parentId !== undefined && (
            <Fact name="Parent">
              <JobLink id={job.parentId} />
            </Fact>
          )}
          {job.rootId !== undefined && job.rootId !== job.id && (
            <Fact name="Workflow">
              <JobLink id={job.rootId} />{" "}
              <a class="link" href={href("jobs", "", { root: job.rootId })}>
                all
              </a>
            </Fact>
          )}
          {job.group !== undefined && (
            <Fact name="Group">
              <a class="link" href={href("jobs", "", { group: job.group })}>
                {job.group}
              </a>
            </Fact>
          )}
          {job.after !== undefined && (
            <Fact name="Follows">
              {job.after.ids.slice(0, 10).map((id) => (
                <span key={id}>
                  <JobLink id={id} />{" "}
                </span>
              ))}
              {job.after.ids.length > 10 && `and ${job.after.ids.length - 10} more`}
            </Fact>
          )}
          {job.description !== undefined && <Fact name="Description">{job.description}</Fact>}
        </dl>
      </div>
    </Panel>
  )
}

export const Values = ({ job, isEnded }: { readonly job: FullJob; readonly isEnded: boolean }): JSX.Element => {
  const name = `${job.task}-${idEnd(job.id)}`
  if (!may("payload"))
    return (
      <Panel title="Input, result, meta">
        <div class="body">
          <p class="small dim">Your token does not show input and results: it lacks the scope payload.</p>
        </div>
      </Panel>
    )
  return (
    <>
      {"input" in job ? (
        <Input job={job} name={`${name}-input`} />
      ) : (
        <Panel title="Input">
          <div class="body">
            <p class="small dim">{isEnded ? "It is not kept after a success." : "It cannot be read here."}</p>
          </div>
        </Panel>
      )}
      {"result" in job ? (
        <ValuePanel title="Result" value={job.result} name={`${name}-result`} />
      ) : (
        <Panel title="Result">
          <div class="body">
            <p class="small dim">{isEnded ? "None." : "None yet."}</p>
          </div>
        </Panel>
      )}
      {job.progress?.detail !== undefined && (
        <ValuePanel title="Progress" value={job.progress.detail} name={`${name}-progress`} />
      )}
      {job.meta !== undefined && <ValuePanel title="Meta" value={job.meta} name={`${name}-meta`} />}
      {job.headers !== undefined && <ValuePanel title="Headers" value={job.headers} name={`${name}-headers`} />}
    </>
  )
}

const isInput = (value: unknown): value is JobInput =>
  typeof value === "object" && value !== null && "bytes" in value && "truncated" in value

/** The input of the job. The beginning of a long one is shown; the download contains all of it. */
const Input = ({ job, name }: { readonly job: FullJob; readonly name: string }): JSX.Element => {
  if (!isInput(job.input)) return <ValuePanel title="Input" value={job.input} name={name} />
  const { value, raw, bytes: size, truncated } = job.input
  if (raw === undefined) return <ValuePanel title="Input" value={value} name={name} />
  const download = async (): Promise<void> => {
    try {
      const whole = await get<Job>(jobPath(job.id))
      save(`${name}.json`, JSON.stringify(whole.input, null, 2))
    } catch (error) {
      if (!(error instanceof ApiError)) throw error
      notify({ words: `Download: ${error.message}`, isBad: true })
    }
  }
  return (
    <Panel
      title="Input"
      hint={bytes(size)}
      tools={
        <Button class="small quiet" onClick={() => void download()}>
          Download
        </Button>
      }
    >
      <div class="body">
        {/* biome-ignore lint/a11y/noNoninteractiveTabindex: an element that scrolls must be reachable by keyboard. */}
        <pre class="code long" tabIndex={0}>
          {raw}
        </pre>
        {truncated && <p class="small dim">Only the first 64 KiB are shown. Download it to see the rest.</p>}
      </div>
    </Panel>
  )
}

export const Steps = ({ job }: { readonly job: FullJob }): JSX.Element => (
  <Panel title="History" hint="the last 50">
    <div class="body">
      {job.transitions.length === 0 ? (
        <Empty title="No history is kept" />
      ) : (
        <ol class="steps">
          {job.transitions.map((step) => (
            <li key={step.id}>
              <Moment at={step.at} as="exact" />
              {isGlyph(step.state) ? <Glyph name={step.state} label={WORDS[step.state]} /> : <span />}
              <span>
                {step.state}
                {step.attempt !== undefined && `, attempt ${step.attempt}`}
                {step.worker !== undefined && ` on ${step.worker}`}
                {step.reason !== undefined && `, ${step.reason}`}
                {step.due !== undefined && (
                  <>
                    , due <Moment at={step.due} as="clock" />
                  </>
                )}
                {step.error !== undefined && <span class="sub bad">{step.error.name}</span>}
              </span>
            </li>
          ))}
        </ol>
      )}
    </div>
  </Panel>
)
