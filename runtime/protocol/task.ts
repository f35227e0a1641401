/**
 * A task, parsed from its headers: Celery's (protocol 2), Callboard's, and custom ones; and its address, the posting.
 */
import * as Result from "effect/Result"
import { MAX_DURATION_MS } from "./duration.ts"
import { isMap } from "./guards.ts"
import {
  count,
  describe,
  filledText,
  flag,
  HeaderProblem,
  type InvalidTask,
  identifier,
  invalidTask,
  isFiniteNumber,
  isTexts,
  text,
  time,
} from "./header-field.ts"
import { DEFAULT_PRIORITY, FRONT_LEVEL, type Headers, type JobPosting, type Message } from "./message.ts"
import { OWN_HEADER, type OwnHeaders, ownOf } from "./own-headers.ts"
import { tracestateBeside } from "./trace-context.ts"

/** A task by its headers. `null`: the sender did not set the header. */
export interface Task {
  readonly task: string
  readonly meth: string | null
  readonly id: string
  readonly lang: string | null
  readonly rootId: string | null
  readonly parentId: string | null
  readonly group: string | null
  readonly groupIndex: number | null
  readonly shadow: string | null
  /** Milliseconds since the epoch. */
  readonly eta: number | null
  /** Milliseconds since the epoch. */
  readonly expires: number | null
  readonly retries: number
  /** Seconds. On the wire `[hard, soft]`. */
  readonly timelimit: { readonly hard: number | null; readonly soft: number | null }
  readonly argsrepr: string | null
  readonly kwargsrepr: string | null
  readonly origin: string | null
  readonly ignoreResult: boolean
  readonly stampedHeaders: ReadonlyArray<string> | null
  readonly stamps: Readonly<Record<string, unknown>>
  readonly replacedTaskNesting: number
  readonly traceparent: string | null
  /** Set beside a `traceparent` only, and only as far as the W3C recommendation allows it. */
  readonly tracestate: string | null
  /** Content type of the compression, e.g. `application/x-gzip`. */
  readonly compression: string | null
  /** The `callboard` header. */
  readonly own: OwnHeaders
  /** Headers that neither Celery's protocol nor Callboard defines. */
  readonly custom: Readonly<Record<string, unknown>>
}

/** Whether no client of Callboard's has submitted the task, but a client or a worker of Celery's, or a program of another kind. */
export const isExternal = ({ own }: Pick<Task, "own">): boolean => own.submittedAt === undefined

/**
 * Headers that have a meaning, which applications cannot use as custom headers; `rare` are those that most tasks lack.
 * `redelivered` is set by Celery's Redis transport; `bodyRef` is reserved for bodies that are stored elsewhere.
 */
const KNOWN: Readonly<Record<string, "usual" | "rare">> = Object.assign(Object.create(null), {
  lang: "usual",
  task: "usual",
  meth: "usual",
  id: "usual",
  root_id: "usual",
  parent_id: "usual",
  origin: "usual",
  redelivered: "usual",
  [OWN_HEADER]: "usual",
  shadow: "rare",
  eta: "rare",
  expires: "rare",
  group: "rare",
  group_index: "rare",
  retries: "rare",
  timelimit: "rare",
  argsrepr: "rare",
  kwargsrepr: "rare",
  ignore_result: "rare",
  replaced_task_nesting: "rare",
  stamped_headers: "rare",
  stamps: "rare",
  compression: "rare",
  traceparent: "rare",
  tracestate: "rare",
  bodyRef: "rare",
})

/** Whether a header has a meaning in the protocol, so that an application cannot set it as a custom header. */
export const isReservedHeader = (name: string): boolean => KNOWN[name] !== undefined || name === "__proto__"

const EMPTY: Readonly<Record<string, never>> = Object.freeze({})
const NO_LIMIT: Task["timelimit"] = Object.freeze({ hard: null, soft: null })

/** A time limit in seconds; 0 means none, as in Celery 5.6 (`limit or task.limit`). `undefined`: the value is wrong. */
const limit = (value: unknown): number | null | undefined => {
  if (value === null || value === undefined || value === 0) return null
  return typeof value === "number" && value > 0 && value * 1000 <= MAX_DURATION_MS ? value : undefined
}

/**
 * As in Celery 5.6 an empty list means none. A list of any other length than two, which kills a Python worker, is
 * refused.
 */
const timelimitOf = (value: unknown): Task["timelimit"] | HeaderProblem => {
  if (value === undefined || value === null) return NO_LIMIT
  if (!Array.isArray(value)) return new HeaderProblem("timelimit", `must be [hard, soft], not ${describe(value)}`)
  if (value.length === 0) return NO_LIMIT
  if (value.length !== 2) return new HeaderProblem("timelimit", `must be [hard, soft], not a list of ${value.length}`)
  const hard = limit(value[0])
  const soft = limit(value[1])
  if (hard === undefined || soft === undefined)
    return new HeaderProblem("timelimit", "must contain numbers of seconds, at most a hundred years, or null")
  return hard === null && soft === null ? NO_LIMIT : { hard, soft }
}

const customOf = (headers: Headers): Readonly<Record<string, unknown>> => {
  const custom: Record<string, unknown> = {}
  for (const name in headers) {
    if (isReservedHeader(name)) continue
    const value = headers[name]
    // `null` is kept: to an application it may mean something else than absent.
    if (value !== undefined) custom[name] = value
  }
  return custom
}

/**
 * Parses the headers of a task, as tolerantly as a Celery worker: only `task` and `id` are required, `null` means absent,
 * unknown headers are kept in `custom`. The body is not looked at, so that a task whose body cannot be decoded is routed,
 * expired and listed like any other.
 *
 * Fails with {@link InvalidTask}, naming the header, on a value of a wrong type, on a time that is none, and on what
 * makes a Python worker exit (Celery 5.6: no `id`; `timelimit` that is neither empty nor of two). A message of protocol
 * 1 has no `task` header and must be converted first (`toProtocol2`).
 */
export const parseTask = (message: Pick<Message, "headers">): Result.Result<Task, InvalidTask> => {
  const parsed = taskOf(message.headers)
  return parsed instanceof HeaderProblem ? Result.fail(invalidTask(parsed)) : Result.succeed(parsed)
}

/** What most tasks do not say: their headers lack all of it. */
type Rare = Pick<
  Task,
  | "group"
  | "groupIndex"
  | "shadow"
  | "eta"
  | "expires"
  | "retries"
  | "timelimit"
  | "argsrepr"
  | "kwargsrepr"
  | "ignoreResult"
  | "stampedHeaders"
  | "stamps"
  | "replacedTaskNesting"
  | "traceparent"
  | "tracestate"
  | "compression"
>

const NOTHING_RARE: Rare = Object.freeze({
  group: null,
  groupIndex: null,
  shadow: null,
  eta: null,
  expires: null,
  retries: 0,
  timelimit: NO_LIMIT,
  argsrepr: null,
  kwargsrepr: null,
  ignoreResult: false,
  stampedHeaders: null,
  stamps: EMPTY,
  replacedTaskNesting: 0,
  traceparent: null,
  tracestate: null,
  compression: null,
})

/** A function of its own, which most tasks do not need: so the one that all need is short, and compiled sooner. */
const rareOf = (headers: Headers): Rare | HeaderProblem => {
  const group = identifier(headers, "group")
  if (group instanceof HeaderProblem) return group
  const groupIndex = count(headers, "group_index")
  if (groupIndex instanceof HeaderProblem) return groupIndex
  const shadow = filledText(headers, "shadow")
  if (shadow instanceof HeaderProblem) return shadow
  const eta = time(headers, "eta")
  if (eta instanceof HeaderProblem) return eta
  const expires = time(headers, "expires")
  if (expires instanceof HeaderProblem) return expires
  const retries = count(headers, "retries")
  if (retries instanceof HeaderProblem) return retries
  const timelimit = timelimitOf(headers.timelimit)
  if (timelimit instanceof HeaderProblem) return timelimit
  const argsrepr = text(headers, "argsrepr")
  if (argsrepr instanceof HeaderProblem) return argsrepr
  const kwargsrepr = text(headers, "kwargsrepr")
  if (kwargsrepr instanceof HeaderProblem) return kwargsrepr
  const ignoreResult = flag(headers, "ignore_result")
  if (ignoreResult instanceof HeaderProblem) return ignoreResult
  const stampedHeaders = headers.stamped_headers ?? null
  if (stampedHeaders !== null && !isTexts(stampedHeaders))
    return new HeaderProblem("stamped_headers", "must be a list of names")
  const stamps = headers.stamps ?? EMPTY
  if (!isMap(stamps)) return new HeaderProblem("stamps", `must be a map, not ${describe(stamps)}`)
  const replacedTaskNesting = count(headers, "replaced_task_nesting")
  if (replacedTaskNesting instanceof HeaderProblem) return replacedTaskNesting
  const traceparent = filledText(headers, "traceparent")
  if (traceparent instanceof HeaderProblem) return traceparent
  const compression = filledText(headers, "compression")
  if (compression instanceof HeaderProblem) return compression
  // The real body lies where this version cannot fetch it, and the handler must not run with an empty one.
  if (headers.bodyRef !== undefined && headers.bodyRef !== null) {
    return new HeaderProblem("bodyRef", "is reserved; this version cannot fetch a body that is stored elsewhere")
  }
  return {
    group,
    groupIndex,
    shadow,
    eta,
    expires,
    retries: retries ?? 0,
    timelimit,
    argsrepr,
    kwargsrepr,
    ignoreResult,
    stampedHeaders,
    stamps,
    replacedTaskNesting: replacedTaskNesting ?? 0,
    traceparent,
    tracestate: tracestateBeside(traceparent, headers.tracestate),
    compression,
  }
}

const taskOf = (headers: Headers): Task | HeaderProblem => {
  const { task } = headers
  if (typeof task !== "string" || task === "") {
    return new HeaderProblem(
      "task",
      task === undefined || task === null ? "is missing: this is not a task" : "must be a name as text",
    )
  }
  const id = identifier(headers, "id")
  if (id === null) return new HeaderProblem("id", "is missing: a task cannot be tracked without an id")
  if (id instanceof HeaderProblem) return id
  const meth = filledText(headers, "meth")
  if (meth instanceof HeaderProblem) return meth
  const lang = text(headers, "lang")
  if (lang instanceof HeaderProblem) return lang
  const rootId = identifier(headers, "root_id")
  if (rootId instanceof HeaderProblem) return rootId
  const parentId = identifier(headers, "parent_id")
  if (parentId instanceof HeaderProblem) return parentId
  let rare: Rare | HeaderProblem = NOTHING_RARE
  let custom: Readonly<Record<string, unknown>> = EMPTY
  for (const name in headers) {
    const known = KNOWN[name]
    if (known === "rare" && rare === NOTHING_RARE) rare = rareOf(headers)
    if (known === undefined && custom === EMPTY) custom = customOf(headers)
  }
  if (rare instanceof HeaderProblem) return rare
  const origin = text(headers, "origin")
  if (origin instanceof HeaderProblem) return origin
  const own = ownOf(headers[OWN_HEADER])
  if (own instanceof HeaderProblem) return own
  return {
    task,
    meth,
    id,
    lang,
    rootId,
    parentId,
    group: rare.group,
    groupIndex: rare.groupIndex,
    shadow: rare.shadow,
    eta: rare.eta,
    expires: rare.expires,
    retries: rare.retries,
    timelimit: rare.timelimit,
    argsrepr: rare.argsrepr,
    kwargsrepr: rare.kwargsrepr,
    origin,
    ignoreResult: rare.ignoreResult,
    stampedHeaders: rare.stampedHeaders,
    stamps: rare.stamps,
    replacedTaskNesting: rare.replacedTaskNesting,
    traceparent: rare.traceparent,
    tracestate: rare.tracestate,
    compression: rare.compression,
    own,
    custom,
  }
}

/** A task with these fields; all others are absent. */
export const newTask = (fields: Partial<Task> & Pick<Task, "task" | "id">): Task => ({
  meth: null,
  lang: null,
  rootId: null,
  parentId: null,
  group: null,
  groupIndex: null,
  shadow: null,
  eta: null,
  expires: null,
  retries: 0,
  timelimit: NO_LIMIT,
  argsrepr: null,
  kwargsrepr: null,
  origin: null,
  ignoreResult: false,
  stampedHeaders: null,
  stamps: EMPTY,
  replacedTaskNesting: 0,
  traceparent: null,
  tracestate: null,
  compression: null,
  own: EMPTY,
  custom: EMPTY,
  ...fields,
})

/** Priority 0–9; other numbers are clamped, as by Celery 5.6 with Redis. */
const priorityOf = (value: unknown): number | HeaderProblem => {
  if (value === undefined || value === null) return DEFAULT_PRIORITY
  if (!isFiniteNumber(value))
    return new HeaderProblem(
      "priority",
      `must be a number from 0 to 9, not ${typeof value === "number" ? value : describe(value)}`,
    )
  return Math.min(Math.max(Math.trunc(value), 0), 9)
}

/**
 * {@link postingOf} for headers that are parsed already. Fails with {@link InvalidTask} where the priority is no number.
 */
export const postingOfTask = (task: Task, message: Message, queue: string): Result.Result<JobPosting, InvalidTask> => {
  const priority = priorityOf(message.properties.priority)
  if (priority instanceof HeaderProblem) return Result.fail(invalidTask(priority))
  const { own } = task
  const posting: { -readonly [Field in keyof JobPosting]: JobPosting[Field] } = {
    id: task.id,
    run: own.run ?? 1,
    retries: task.retries,
    queue,
    level: own.front === true ? FRONT_LEVEL : priority,
    message,
  }
  if (task.eta !== null) posting.due = task.eta
  if (task.expires !== null) posting.expires = task.expires
  if (own.hops !== undefined) posting.hops = own.hops
  return Result.succeed(posting)
}

/**
 * The posting of a message that goes to a queue: its address, order, due time and publish key, from headers and properties
 * alone. Fails with {@link InvalidTask} where the headers make no task.
 */
export const postingOf = (message: Message, queue: string): Result.Result<JobPosting, InvalidTask> => {
  const task = parseTask(message)
  return Result.isFailure(task) ? Result.fail(task.failure) : postingOfTask(task.success, message, queue)
}
