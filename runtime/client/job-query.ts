/** The query of lists and of bulk decisions. */
import * as Schema from "effect/Schema"
import type { NamedJobs as NamedRecords } from "../jobs/commands/decide.ts"
import type { JobView } from "../jobs/view.ts"
import { AnySignal, optionsChecker } from "../options/check.ts"
import { type DurationInput, milliseconds } from "../options/duration.ts"
import { duration } from "../options/duration-field.ts"
import { Fingerprint, IdEnd, whole } from "../options/fields.ts"
import { refuseCursor, refuseInput } from "../options/refuse.ts"
import { compact } from "../protocol/compact.ts"
import { isObject } from "../protocol/guards.ts"
import { isState, noState, type State } from "../protocol/state.ts"
import type { RecordQuery } from "../transport/job-store/transport.ts"
import { TransportError } from "../transport/mod.ts"

export interface JobPage {
  readonly jobs: ReadonlyArray<JobView>
  readonly next?: string
  /** The search was cut after its `budget`, or by its signal: `next` goes on from there. */
  readonly partial?: true
  /** How many rows, entries or messages of the transport were read, where it tells. */
  readonly scanned?: number
}

/** Selects the jobs that match all given fields. A page lists the newest jobs first. */
export interface JobQuery {
  /** Any of these states. Defaults to every state. */
  readonly states?: ReadonlyArray<State> | undefined
  /** The task as it was submitted, `text` or `text.count`. */
  readonly task?: string | undefined
  readonly queue?: string | undefined
  /** Id of the first job of a workflow. */
  readonly rootId?: string | undefined
  /** Id of the job that submitted it, or that it follows. */
  readonly parentId?: string | undefined
  /** The `group` of the submission. */
  readonly group?: string | undefined
  /** Fingerprint of the failure, the same for jobs that failed alike. */
  readonly error?: string | undefined
  /** The last eight characters of its id, in lower case or in capitals. */
  readonly idEnds?: string | undefined
  /** Submitted at this time or later. */
  readonly since?: Date | undefined
  /** Submitted before this time. */
  readonly until?: Date | undefined
  /** Only dead letters. Defaults to false. */
  readonly dead?: boolean | undefined
  /** Only dead letters that were given up for this reason. */
  readonly reason?: string | undefined
  /** Most jobs on the page, 1–1,000. Defaults to 100. */
  readonly limit?: number | undefined
  /** Where the page begins: `next` of the page before. Defaults to the newest job. */
  readonly after?: string | undefined
  /** How long to search, at most: the page is `partial` then. Defaults to no bound. */
  readonly budget?: DurationInput | undefined
  /** When this fires, the search ends as if its budget were over. */
  readonly signal?: AbortSignal | undefined
}

/** Jobs that are named one by one. */
export interface NamedJobs {
  /** 1 to 1,000 ids. */
  readonly ids: ReadonlyArray<string>
  /** Only dead letters: others are refused as `not-found`. Defaults to false. */
  readonly dead?: boolean
  /** Only jobs that have not changed their state from this time on. */
  readonly until?: Date
}

const DEFAULT_LIMIT = 100
const MAX_LIMIT = 1_000

const isTime = (value: unknown): value is Date => value instanceof Date && !Number.isNaN(value.getTime())
const isStates = (value: unknown): value is ReadonlyArray<State> => Array.isArray(value) && value.every(isState)

const text = Schema.optionalKey(Schema.String)
const time = Schema.optionalKey(Schema.declare(isTime, { expected: "a valid date" }))
const dead = Schema.optionalKey(Schema.Boolean)

const checkNamed = optionsChecker(
  { ids: Schema.Array(Schema.String), dead, until: time } satisfies Record<keyof NamedJobs, Schema.Top>,
  "jobs that are named",
)
const checkQuery = optionsChecker(
  {
    states: Schema.optionalKey(Schema.declare(isStates, { message: noState() })),
    task: text,
    queue: text,
    rootId: text,
    parentId: text,
    group: text,
    error: Schema.optionalKey(Fingerprint),
    idEnds: Schema.optionalKey(IdEnd),
    since: time,
    until: time,
    dead,
    reason: text,
    limit: Schema.optionalKey(whole({ min: 1, max: MAX_LIMIT })),
    after: text,
    budget: Schema.optionalKey(duration()),
    signal: Schema.optionalKey(AnySignal),
  } satisfies Record<keyof JobQuery, Schema.Top>,
  "a query of jobs",
)

/**
 * The query as transports take it. Fails with `invalid-input` for a wrong value, and where there is no such field: a
 * misspelt one would select every job.
 */
export const recordQueryOf = (query: JobQuery): RecordQuery => {
  checkQuery(query)
  const { limit = DEFAULT_LIMIT, since, until, budget, idEnds, ...rest } = query
  return {
    ...compact({ ...rest, idEnds: idEnds?.toLowerCase(), since: since?.getTime(), until: until?.getTime() }),
    ...(budget === undefined ? {} : { budget: milliseconds("budget", budget) }),
    limit,
  }
}

/** Whether jobs are named, and not selected. What is neither is refused as a query. */
export const isNamed = (query: JobQuery | NamedJobs): query is NamedJobs => isObject(query) && "ids" in query

/** Named jobs as decisions take them. Fails with `invalid-input` where they are none, too many, or said to be more than that. */
export const namedJobsOf = (jobs: NamedJobs): NamedRecords => {
  checkNamed(jobs)
  const { ids, dead = false, until } = jobs
  if (ids.length < 1 || ids.length > MAX_LIMIT) refuseInput("ids", `name 1 to 1,000 jobs, not ${ids.length}`)
  return { ids, dead, ...compact({ until: until?.getTime() }) }
}

/** Runs a checked query. Fails with `invalid-input`, naming `after`, where the transport cannot read that. */
export const asking = async <T>(query: JobQuery, ask: (query: RecordQuery) => Promise<T>): Promise<T> => {
  const checked = recordQueryOf(query)
  try {
    return await ask(checked)
  } catch (cause) {
    if (checked.after === undefined || !(cause instanceof TransportError) || cause.reason !== "invalid") throw cause
    return refuseCursor("after")
  }
}
