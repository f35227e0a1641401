/** One job: why it does not run, what happened to it, its errors, what it belongs to, and what it was given and gave back. */
import { useSignal } from "@preact/signals"
import type { ComponentChildren, JSX } from "preact"
import { useEffect, useMemo } from "preact/hooks"
import type { Job, JobInput, Tree, Why } from "../api.ts"
import { type Attempt, attemptsOf, drawn } from "../attempts.ts"
import { startBulk } from "../bulk.ts"
import { ApiError } from "../client.ts"
import { useKey } from "../keys.ts"
import { watched } from "../live.ts"
import { useLoad } from "../load.ts"
import { Button, Copy, Decision, Dialog, Empty, Panel, Part } from "../parts/basic.tsx"
import { Glyph, type GlyphName, Icon, isGlyph, StateWord, WORDS } from "../parts/icon.tsx"
import { save, ValuePanel } from "../parts/json.tsx"
import { decide, say } from "../parts/said.tsx"
import { Moment } from "../parts/time.tsx"
import { Traceback } from "../parts/trace.tsx"
import { View } from "../parts/view.tsx"
import { go, href } from "../router.ts"
import { get, getTagged, has, may, now, zone } from "../state.ts"
import { bytes, clock, countdown, duration, percent, whole } from "../times.ts"
import { linesOf } from "../tree.ts"
import { idEnd, trail } from "./jobs.tsx"

const ENDED = ["succeeded", "failed", "cancelled", "expired"]
const RETRYABLE = ["failed", "cancelled", "expired"]

const pathOf = (id: string, more = ""): string => `/v1/jobs/${encodeURIComponent(id)}${more}`

const pct = (part: number): string => `${(part * 100).toFixed(2)}%`

export const JobView = ({ id }: { readonly id: string }): JSX.Element => {
  // Of a long input the beginning is enough; the whole of it is downloaded.
  const parts = may("payload") ? "input" : undefined
  const job = useLoad(`${id} ${parts}`, (stop) => getTagged<Job>(pathOf(id), { with: parts }, stop), { every: 1 })
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
            {(data) => <Shown job={data} />}
          </Part>
        </>
      )}
    </View>
  )
}

/** A job that is not there: whether it was, and what that means. */
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
    <h1>{isGone ? "This job is not kept any more" : "There is no such job"}</h1>
    <p class="mono small">{id}</p>
    <p>
      {isGone
        ? "It has ended, and the time for which its record is kept is over: resultTtl and failureTtl of the job, of its method or of the service say how long that is."
        : "It may have been submitted to another board, or was forgotten long ago."}
    </p>
    <p class="small dim">{detail}</p>
    <a class="btn small" href={href("jobs")}>
      All jobs
    </a>
  </div>
)

const Shown = ({ job }: { readonly job: Job }): JSX.Element => {
  const isEnded = ENDED.includes(job.state)
  const attempts = useMemo(() => attemptsOf(job.transitions), [job.transitions])
  const isRetrying = job.state === "scheduled" && job.attempts > 0
  const look: GlyphName = isRetrying ? "retrying" : isGlyph(job.state) ? job.state : "queued"
  return (
    <>
      <div class="jobhead">
        <div class="grow">
          <h1>
            {job.name}{" "}
            <span class={`pill p-${job.dead === undefined ? look : "dead"}`}>
              <StateWord name={job.dead === undefined ? look : "dead"} word={wordOf(job, isRetrying)} />
            </span>
          </h1>
          <p class="meta">
            <span class="row">
              <span class="mono small">{job.id}</span>
              <Copy text={() => job.id} label="Copy the id" />
            </span>
            {job.attempts > 0 && (
              <span>
                attempt {job.attempts}
                {job.run > 1 && `, run ${job.run}`}
              </span>
            )}
            <span>
              submitted <Moment at={job.times.submitted} as="clock" />, <Moment at={job.times.submitted} />
            </span>
            {job.progress !== undefined && !isEnded && <span>{percent(job.progress.fraction)} done</span>}
          </p>
        </div>
        <Actions job={job} isEnded={isEnded} />
      </div>
      <div class="jobgrid">
        <div class="stackv">
          {!isEnded && <WhyPanel job={job} />}
          {attempts.length > 0 && <Waterfall attempts={attempts} />}
          <Errors job={job} attempts={attempts} />
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

const wordOf = (job: Job, isRetrying: boolean): string => {
  if (job.dead !== undefined) return `Dead: ${job.dead}`
  if (isRetrying) return "Scheduled, retrying"
  return isGlyph(job.state) ? WORDS[job.state] : job.state
}

/** Each decision has its place, whatever the state: none comes where another one was. */
const Actions = ({ job, isEnded }: { readonly job: Job; readonly isEnded: boolean }): JSX.Element => {
  const isCancelling = useSignal(false)
  const isDeleting = useSignal(false)
  const canRetry = RETRYABLE.includes(job.state)
  const isDead = job.dead !== undefined
  const retryPath = isDead ? `/v1/dead/${encodeURIComponent(job.id)}/redrive` : pathOf(job.id, "/retry")
  const retry = (): void => {
    if (canRetry && may("operate")) void decide(`Retry ${idEnd(job.id)}`, "POST", retryPath)
  }
  useKey("r", retry)
  const canRun = job.state === "scheduled"
  return (
    <div class="row wrap">
      <Decision
        scope="operate"
        class={canRetry ? "main" : ""}
        icon="retry"
        onClick={retry}
        command={{ method: "POST", path: retryPath }}
        off={canRetry ? undefined : isEnded ? "It has succeeded" : "It has not ended"}
      >
        Retry
      </Decision>
      <Decision
        scope="operate"
        class={canRun ? "main" : ""}
        icon="play"
        onClick={() => void decide(`Run ${idEnd(job.id)} now`, "POST", pathOf(job.id, "/run-now"))}
        command={{ method: "POST", path: pathOf(job.id, "/run-now") }}
        off={canRun ? undefined : "It is not scheduled for later"}
      >
        Run now
      </Decision>
      <Decision
        scope="operate"
        onClick={() => (isCancelling.value = true)}
        command={{ method: "POST", path: pathOf(job.id, "/cancel") }}
        off={isEnded ? "It has ended" : undefined}
      >
        Cancel…
      </Decision>
      <Decision
        scope="admin"
        class="danger"
        icon="trash"
        onClick={() => (isDeleting.value = true)}
        command={{ method: "DELETE", path: pathOf(job.id) }}
        off={isEnded ? undefined : "Cancel it first"}
      >
        Delete…
      </Decision>
      {isCancelling.value && <Cancel job={job} onClose={() => (isCancelling.value = false)} />}
      {isDeleting.value && <Delete job={job} onClose={() => (isDeleting.value = false)} />}
    </div>
  )
}

const Cancel = ({ job, onClose }: { readonly job: Job; readonly onClose: () => void }): JSX.Element => {
  const terminate = useSignal(false)
  return (
    <Dialog
      title={`Cancel ${job.name}?`}
      lead={
        job.state === "started"
          ? "It runs: its handler is told by its signal, and what it returns will not count."
          : "It will not run. It can be retried later, for as long as it is kept."
      }
      onClose={onClose}
      footer={
        <>
          <span class="grow" />
          <Button onClick={onClose}>Not now</Button>
          <Button
            class="danger main"
            onClick={() => {
              onClose()
              const query = terminate.value ? { terminate: true } : {}
              void decide(`Cancel ${idEnd(job.id)}`, "POST", pathOf(job.id, "/cancel"), query)
            }}
          >
            Cancel the job
          </Button>
        </>
      }
    >
      {job.state === "started" && (
        <label class="opt">
          <input
            class="ck"
            type="checkbox"
            checked={terminate.value}
            onChange={(event) => {
              terminate.value = event.currentTarget.checked
            }}
          />
          <span>End it at once</span>
          <small>Only a handler in a process of its own can be ended from outside.</small>
        </label>
      )}
    </Dialog>
  )
}

const Delete = ({ job, onClose }: { readonly job: Job; readonly onClose: () => void }): JSX.Element => {
  const typed = useSignal("")
  const end = idEnd(job.id)
  return (
    <Dialog
      title={`Delete ${job.name}?`}
      lead="Its record, result and error are forgotten. This cannot be undone."
      onClose={onClose}
      footer={
        <>
          <span class="grow" />
          <Button onClick={onClose}>Not now</Button>
          <Button
            class="danger main"
            disabled={typed.value.trim() !== end}
            onClick={() => {
              onClose()
              void decide(`Delete ${end}`, "DELETE", pathOf(job.id))
            }}
          >
            Delete for ever
          </Button>
        </>
      }
    >
      <label class="stackv">
        Type {end}
        <input
          class="fld mono"
          type="text"
          autocomplete="off"
          spellcheck={false}
          value={typed.value}
          onInput={(event) => {
            typed.value = event.currentTarget.value
          }}
        />
      </label>
    </Dialog>
  )
}

const WhyPanel = ({ job }: { readonly job: Job }): JSX.Element => {
  const why = useLoad(job.id, (stop) => get<Why>(pathOf(job.id, "/why"), {}, stop), { every: 1 })
  const until = why.data?.causes[0]?.until
  return (
    <Panel
      class="why"
      title={job.state === "started" ? "What it does now" : "Why it does not run"}
      hint={(why.data?.causes.length ?? 0) > 1 ? "the true cause first" : undefined}
      tools={
        until !== undefined && (
          <span class="count s-scheduled" role="timer" aria-label="Goes on in">
            {countdown(Date.parse(until) - now.value)}
          </span>
        )
      }
    >
      <Part of={why} rows={2}>
        {({ causes }) => (
          <ol>
            {causes.map((cause) => (
              <li key={`${cause.code} ${cause.message}`}>
                <div>
                  <p class="cause">{cause.message}</p>
                  {(cause.waiting ?? []).length > 0 && (
                    <p>
                      {cause.waiting?.map((each) => (
                        <a key={each.id} class="link mono small" href={href("job", each.id)}>
                          {idEnd(each.id)}
                          {each.state === undefined ? "" : ` (${each.state})`}{" "}
                        </a>
                      ))}
                    </p>
                  )}
                </div>
                <Remedy code={cause.code} queue={cause.queue ?? job.queue} job={job} />
              </li>
            ))}
          </ol>
        )}
      </Part>
    </Panel>
  )
}

/** What one can do about a cause, as a button or the way to it. */
const Remedy = ({ code, queue, job }: { readonly code: string; readonly queue: string; readonly job: Job }) => {
  if (code === "queue-paused") {
    const path = `/v1/queues/${encodeURIComponent(queue)}/resume`
    return (
      <Decision
        scope="operate"
        class="small"
        icon="play"
        onClick={() => void decide(`Resume ${queue}`, "POST", path)}
        command={{ method: "POST", path }}
      >
        Resume the queue
      </Decision>
    )
  }
  if (code === "scheduled" || code === "retrying") {
    const path = pathOf(job.id, "/run-now")
    return (
      <Decision
        scope="operate"
        class="small"
        icon="play"
        onClick={() => void decide(`Run ${idEnd(job.id)} now`, "POST", path)}
        command={{ method: "POST", path }}
      >
        Run now
      </Decision>
    )
  }
  if (code.endsWith("-limit"))
    return (
      <a class="btn small" href={href("queues")}>
        Limits
      </a>
    )
  if (code.startsWith("worker") || code === "no-worker" || code === "running" || code.startsWith("actor"))
    return (
      <a class="btn small" href={href("workers")}>
        Workers
      </a>
    )
  if (code === "behind" || code === "next")
    return (
      <a class="btn small" href={href("jobs", "", { queue, state: "queued" })}>
        The queue
      </a>
    )
  return null
}

const LOOKS: Readonly<Record<string, readonly [glyph: GlyphName, fill: string, word: string]>> = {
  succeeded: ["succeeded", "f-ok", "Succeeded"],
  failed: ["failed", "f-fail", "Failed"],
  retrying: ["failed", "f-fail", "Failed, to be retried"],
  lost: ["warn", "f-warn", "Worker lost"],
  "handed back": ["queued", "f-warn", "Handed back"],
  cancelled: ["cancelled", "f-line", "Cancelled"],
  expired: ["expired", "f-warn", "Expired"],
  running: ["started", "f-run", "Running"],
  waiting: ["queued", "f-wait", "Waiting"],
}
const lookOf = (outcome: string) => LOOKS[outcome] ?? (["queued", "f-wait", outcome] as const)

/** The attempts below each other: how long each waited, and ran. Long times are drawn shorter, with their length beside them. */
const Waterfall = ({ attempts }: { readonly attempts: ReadonlyArray<Attempt> }): JSX.Element => {
  const bars = drawn(attempts, now.value)
  return (
    <Panel
      title="What happened"
      hint={<span class="hide-s">long times are drawn shorter</span>}
      tools={
        <span class="legend">
          <span>
            <i class="cx" />
            waited
          </span>
          <span>
            <i class="fail" />
            failed
          </span>
        </span>
      }
    >
      <ul class="wf">
        {attempts.map((attempt, at) => {
          const [glyph, fill, word] = lookOf(attempt.outcome)
          const bar = bars[at]
          const { queued, started, ended, due } = attempt
          const waited = queued === undefined ? undefined : (started ?? due ?? now.value) - queued
          return (
            <li class="wfr" key={at}>
              <span class="lab">
                <Glyph name={glyph} label={word} />
                <b class="nowrap">Attempt {attempt.attempt}</b>
                <span class="dim small clip">{attempt.worker ?? ""}</span>
              </span>
              <svg class="t" aria-hidden="true">
                <line class="l-grid" x1="0" x2="100%" y1="16" y2="16" />
                {bar !== undefined && (
                  <>
                    <rect
                      class="f-line"
                      x={pct(bar.wait[0])}
                      width={pct(bar.wait[1] - bar.wait[0])}
                      y="15"
                      height="2"
                    />
                    {attempt.started === undefined ? (
                      <circle class={fill} cx={pct(Math.min(0.985, bar.wait[1]))} cy="16" r="4.5" />
                    ) : (
                      <rect
                        class={fill}
                        x={pct(bar.run[0])}
                        width={pct(Math.max(0.006, bar.run[1] - bar.run[0]))}
                        y="9"
                        height="14"
                        rx="2"
                      />
                    )}
                  </>
                )}
              </svg>
              <span class="dur">
                {started === undefined
                  ? due !== undefined && due > now.value
                    ? `in ${duration((due - now.value) / 1000)}`
                    : `waits ${duration((waited ?? 0) / 1000)}`
                  : `${waited === undefined ? "" : `${duration(waited / 1000)} + `}${duration(((ended ?? now.value) - started) / 1000)}`}
              </span>
            </li>
          )
        })}
        <Axis attempts={attempts} />
      </ul>
    </Panel>
  )
}

const Axis = ({ attempts }: { readonly attempts: ReadonlyArray<Attempt> }): JSX.Element | null => {
  const [first] = attempts
  const last = attempts.at(-1)
  const from = first?.queued ?? first?.started
  if (from === undefined || last === undefined) return null
  const to = last.ended ?? last.due ?? now.value
  return (
    <li class="wfr" aria-hidden="true">
      <span class="sp" />
      <svg class="ax" aria-hidden="true">
        <text class="t-axis" x="0" y="13">
          {clock(from, zone.value)}
        </text>
        <text class="t-axis" x="100%" y="13" text-anchor="end">
          {clock(to, zone.value)}
        </text>
      </svg>
      <span class="sp" />
    </li>
  )
}

interface Failure {
  readonly attempt: number
  readonly name: string
  readonly message: string
  readonly traceback?: string | undefined
  readonly more?: Job["error"]
}

/** The errors of the attempts, the newest first. Of earlier ones name and message are kept. */
const failuresOf = (job: Job, attempts: ReadonlyArray<Attempt>): ReadonlyArray<Failure> => {
  const earlier = attempts.flatMap(({ attempt, error }) => (error === undefined ? [] : [{ attempt, ...error }]))
  const last: ReadonlyArray<Failure> =
    job.error === undefined ? [] : [{ attempt: job.attempts, ...job.error, more: job.error }]
  const others = earlier.filter(({ attempt }) => last.every((each) => each.attempt !== attempt))
  return [...others, ...last].toReversed()
}

const Errors = ({
  job,
  attempts,
}: {
  readonly job: Job
  readonly attempts: ReadonlyArray<Attempt>
}): JSX.Element | null => {
  const chosen = useSignal<number | undefined>(undefined)
  const failures = failuresOf(job, attempts)
  const shown = failures.find(({ attempt }) => attempt === chosen.value) ?? failures[0]
  if (shown === undefined) return null
  const { more } = shown
  return (
    <Panel
      title={shown.attempt === 0 ? "Error" : `Error of attempt ${shown.attempt}`}
      tools={
        <>
          {failures.length > 1 && (
            // biome-ignore lint/a11y/useSemanticElements: a fieldset has a look and a layout of its own.
            <div class="seg" role="group" aria-label="Attempt">
              {failures.map(({ attempt }) => (
                <button
                  key={attempt}
                  type="button"
                  aria-pressed={attempt === shown.attempt}
                  onClick={() => {
                    chosen.value = attempt
                  }}
                >
                  {attempt}
                </button>
              ))}
            </div>
          )}
          {job.fingerprint !== undefined && has("errors") && (
            <a class="btn small quiet" href={href("error", job.fingerprint)}>
              Same cause
              <Icon name="right" />
            </a>
          )}
          <Copy text={() => shown.traceback ?? `${shown.name}: ${shown.message}`} label="Copy the error" />
        </>
      }
    >
      <div class="body stackv">
        <p>
          <b class="bad">{shown.name}</b> <span class="mono small">{shown.message}</span>
          {more?.field !== undefined && (
            <>
              {" "}
              <span class="tag">field {more.field}</span>
            </>
          )}
        </p>
        {shown.traceback !== undefined && <Traceback text={shown.traceback} />}
        {more?.cause !== undefined && (
          <p class="small">
            <span class="dim">Caused by</span> <b>{more.cause.name}</b> <span class="mono">{more.cause.message}</span>
          </p>
        )}
        {(more?.errors ?? []).map((each) => (
          <p class="small" key={`${each.name} ${each.message}`}>
            <b>{each.name}</b> <span class="mono">{each.message}</span>
          </p>
        ))}
      </div>
    </Panel>
  )
}

const TREE = 200

/** The workflow of the job, where it has one. */
const Belongs = ({ job }: { readonly job: Job }): JSX.Element | null => {
  const tree = useLoad(job.id, (stop) => get<Tree>(pathOf(job.id, "/tree"), { limit: TREE }, stop), { every: 3 })
  const lines = useMemo(() => linesOf(tree.data?.nodes ?? []), [tree.data])
  if (tree.data !== undefined && lines.length < 2) return null
  if (tree.data === undefined && (tree.error === undefined || tree.error.status === 404)) return null
  const open = lines.filter(({ node }) => !ENDED.includes(node.state)).length
  const begin = Math.min(...lines.map(({ node }) => Date.parse(node.times.submitted)))
  const end = Math.max(
    ...lines.map(({ node }) => (node.times.ended === undefined ? now.value : Date.parse(node.times.ended))),
  )
  const part = (at: number): number => (end === begin ? 0 : (at - begin) / (end - begin))
  return (
    <Panel
      title="Where it belongs"
      hint={
        tree.data === undefined
          ? undefined
          : `${whole(lines.length)}${tree.data.more ? " or more" : ""} jobs, ${whole(open)} still open`
      }
      tools={
        open > 0 &&
        job.rootId !== undefined && (
          <Decision
            scope="operate"
            class="small quiet"
            onClick={() =>
              startBulk({ action: "cancel", which: { filter: { root: job.rootId ?? job.id } }, expected: undefined })
            }
          >
            Cancel all that are open…
          </Decision>
        )
      }
    >
      <Part of={tree}>
        {({ more }) => (
          <>
            <ul class="tree">
              {lines.map(({ node, depth }) => {
                const started = node.times.started === undefined ? undefined : Date.parse(node.times.started)
                const stopped = node.times.ended === undefined ? now.value : Date.parse(node.times.ended)
                return (
                  <li key={node.id} class={node.id === job.id ? "me" : ""}>
                    <span class={`who2 d${Math.min(depth, 6)}`}>
                      {depth > 0 && (
                        <svg class="branch" viewBox="0 0 12 12" aria-hidden="true">
                          <path d="M3 0v6h7" />
                        </svg>
                      )}
                      {isGlyph(node.state) && <Glyph name={node.state} label={WORDS[node.state]} />}
                      <a class={`clip ${node.id === job.id ? "b" : ""}`} href={href("job", node.id)}>
                        {node.name}
                      </a>
                      <span class="id">{idEnd(node.id)}</span>
                    </span>
                    <span class="rel">
                      {node.kind}
                      {node.id === job.id ? ", this job" : ""}
                    </span>
                    <svg class="t" aria-hidden="true">
                      {started === undefined ? (
                        <line class="l-grid" x1="0" x2="100%" y1="7" y2="7" stroke-dasharray="2 4" />
                      ) : (
                        <rect
                          class={lookOf(node.state === "started" ? "running" : node.state)[1]}
                          x={pct(part(started))}
                          width={pct(Math.max(0.006, part(stopped) - part(started)))}
                          y="3"
                          height="8"
                          rx="2"
                        />
                      )}
                    </svg>
                    <span class="num small mid">
                      {started === undefined ? "" : duration((stopped - started) / 1000)}
                    </span>
                  </li>
                )
              })}
            </ul>
            {more && (
              <p class="body small dim">
                The first {TREE} are shown.{" "}
                <a class="link" href={href("jobs", "", { root: job.rootId ?? job.id })}>
                  All jobs of this workflow
                </a>
              </p>
            )}
          </>
        )}
      </Part>
    </Panel>
  )
}

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

const Facts = ({ job, attempts }: { readonly job: Job; readonly attempts: ReadonlyArray<Attempt> }): JSX.Element => {
  const { times, timeLimit } = job
  const ran = attempts.reduce(
    (sum, { started, ended }) => sum + (started === undefined ? 0 : (ended ?? now.value) - started),
    0,
  )
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
              {attempts.length > 1 && ` in ${attempts.length} attempts`}
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

const Values = ({ job, isEnded }: { readonly job: Job; readonly isEnded: boolean }): JSX.Element => {
  const name = `${job.task}-${idEnd(job.id)}`
  if (!may("payload"))
    return (
      <Panel title="Input, result, meta">
        <div class="body">
          <p class="small dim">Your token may not see what jobs are given and give back: it lacks the scope payload.</p>
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
            <p class="small dim">{isEnded ? "It is not kept once a job has succeeded." : "It cannot be read here."}</p>
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

/** What the job was given. Of a long one the beginning is shown, and all of it asked for when it is downloaded. */
const Input = ({ job, name }: { readonly job: Job; readonly name: string }): JSX.Element => {
  if (!isInput(job.input)) return <ValuePanel title="Input" value={job.input} name={name} />
  const { value, raw, bytes: size, truncated } = job.input
  if (raw === undefined) return <ValuePanel title="Input" value={value} name={name} />
  const download = async (): Promise<void> => {
    try {
      const whole = await get<Job>(pathOf(job.id))
      save(`${name}.json`, JSON.stringify(whole.input, null, 2))
    } catch (error) {
      if (!(error instanceof ApiError)) throw error
      say({ words: `Download: ${error.message}`, isBad: true })
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
        {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keys. */}
        <pre class="code long" tabIndex={0}>
          {raw}
        </pre>
        {truncated && <p class="small dim">Only the first 64 KiB are shown. Download it for the rest.</p>}
      </div>
    </Panel>
  )
}

const Steps = ({ job }: { readonly job: Job }): JSX.Element => (
  <Panel title="Every step" hint="the last 50 are kept">
    <div class="body">
      {job.transitions.length === 0 ? (
        <Empty title="No step is kept" />
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
