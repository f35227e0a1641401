/** The attempts of a job, from the transitions that its record keeps. Pure. */
import type { JobError, JobRecord, Transition } from "../protocol/record.ts"
import { isTerminal } from "../protocol/state.ts"
import { isoTime } from "./view.ts"

export interface AttemptView {
  readonly run: number
  readonly attempt: number
  readonly worker?: string
  /** When it came into its queue for this attempt. */
  readonly queued?: string
  readonly started: string
  readonly ended?: string
  /** How it ended: a state, `failed` also where another attempt follows, `handed-back`, or `lost` with its worker. Absent: it runs. */
  readonly outcome?: string
  /** Why, where that is more than a failure: `retry`, `lease-lost`, `stopped` … */
  readonly reason?: string
  /** Of earlier attempts only name and message are kept. */
  readonly error?: Pick<JobError, "name" | "message"> & Partial<JobError>
}

/** Most attempts that are shown, the last ones. */
const MOST = 20

/** What a transition after the start says about the attempt. */
const outcomeOf = ({ state, reason, error }: Transition): string => {
  if (isTerminal(state)) return state
  if (state === "started") return "lost"
  if (error !== undefined || reason === "retry") return "failed"
  return reason === "handed-back" ? "handed-back" : "lost"
}

/** The last 20 attempts, oldest first. Those of which the start is not kept any more are left out. */
export const attemptsOf = ({ timeline, error, state }: JobRecord): ReadonlyArray<AttemptView> => {
  const attempts: Array<AttemptView> = []
  let queued: number | undefined
  for (const [at, step] of timeline.entries()) {
    if (step.state === "queued" || step.state === "scheduled") queued = step.due ?? step.at
    if (step.state !== "started") continue
    const end = timeline[at + 1]
    const isLast = end !== undefined && at + 2 === timeline.length && isTerminal(state)
    const failed = isLast ? error : end?.error
    attempts.push({
      run: step.run,
      attempt: step.attempt ?? attempts.length + 1,
      ...(step.worker === undefined ? {} : { worker: step.worker }),
      ...(queued === undefined || queued > step.at ? {} : { queued: isoTime(queued) }),
      started: isoTime(step.at),
      ...(end === undefined ? {} : { ended: isoTime(end.at), outcome: outcomeOf(end) }),
      ...(end?.reason === undefined ? {} : { reason: end.reason }),
      ...(failed === undefined ? {} : { error: failed }),
    })
    queued = undefined
  }
  return attempts.slice(-MOST)
}
