/** The attempts of a job as bars, and their errors. */
import { useSignal } from "@preact/signals"
import type { JSX } from "preact"
import type { FullJob } from "../../../jobs/responses.ts"
import { type DrawnAttempt, drawn, lengthsOf } from "../../attempts.ts"
import { Copy, Panel } from "../../parts/basic.tsx"
import { pct } from "../../parts/chart.tsx"
import { Glyph, type GlyphName, Icon } from "../../parts/icon.tsx"
import { Traceback } from "../../parts/trace.tsx"
import { href } from "../../router.ts"
import { has, now, zone } from "../../state.ts"
import { clock, duration } from "../../times.ts"

const LOOKS: Readonly<Record<string, readonly [glyph: GlyphName, fill: string, word: string]>> = {
  succeeded: ["succeeded", "f-ok", "Succeeded"],
  failed: ["failed", "f-fail", "Failed"],
  retrying: ["failed", "f-fail", "Failed, will be retried"],
  lost: ["warn", "f-warn", "Worker lost"],
  suspended: ["scheduled", "f-wait", "Suspended"],
  "handed-back": ["queued", "f-warn", "Handed back"],
  cancelled: ["cancelled", "f-line", "Cancelled"],
  expired: ["expired", "f-warn", "Expired"],
  running: ["started", "f-run", "Running"],
  waiting: ["queued", "f-wait", "Waiting"],
}
export const lookOf = (outcome: string) => LOOKS[outcome] ?? (["queued", "f-wait", outcome] as const)

/**
 * The attempts as bars below each other: how long each waited and ran. Long times are drawn compressed, with their
 * length beside them.
 */
export const Waterfall = ({ attempts }: { readonly attempts: ReadonlyArray<DrawnAttempt> }): JSX.Element => {
  const bars = drawn(attempts, now.value)
  return (
    <Panel
      title="What happened"
      hint={<span class="hide-s">not to scale</span>}
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
                    <line class="l-mark" x1={pct(bar.off[0])} x2={pct(bar.off[1])} y1="16" y2="16" />
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
              <Lengths attempt={attempt} />
            </li>
          )
        })}
        <Axis attempts={attempts} />
      </ul>
    </Panel>
  )
}

/** Durations of the attempt's back-off, wait and run: `4.0 s off + 12 ms + 2.1 s`. */
const Lengths = ({ attempt }: { readonly attempt: DrawnAttempt }): JSX.Element => {
  const { started, queued } = attempt
  const { off, wait, run } = lengthsOf(attempt, now.value)
  const [offWords, waitWords, runWords] = [off, wait, run].map((ms) => (ms === undefined ? "" : duration(ms / 1000)))
  if (started === undefined)
    return (
      <span class="dur">
        {queued !== undefined && queued > now.value
          ? `in ${duration((queued - now.value) / 1000)}`
          : `waits ${waitWords}`}
      </span>
    )
  const parts = [
    ["backed off", off === undefined || off < 1 ? "" : `${offWords} off`],
    ["waited", waitWords],
    ["ran", runWords],
  ].filter(([, words]) => words !== "")
  return (
    <span class="dur">
      {parts.map(([what, words], at) => (
        <span key={what}>
          {at > 0 && " + "}
          <span class="sr">{what} </span>
          {words}
        </span>
      ))}
    </span>
  )
}

const Axis = ({ attempts }: { readonly attempts: ReadonlyArray<DrawnAttempt> }): JSX.Element | null => {
  const [first] = attempts
  const last = attempts.at(-1)
  const from = first?.queued ?? first?.started
  if (from === undefined || last === undefined) return null
  const to = last.ended ?? Math.max(now.value, last.queued ?? 0)
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
  readonly more?: FullJob["error"]
}

/** The errors of the attempts, the newest first. Of all but the newest only name and message are stored. */
const failuresOf = (job: FullJob, attempts: ReadonlyArray<DrawnAttempt>): ReadonlyArray<Failure> => {
  const earlier = attempts.flatMap(({ attempt, error }) => (error === undefined ? [] : [{ attempt, ...error }]))
  const last: ReadonlyArray<Failure> =
    job.error === undefined ? [] : [{ attempt: job.attempts.at(-1)?.attempt ?? 0, ...job.error, more: job.error }]
  const others = earlier.filter(({ attempt }) => last.every((each) => each.attempt !== attempt))
  return [...others, ...last].toReversed()
}

export const Errors = ({
  job,
  attempts,
}: {
  readonly job: FullJob
  readonly attempts: ReadonlyArray<DrawnAttempt>
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
