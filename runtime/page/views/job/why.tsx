import type { JSX } from "preact"
import type { FullJob } from "../../../jobs/responses.ts"
import type { WaitCause, Why } from "../../../jobs/why/cause.ts"
import { jobPath } from "../../client.ts"
import { useLoad } from "../../load.ts"
import { Panel, Part } from "../../parts/basic.tsx"
import { RequestButton } from "../../parts/notice.tsx"
import { href } from "../../router.ts"
import { idEnd } from "../../seen.ts"
import { get, now } from "../../state.ts"
import { countdown } from "../../times.ts"
import { SignalButton } from "./signal.tsx"

export const WhyPanel = ({ job }: { readonly job: FullJob }): JSX.Element => {
  const why = useLoad(job.id, (stop) => get<Why>(jobPath(job.id, "/why"), {}, stop), { every: 1 })
  const first = why.data?.causes[0]
  // Of a limit the time is a guess from earlier starts: it moves on for as long as the jobs before this one run.
  const until = first === undefined || isLimit(first) ? undefined : first.until
  return (
    <Panel
      class="why"
      title={job.state === "started" ? "Current activity" : "Why it is not running"}
      hint={(why.data?.causes.length ?? 0) > 1 ? "actual cause first" : undefined}
      tools={
        until !== undefined && (
          <span class="count s-scheduled" role="timer" aria-label="Continues in">
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

const isLimit = ({ code }: Pick<WaitCause, "code">): boolean => code.endsWith("-limit")

/** The action against a cause, as a button or as a link to where it is done. */
const Remedy = ({ code, queue, job }: Pick<WaitCause, "code"> & { readonly queue: string; readonly job: FullJob }) => {
  if (code === "queue-paused") {
    const path = `/v1/queues/${encodeURIComponent(queue)}/resume`
    return (
      <RequestButton
        scope="operate"
        class="small"
        icon="play"
        words={`Resume ${queue}`}
        command={{ method: "POST", path }}
      >
        Resume the queue
      </RequestButton>
    )
  }
  const { signals = [] } = job.waits ?? {}
  if (signals.length > 0 && (code === "waiting-for-signal" || code === "waiting-for-jobs"))
    return <SignalButton job={job} names={signals} />
  if (code === "scheduled" || code === "retrying") {
    const path = jobPath(job.id, "/run-now")
    return (
      <RequestButton
        scope="operate"
        class="small"
        icon="play"
        words={`Run ${idEnd(job.id)} now`}
        command={{ method: "POST", path }}
      >
        Run now
      </RequestButton>
    )
  }
  if (isLimit({ code }))
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
