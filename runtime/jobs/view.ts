/** A job as people and programs see it: over HTTP, on the command line and from code. */

import type { JobError, JobRecord, Transition } from "../protocol/record.ts"
import { celeryState, type State } from "../protocol/state.ts"

/** Times are ISO 8601 in UTC. */
export interface JobView {
  readonly id: string
  readonly task: string
  readonly meth: string | null
  readonly name: string
  readonly queue: string
  readonly priority: number
  readonly front?: true
  readonly state: State
  /** The word that a Celery client knows for this state. */
  readonly celeryState: string
  readonly run: number
  readonly attempts: number
  readonly retries: number
  readonly progress?: { readonly fraction: number; readonly detail?: unknown; readonly at: string }
  readonly times: {
    readonly submitted: string
    readonly due?: string
    readonly expires?: string
    readonly started?: string
    readonly ended?: string
  }
  readonly result?: unknown
  readonly error?: JobError
  /** Set on dead letters: why the task was given up. */
  readonly dead?: string
  readonly worker?: string
  readonly parentId?: string
  readonly rootId?: string
  readonly group?: string
  /**
   * Jobs that it waits for, or waited for. `waiting`, present while it is deferred: the jobs among them that have not
   * ended, or not as they must.
   */
  readonly after?: {
    readonly ids: ReadonlyArray<string>
    readonly allowFailure?: boolean
    readonly waiting?: ReadonlyArray<string>
  }
  readonly description?: string
  readonly meta?: Readonly<Record<string, unknown>>
  readonly transitions: ReadonlyArray<TransitionView>
}

export interface TransitionView {
  /** `<run>.<n>`: where a stream of events resumes after. */
  readonly id: string
  readonly at: string
  readonly state: State
  readonly attempt?: number
  readonly worker?: string
  readonly reason?: string
  readonly due?: string
}

/**
 * The latest time that a JavaScript Date can hold, in milliseconds. The headers of a foreign task may name any number.
 */
const MAX_TIME_MS = 8.64e15

const iso = (ms: number): string => new Date(Math.min(Math.max(ms, -MAX_TIME_MS), MAX_TIME_MS)).toISOString()

export const transitionView = (transition: Transition): TransitionView => ({
  id: `${transition.run}.${transition.n}`,
  at: iso(transition.at),
  state: transition.state,
  ...(transition.attempt === undefined ? {} : { attempt: transition.attempt }),
  ...(transition.worker === undefined ? {} : { worker: transition.worker }),
  ...(transition.reason === undefined ? {} : { reason: transition.reason }),
  ...(transition.due === undefined ? {} : { due: iso(transition.due) }),
})

/** The `after` of a view: an ended job does not show `waiting`, since it waits for no job. */
const afterOf = (
  state: JobRecord["state"],
  { waiting, ...after }: NonNullable<JobRecord["after"]>,
): NonNullable<JobView["after"]> => ({
  ...after,
  ...(state === "deferred" && waiting !== undefined ? { waiting } : {}),
})

export const jobView = (record: JobRecord): JobView => ({
  id: record.id,
  task: record.task,
  meth: record.meth,
  name: record.name,
  queue: record.queue,
  priority: record.priority,
  ...(record.front ? { front: true } : {}),
  state: record.state,
  celeryState: celeryState(record.state, record.retries),
  run: record.run,
  attempts: record.attempt,
  retries: record.retries,
  ...(record.progress === undefined ? {} : { progress: { ...record.progress, at: iso(record.progress.at) } }),
  times: {
    submitted: iso(record.submittedAt),
    ...(record.dueAt === undefined ? {} : { due: iso(record.dueAt) }),
    ...(record.expiresAt === undefined ? {} : { expires: iso(record.expiresAt) }),
    ...(record.startedAt === undefined ? {} : { started: iso(record.startedAt) }),
    ...(record.endedAt === undefined ? {} : { ended: iso(record.endedAt) }),
  },
  // A handler that returns nothing has succeeded with null: "no result" and "not there yet" must not look alike.
  ...(record.state === "succeeded" ? { result: record.result ?? null } : {}),
  ...(record.error === undefined ? {} : { error: record.error }),
  ...(record.dead === undefined ? {} : { dead: record.dead }),
  ...(record.worker === undefined ? {} : { worker: record.worker }),
  ...(record.parentId === undefined ? {} : { parentId: record.parentId }),
  ...(record.rootId === undefined ? {} : { rootId: record.rootId }),
  ...(record.group === undefined ? {} : { group: record.group }),
  ...(record.after === undefined ? {} : { after: afterOf(record.state, record.after) }),
  ...(record.description === undefined ? {} : { description: record.description }),
  ...(record.meta === undefined ? {} : { meta: record.meta }),
  transitions: record.timeline.map(transitionView),
})
