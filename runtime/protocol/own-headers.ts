/** The `callboard` header: what Callboard adds to Celery's protocol. */

import { MAX_DURATION_MS } from "./duration.ts"
import { isMap } from "./guards.ts"
import { describe, HeaderProblem, isFiniteNumber, isTexts } from "./header-field.ts"
import { isId, isTenant, MAX_ID_BYTES } from "./name.ts"

/** Name of the header, whose value is a map. */
export const OWN_HEADER = "callboard"

/** Retry policy of a task in its headers. Durations are milliseconds. */
export interface RetryHeader {
  /** Most retries after the first attempt. Absent, as every field: the policy of the method holds. */
  readonly max?: number
  readonly baseMs?: number
  readonly factor?: number
  readonly maxMs?: number
  readonly jitter?: boolean
  /**
   * Waits before the first retry, the second and so on, instead of the back-off; the last wait holds for all further
   * retries.
   */
  readonly intervalsMs?: ReadonlyArray<number>
  /** Retries are taken before tasks of any priority. */
  readonly front?: boolean
  readonly on?: ReadonlyArray<string>
  readonly except?: ReadonlyArray<string>
}

/** Repeat policy of a task in its headers: how often its job runs again after a success. */
export interface RepeatHeader {
  /** Number of runs after the first one. */
  readonly times: number
  /** How many of these runs have begun. */
  readonly done: number
  /**
   * Waits in milliseconds before the first of these runs, the second and so on; the last wait holds for all further
   * runs.
   */
  readonly intervalsMs: ReadonlyArray<number>
}

/** From which durable step of an earlier run a run continues, in its headers: it keeps the steps that had ended before. */
export interface FromStepHeader {
  readonly run: number
  readonly step: string
}

/** The jobs for which a job waits, in its headers. */
export interface AfterHeader {
  /** One id at least, each once. */
  readonly ids: ReadonlyArray<string>
  /** Whether a failure of these jobs will do, too. Absent: false. */
  readonly allowFailure?: boolean
}

/** A book of tasks (TaskFlow's logbook) that a job belongs to. Callboard only carries it. */
export interface BookHeader {
  readonly name: string
  readonly uuid: string
}

/** Most jobs for which a job may wait: its record holds all their ids. */
export const MAX_PARENTS = 1_000

/** That a job is a member of a chord, in its headers. */
export interface MemberHeader {
  /** Id of the body that waits for it. */
  readonly of: string
  /** Its place in the group, from 0. */
  readonly at: number
  /** It is a link of a chain that goes on: only its failure counts. */
  readonly more?: true
}

/** That a job is the body of a chord, in its headers. */
export interface ChordHeader {
  /** Number of members that it waits for. */
  readonly size: number
  /** Whether a failure of members will do, too. Absent: false. */
  readonly allowFailure?: true
  /** It does not get the results before its own arguments. */
  readonly immutable?: true
}

/** Most earlier runs in which a run looks for completed steps. */
export const MAX_FROM = 10

/** Most members of a group. */
export const MAX_MEMBERS = 10_000

/** Most retries, or repeated runs, of one policy. */
const MAX_TIMES = 10_000
/** Largest number of a run: far beyond real use, and numbers a little above it are still exact. */
const MAX_RUNS = 2 ** 31

const MILLISECONDS = "must be a number of milliseconds, at most a hundred years"

/** The fields of the `callboard` header. */
interface OwnFields {
  /** Names of the fields that a worker must understand, or else give the task back. */
  readonly must?: ReadonlyArray<string>
  readonly run?: number
  /** See `JobPosting.hops`. */
  readonly hops?: number
  /** How often the task was moved to the queue of another language. */
  readonly forwards?: number
  /**
   * Earlier runs of a job that was run again by hand, the latest one first: this run continues the steps of the first
   * that has any.
   */
  readonly from?: ReadonlyArray<number>
  readonly fromStep?: FromStepHeader
  readonly front?: boolean
  /** Tasks with the same key run one at a time. Not supported by this version. */
  readonly key?: string
  /** The key that the task reads beside the one that runs. Not supported by this version. */
  readonly peek?: string
  /** Milliseconds since the epoch. */
  readonly submittedAt?: number
  /** How long to keep the record of a success, in milliseconds. Negative: for ever. */
  readonly resultTtlMs?: number
  /** How long to keep the record of a failure, in milliseconds. Negative: for ever. */
  readonly failureTtlMs?: number
  /** How long the task may wait, in milliseconds. Its `expires` follows from that, and is over once the job has started. */
  readonly ttlMs?: number
  readonly retry?: RetryHeader
  readonly repeat?: RepeatHeader
  readonly after?: AfterHeader
  readonly member?: MemberHeader
  readonly chord?: ChordHeader
  readonly meta?: Readonly<Record<string, unknown>>
  readonly description?: string
  readonly details?: Readonly<Record<string, unknown>>
  readonly book?: BookHeader
  /** Name of the client that submitted the task, where it has one. */
  readonly sender?: string
  /** The arguments that the method hides, where the submitter knows it: all of them, or those with these names. */
  readonly redact?: true | ReadonlyArray<string>
  /** Tenant of the task for limits, where the submitter knows it: so a worker need not decode the input to learn it. */
  readonly tenant?: string
  /** `traceparent` of the previous attempt, where that was traced. */
  readonly attempted?: string
  /** The task is the next link of its parent's chain, and no callback of it. */
  readonly link?: true
}

/** The `callboard` header. A field that this version does not know travels on unchanged. */
export interface OwnHeaders extends OwnFields {
  readonly [other: string]: unknown
}

type MutableOwn = { -readonly [Field in keyof OwnFields]: OwnFields[Field] }

const EMPTY: OwnHeaders = Object.freeze({})

const isCount = (value: unknown, min: number): value is number =>
  typeof value === "number" && Number.isSafeInteger(value) && value >= min && value <= MAX_TIMES

const isIntervals = (value: unknown): value is ReadonlyArray<number> =>
  Array.isArray(value) && value.length > 0 && value.every(isDuration)

const isDuration = (value: unknown): value is number => isFiniteNumber(value) && value >= 0 && value <= MAX_DURATION_MS
/** A negative number means for ever. */
const isTimeToLive = (value: unknown): value is number => isFiniteNumber(value) && value <= MAX_DURATION_MS

const ownProblem = (field: string, why: string): HeaderProblem => new HeaderProblem(`${OWN_HEADER}.${field}`, why)

const retryOf = (value: unknown): RetryHeader | HeaderProblem => {
  if (!isMap(value)) return ownProblem("retry", "must be a map")
  const { max, baseMs, factor, maxMs, jitter, intervalsMs, front, on, except } = value
  const policy: { -readonly [Field in keyof RetryHeader]: RetryHeader[Field] } = {}
  if (max !== undefined && max !== null) {
    if (!isCount(max, 0)) return ownProblem("retry.max", "must be a whole number from 0 to 10000")
    policy.max = max
  }
  if (baseMs !== undefined && baseMs !== null) {
    if (!isDuration(baseMs)) return ownProblem("retry.baseMs", MILLISECONDS)
    policy.baseMs = baseMs
  }
  if (factor !== undefined && factor !== null) {
    if (!isFiniteNumber(factor) || factor < 1) return ownProblem("retry.factor", "must be a number, 1 or more")
    policy.factor = factor
  }
  if (maxMs !== undefined && maxMs !== null) {
    if (!isDuration(maxMs)) return ownProblem("retry.maxMs", MILLISECONDS)
    policy.maxMs = maxMs
  }
  if (jitter !== undefined && jitter !== null) {
    if (typeof jitter !== "boolean") return ownProblem("retry.jitter", "must be true or false")
    policy.jitter = jitter
  }
  if (intervalsMs !== undefined && intervalsMs !== null) {
    if (!isIntervals(intervalsMs)) return ownProblem("retry.intervalsMs", "must be a list of milliseconds")
    policy.intervalsMs = intervalsMs
  }
  if (front !== undefined && front !== null) {
    if (typeof front !== "boolean") return ownProblem("retry.front", "must be true or false")
    policy.front = front
  }
  if (on !== undefined && on !== null) {
    if (!isTexts(on)) return ownProblem("retry.on", "must be a list of error names")
    policy.on = on
  }
  if (except !== undefined && except !== null) {
    if (!isTexts(except)) return ownProblem("retry.except", "must be a list of error names")
    policy.except = except
  }
  return policy
}

const isBook = (value: unknown): value is BookHeader =>
  isMap(value) && typeof value["name"] === "string" && typeof value["uuid"] === "string"

const fromStepOf = (value: unknown): FromStepHeader | HeaderProblem => {
  if (!isMap(value)) return ownProblem("fromStep", "must be a map")
  const { run, step } = value
  if (!isRun(run)) return ownProblem("fromStep.run", `must be a whole number from 1 to ${MAX_RUNS}`)
  return isText(step) ? { run, step } : ownProblem("fromStep.step", "must be text")
}

const repeatOf = (value: unknown): RepeatHeader | HeaderProblem => {
  if (!isMap(value)) return ownProblem("repeat", "must be a map")
  const { times, done, intervalsMs } = value
  if (!isCount(times, 1)) return ownProblem("repeat.times", "must be a whole number from 1 to 10000")
  if (!isCount(done, 0)) return ownProblem("repeat.done", "must be a whole number from 0 to 10000")
  if (!isIntervals(intervalsMs)) return ownProblem("repeat.intervalsMs", "must be a list of milliseconds")
  return { times, done, intervalsMs }
}

const afterOf = (value: unknown): AfterHeader | HeaderProblem => {
  if (!isMap(value)) return ownProblem("after", "must be a map")
  const { ids, allowFailure } = value
  if (!isTexts(ids) || ids.length === 0 || ids.length > MAX_PARENTS || !ids.every(isId)) {
    return ownProblem("after.ids", `must be a list of 1 to ${MAX_PARENTS} job ids`)
  }
  if (allowFailure === undefined || allowFailure === null || allowFailure === false) return { ids }
  return allowFailure === true ? { ids, allowFailure } : ownProblem("after.allowFailure", "must be true or false")
}

const memberOf = (value: unknown): MemberHeader | HeaderProblem => {
  if (!isMap(value)) return ownProblem("member", "must be a map")
  const { of, at, more } = value
  if (typeof of !== "string" || of === "" || !isId(of)) {
    return ownProblem("member.of", `must be well-formed text of 1 to ${MAX_ID_BYTES} bytes`)
  }
  if (!isCount(at, 0) || at >= MAX_MEMBERS) {
    return ownProblem("member.at", `must be a whole number from 0 to ${MAX_MEMBERS - 1}`)
  }
  return more === true ? { of, at, more } : { of, at }
}

const chordOf = (value: unknown): ChordHeader | HeaderProblem => {
  if (!isMap(value)) return ownProblem("chord", "must be a map")
  const { size, allowFailure, immutable } = value
  if (!isCount(size, 1) || size > MAX_MEMBERS) {
    return ownProblem("chord.size", `must be a whole number from 1 to ${MAX_MEMBERS}`)
  }
  return {
    size,
    ...(allowFailure === true ? { allowFailure } : {}),
    ...(immutable === true ? { immutable } : {}),
  }
}

/** A field of the header. */
interface Field {
  /** What a worker does that does not know the field: it passes over it, or gives the task back. */
  readonly unknown: "ignore" | "refuse"
  /** This version does not do what the field asks for: its workers give the task back. */
  readonly unsupported?: true
  /** Sets the field, or says what is wrong with its value, which is neither absent nor null. */
  readonly read: (own: MutableOwn, value: unknown) => HeaderProblem | undefined
}

/** A field whose value is kept as it is. Without `why` a wrong value is passed over: it is shown to people, or is only a hint. */
const field = <Name extends keyof OwnFields>(
  name: Name,
  is: (value: unknown) => value is NonNullable<OwnFields[Name]>,
  why?: string,
): Field => ({
  unknown: "ignore",
  read: (own, value) => {
    if (is(value)) own[name] = value
    else if (why !== undefined) return ownProblem(name, why)
    return undefined
  },
})

/** A field whose value is parsed; `undefined` counts as absent. */
const parsedField = <Name extends keyof OwnFields>(
  name: Name,
  parse: (value: unknown) => OwnFields[Name] | HeaderProblem,
): Field => ({
  unknown: "ignore",
  read: (own, value) => {
    const parsed = parse(value)
    if (parsed instanceof HeaderProblem) return parsed
    if (parsed !== undefined) own[name] = parsed
    return undefined
  },
})

const isTrue = (value: unknown): value is true => value === true
const isFlag = (value: unknown): value is boolean => typeof value === "boolean"
const isText = (value: unknown): value is string => typeof value === "string"
const isIdText = (value: unknown): value is string => isText(value) && isId(value)
const isWhole = (value: unknown): value is number => typeof value === "number" && Number.isSafeInteger(value)
const isWholeCount = (value: unknown): value is number => isWhole(value) && value >= 0
const isRun = (value: unknown): value is number => isWhole(value) && value >= 1 && value <= MAX_RUNS
const isRuns = (value: unknown): value is ReadonlyArray<number> =>
  Array.isArray(value) && value.length <= MAX_FROM && value.every((each) => Number.isInteger(each) && each > 0)
const isMoment = (value: unknown): value is number => isFiniteNumber(value) && value >= 0

/** Where it cannot be read it is not known what must not be shown. */
const redactOf = (value: unknown): OwnFields["redact"] => {
  if (value === false) return undefined
  return isTexts(value) ? value : true
}

const ID = `must be well-formed text of 1 to ${MAX_ID_BYTES} bytes`

/** Every field that this version knows, in the order of docs/protocol.md. */
export const FIELDS: Readonly<Record<keyof OwnFields, Field>> = {
  must: field("must", isTexts, "must be a list of names of fields"),
  key: { ...field("key", isIdText, ID), unknown: "refuse", unsupported: true },
  peek: { ...field("peek", isIdText, ID), unknown: "refuse", unsupported: true },
  run: field("run", isRun, `must be a whole number from 1 to ${MAX_RUNS}`),
  from: field("from", isRuns, `must be a list of at most ${MAX_FROM} run numbers`),
  // A worker that passed over it would keep steps that must run again.
  fromStep: { ...parsedField("fromStep", fromStepOf), unknown: "refuse" },
  hops: field("hops", isWholeCount, "must be a whole number, 0 or more"),
  forwards: field("forwards", isWholeCount, "must be a whole number, 0 or more"),
  submittedAt: field("submittedAt", isMoment, "must be milliseconds since the epoch"),
  front: field("front", isFlag, "must be true or false"),
  ttlMs: field("ttlMs", isDuration, MILLISECONDS),
  resultTtlMs: field("resultTtlMs", isTimeToLive, MILLISECONDS),
  failureTtlMs: field("failureTtlMs", isTimeToLive, MILLISECONDS),
  retry: parsedField("retry", retryOf),
  repeat: parsedField("repeat", repeatOf),
  after: parsedField("after", afterOf),
  member: parsedField("member", memberOf),
  chord: parsedField("chord", chordOf),
  link: field("link", isTrue),
  tenant: field("tenant", isTenant),
  redact: parsedField("redact", redactOf),
  meta: field("meta", isMap, "must be a map"),
  details: field("details", isMap, "must be a map"),
  description: field("description", isText, "must be text"),
  book: field("book", isBook),
  sender: field("sender", isText),
  attempted: field("attempted", isText, "must be text"),
}

/** The same by names of any sender: without what every object inherits. */
const FIELD_OF: Readonly<Record<string, Field | undefined>> = Object.assign(Object.create(null), FIELDS)

/** Fields that this version refuses, also where no sender names them in `must`. */
const UNSUPPORTED = Object.keys(FIELDS).filter((name) => FIELD_OF[name]?.unsupported)

const isUnderstood = (name: string): boolean => FIELD_OF[name] !== undefined && !UNSUPPORTED.includes(name)

/** Fields that this version understands, of those that no worker may pass over. */
export const UNDERSTOOD: ReadonlyArray<string> = Object.entries(FIELDS)
  .filter(([, { unknown, unsupported }]) => unknown === "refuse" && unsupported === undefined)
  .map(([name]) => name)

/** The header with this `fromStep`, which workers must understand, or with none. */
export const withFromStep = (
  { fromStep: _before, must = [], ...own }: OwnHeaders,
  fromStep?: FromStepHeader,
): OwnHeaders => {
  const others = must.filter((name) => name !== "fromStep")
  const all = fromStep === undefined ? others : [...others, "fromStep"]
  return { ...own, ...(all.length === 0 ? {} : { must: all }), ...(fromStep === undefined ? {} : { fromStep }) }
}

/** The first field that must be understood, and that this version does not understand; `undefined` where there is none. */
export const notUnderstoodIn = (own: OwnHeaders): string | undefined => {
  for (const name of UNSUPPORTED) if (own[name] !== undefined) return name
  return own.must?.find((name) => !isUnderstood(name))
}

/**
 * Parses the value of the `callboard` header. A field of a later version is kept as it is, so that it is not lost where the
 * header is written anew.
 */
export const ownOf = (value: unknown): OwnHeaders | HeaderProblem => {
  if (value === undefined || value === null) return EMPTY
  if (!isMap(value)) return new HeaderProblem(OWN_HEADER, `must be a map, not ${describe(value)}`)
  const own: MutableOwn & Record<string, unknown> = {}
  for (const name in value) {
    const given = value[name]
    if (given === undefined || given === null) continue
    const known = FIELD_OF[name]
    if (known !== undefined) {
      const problem = known.read(own, given)
      if (problem !== undefined) return problem
    } else if (name !== "__proto__") own[name] = given
  }
  const { run = 1, repeat } = own
  if (repeat !== undefined && run + repeat.times - repeat.done > MAX_RUNS)
    return ownProblem("run", `must leave room for ${repeat.times} more below ${MAX_RUNS}`)
  return own
}
