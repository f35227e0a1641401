/**
 * Headers of a task, parsed once: Celery's (protocol 2), our own, and the rest.
 *
 * Our own live in one header, `callboard`, a map: they can be told from Celery's at a glance and survive any broker
 * whose headers can hold a map.
 */
import { Result } from "effect"
import { DEFAULT_PRIORITY, FRONT_LEVEL, type Headers, type Message, type Posting } from "./message.ts"
import { isId, MAX_ID_BYTES } from "./name.ts"
import { formatTime, parseTime } from "./time.ts"

/** Why headers make no task. `field` is the header's name. */
export interface InvalidTask {
  readonly _tag: "InvalidTask"
  readonly field: string
  readonly message: string
}

/** Retry policy of one task, as it travels. Durations in milliseconds. */
export interface RetryHeader {
  /** Retries after the first attempt. Absent: what the method says. */
  readonly max?: number
  readonly baseMs?: number
  readonly factor?: number
  readonly maxMs?: number
  readonly jitter?: boolean
  readonly on?: ReadonlyArray<string>
  readonly except?: ReadonlyArray<string>
}

/** The `callboard` header. */
export interface OwnHeaders {
  readonly run?: number
  /** See `Posting.hops`. */
  readonly hops?: number
  readonly front?: boolean
  readonly key?: string
  /** Milliseconds since the epoch. */
  readonly submittedAt?: number
  /** How long to keep the record of a success, in milliseconds. */
  readonly resultTtlMs?: number
  /** How long to keep the record of a failure, in milliseconds. */
  readonly failureTtlMs?: number
  readonly retry?: RetryHeader
  readonly meta?: Readonly<Record<string, unknown>>
  readonly description?: string
}

/** A task as its headers tell it. `null` where the sender said nothing. */
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
  /** Content type of the compression, e.g. `application/x-gzip`. */
  readonly compression: string | null
  readonly own: OwnHeaders
  /** Headers that neither Celery's protocol nor we define. */
  readonly custom: Readonly<Record<string, unknown>>
}

/** What this library writes into `lang`. Celery's workers do not look at it. */
export const LANG = "ts"

/** The header that holds our own. */
export const OWN_HEADER = "callboard"

/**
 * Headers with a meaning here: not available to applications as custom ones. `redelivered` is set by Celery's Redis
 * transport; `bodyRef` is reserved for bodies that are stored elsewhere.
 */
const RESERVED: Readonly<Record<string, true>> = Object.assign(Object.create(null), {
  lang: true,
  task: true,
  id: true,
  shadow: true,
  eta: true,
  expires: true,
  group: true,
  group_index: true,
  retries: true,
  timelimit: true,
  root_id: true,
  parent_id: true,
  argsrepr: true,
  kwargsrepr: true,
  origin: true,
  ignore_result: true,
  replaced_task_nesting: true,
  stamped_headers: true,
  stamps: true,
  compression: true,
  redelivered: true,
  meth: true,
  traceparent: true,
  bodyRef: true,
  [OWN_HEADER]: true,
})

/** Whether a header name belongs to the protocol or to us, so that an application may not set it freely. */
export const isReservedHeader = (name: string): boolean => RESERVED[name] === true || name === "__proto__"

const NOTHING: Readonly<Record<string, never>> = Object.freeze({})
const NO_LIMIT: Task["timelimit"] = Object.freeze({ hard: null, soft: null })

/** What a parser of one header returns when the value is of a wrong kind: why. Never stored, so that it costs nothing. */
class Wrong {
  readonly field: string
  readonly why: string
  constructor(field: string, why: string) {
    this.field = field
    this.why = why
  }
}

const invalid = (wrong: Wrong): InvalidTask => ({
  _tag: "InvalidTask",
  field: wrong.field,
  message: `Header "${wrong.field}" ${wrong.why}.`,
})

const describe = (value: unknown): string =>
  value === null ? "null" : Array.isArray(value) ? "a list" : typeof value === "object" ? "a map" : `a ${typeof value}`

const text = (headers: Headers, field: string): string | null | Wrong => {
  const value = headers[field]
  if (typeof value === "string") return value
  return value === undefined || value === null ? null : new Wrong(field, `must be text, not ${describe(value)}`)
}

/** Text where nothing and empty mean the same. */
const filledText = (headers: Headers, field: string): string | null | Wrong => {
  const value = text(headers, field)
  return value === "" ? null : value
}

const identifier = (headers: Headers, field: string): string | null | Wrong => {
  const value = filledText(headers, field)
  if (typeof value !== "string" || isId(value)) return value
  return new Wrong(field, `must be well-formed text of at most ${MAX_ID_BYTES} bytes`)
}

const time = (headers: Headers, field: string): number | null | Wrong => {
  const value = headers[field]
  if (value === undefined || value === null || value === "") return null
  if (typeof value !== "string") return new Wrong(field, `must be an ISO 8601 time as text, not ${describe(value)}`)
  const parsed = parseTime(value)
  return Result.isFailure(parsed) ? new Wrong(field, `is no time: ${parsed.failure.message}`) : parsed.success
}

const count = (headers: Headers, field: string): number | null | Wrong => {
  const value = headers[field]
  if (value === undefined || value === null) return null
  if (typeof value === "number" && Number.isSafeInteger(value) && value >= 0) return value
  return new Wrong(field, `must be a whole number from 0 on, not ${typeof value === "number" ? value : describe(value)}`)
}

/** Python's senders write booleans; some brokers hand them on as 0 and 1. */
const flag = (headers: Headers, field: string): boolean | Wrong => {
  const value = headers[field]
  if (typeof value === "boolean") return value
  if (value === undefined || value === null) return false
  return value === 0 || value === 1 ? value === 1 : new Wrong(field, `must be true or false, not ${describe(value)}`)
}

/** Celery 5.6: `limit or task.limit`, so that 0 means the same as none. */
const limit = (value: unknown): number | null | undefined => {
  if (value === null || value === undefined || value === 0) return null
  return typeof value === "number" && value > 0 && value < Number.POSITIVE_INFINITY ? value : undefined
}

/** Celery 5.6: an empty list is none; any other length than two kills a Python worker. */
const timelimitOf = (value: unknown): Task["timelimit"] | Wrong => {
  if (value === undefined || value === null) return NO_LIMIT
  if (!Array.isArray(value)) return new Wrong("timelimit", `must be [hard, soft], not ${describe(value)}`)
  if (value.length === 0) return NO_LIMIT
  if (value.length !== 2) return new Wrong("timelimit", `must be [hard, soft], not a list of ${value.length}`)
  const hard = limit(value[0])
  const soft = limit(value[1])
  if (hard === undefined || soft === undefined) return new Wrong("timelimit", "must hold seconds or null")
  return hard === null && soft === null ? NO_LIMIT : { hard, soft }
}

const isMap = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value) && !ArrayBuffer.isView(value)

const isTexts = (value: unknown): value is ReadonlyArray<string> =>
  Array.isArray(value) && value.every((item) => typeof item === "string")

const customOf = (headers: Headers): Readonly<Record<string, unknown>> => {
  let custom: Record<string, unknown> | undefined
  for (const name in headers) {
    if (RESERVED[name] === true || name === "__proto__") continue
    const value = headers[name]
    // An application may tell null from absent, where the protocol does not.
    if (value === undefined) continue
    custom ??= {}
    custom[name] = value
  }
  return custom ?? NOTHING
}

/**
 * Reads the headers of a task, as tolerantly as a Celery worker: only `task` and `id` are needed, `null` is the same as
 * absent, unknown headers are kept in `custom`. Looks at nothing but the headers, so that a task whose body cannot be
 * decoded is routed, expired and listed like any other.
 *
 * Fails with {@link InvalidTask}, naming the header, on a value of a wrong type, on a time that is none, and on what
 * makes a Python worker exit (Celery 5.6: no `id`; `timelimit` that is neither empty nor of two). A message of protocol
 * 1 has no `task` header and must be converted first (`toProtocol2`).
 */
export const parseTask = (message: Pick<Message, "headers">): Result.Result<Task, InvalidTask> => {
  const parsed = taskOf(message.headers)
  return parsed instanceof Wrong ? Result.fail(invalid(parsed)) : Result.succeed(parsed)
}

const taskOf = (headers: Headers): Task | Wrong => {
  const task = headers.task
  if (typeof task !== "string" || task === "") {
    return new Wrong("task", task === undefined || task === null ? "is missing: this is no task" : "must be a name as text")
  }
  const id = identifier(headers, "id")
  if (id === null) return new Wrong("id", "is missing: a task cannot be tracked without it")
  if (id instanceof Wrong) return id
  const meth = filledText(headers, "meth")
  if (meth instanceof Wrong) return meth
  const lang = text(headers, "lang")
  if (lang instanceof Wrong) return lang
  const rootId = identifier(headers, "root_id")
  if (rootId instanceof Wrong) return rootId
  const parentId = identifier(headers, "parent_id")
  if (parentId instanceof Wrong) return parentId
  const group = identifier(headers, "group")
  if (group instanceof Wrong) return group
  const groupIndex = count(headers, "group_index")
  if (groupIndex instanceof Wrong) return groupIndex
  const shadow = filledText(headers, "shadow")
  if (shadow instanceof Wrong) return shadow
  const eta = time(headers, "eta")
  if (eta instanceof Wrong) return eta
  const expires = time(headers, "expires")
  if (expires instanceof Wrong) return expires
  const retries = count(headers, "retries")
  if (retries instanceof Wrong) return retries
  const timelimit = timelimitOf(headers.timelimit)
  if (timelimit instanceof Wrong) return timelimit
  const argsrepr = text(headers, "argsrepr")
  if (argsrepr instanceof Wrong) return argsrepr
  const kwargsrepr = text(headers, "kwargsrepr")
  if (kwargsrepr instanceof Wrong) return kwargsrepr
  const origin = text(headers, "origin")
  if (origin instanceof Wrong) return origin
  const ignoreResult = flag(headers, "ignore_result")
  if (ignoreResult instanceof Wrong) return ignoreResult
  const stampedHeaders = headers.stamped_headers ?? null
  if (stampedHeaders !== null && !isTexts(stampedHeaders)) return new Wrong("stamped_headers", "must be a list of names")
  const stamps = headers.stamps ?? NOTHING
  if (!isMap(stamps)) return new Wrong("stamps", `must be a map, not ${describe(stamps)}`)
  const replacedTaskNesting = count(headers, "replaced_task_nesting")
  if (replacedTaskNesting instanceof Wrong) return replacedTaskNesting
  const traceparent = filledText(headers, "traceparent")
  if (traceparent instanceof Wrong) return traceparent
  const compression = filledText(headers, "compression")
  if (compression instanceof Wrong) return compression
  // A handler must not run with an empty body because its real one lies where this version cannot fetch it.
  if (headers.bodyRef !== undefined && headers.bodyRef !== null) {
    return new Wrong("bodyRef", "is reserved, and this version cannot fetch a body that is stored elsewhere")
  }
  const own = ownOf(headers[OWN_HEADER])
  if (own instanceof Wrong) return own
  return {
    task,
    meth,
    id,
    lang,
    rootId,
    parentId,
    group,
    groupIndex,
    shadow,
    eta,
    expires,
    retries: retries ?? 0,
    timelimit,
    argsrepr,
    kwargsrepr,
    origin,
    ignoreResult,
    stampedHeaders,
    stamps,
    replacedTaskNesting: replacedTaskNesting ?? 0,
    traceparent,
    compression,
    own,
    custom: customOf(headers),
  }
}

const isFiniteNumber = (value: unknown): value is number => typeof value === "number" && Number.isFinite(value)

const isFromZero = (value: unknown): value is number => isFiniteNumber(value) && value >= 0

const wrongOwn = (field: string, why: string): Wrong => new Wrong(`${OWN_HEADER}.${field}`, why)

/**
 * The `callboard` header, field by field. Fields of a later version are passed over: they stay in the headers, which
 * travel on unchanged.
 */
const ownOf = (value: unknown): OwnHeaders | Wrong => {
  if (value === undefined || value === null) return NOTHING
  if (!isMap(value)) return new Wrong(OWN_HEADER, `must be a map, not ${describe(value)}`)
  const own: { -readonly [Field in keyof OwnHeaders]: OwnHeaders[Field] } = {}
  const { run, hops, front, key, submittedAt, resultTtlMs, failureTtlMs, retry, meta, description } = value
  if (run !== undefined && run !== null) {
    if (typeof run !== "number" || !Number.isSafeInteger(run) || run < 1) {
      return wrongOwn("run", "must be a whole number from 1 on")
    }
    own.run = run
  }
  if (hops !== undefined && hops !== null) {
    if (typeof hops !== "number" || !Number.isSafeInteger(hops) || hops < 0) {
      return wrongOwn("hops", "must be a whole number from 0 on")
    }
    own.hops = hops
  }
  if (front !== undefined && front !== null) {
    if (typeof front !== "boolean") return wrongOwn("front", "must be true or false")
    own.front = front
  }
  if (key !== undefined && key !== null) {
    if (typeof key !== "string" || key === "" || !isId(key)) {
      return wrongOwn("key", `must be well-formed text of 1 to ${MAX_ID_BYTES} bytes`)
    }
    own.key = key
  }
  if (submittedAt !== undefined && submittedAt !== null) {
    if (!isFromZero(submittedAt)) return wrongOwn("submittedAt", "must be milliseconds since the epoch")
    own.submittedAt = submittedAt
  }
  if (resultTtlMs !== undefined && resultTtlMs !== null) {
    if (!isFiniteNumber(resultTtlMs)) return wrongOwn("resultTtlMs", "must be milliseconds")
    own.resultTtlMs = resultTtlMs
  }
  if (failureTtlMs !== undefined && failureTtlMs !== null) {
    if (!isFiniteNumber(failureTtlMs)) return wrongOwn("failureTtlMs", "must be milliseconds")
    own.failureTtlMs = failureTtlMs
  }
  if (retry !== undefined && retry !== null) {
    const policy = retryOf(retry)
    if (policy instanceof Wrong) return policy
    own.retry = policy
  }
  if (meta !== undefined && meta !== null) {
    if (!isMap(meta)) return wrongOwn("meta", "must be a map")
    own.meta = meta
  }
  if (description !== undefined && description !== null) {
    if (typeof description !== "string") return wrongOwn("description", "must be text")
    own.description = description
  }
  return own
}

const retryOf = (value: unknown): RetryHeader | Wrong => {
  if (!isMap(value)) return wrongOwn("retry", "must be a map")
  const { max, baseMs, factor, maxMs, jitter, on, except } = value
  const policy: { -readonly [Field in keyof RetryHeader]: RetryHeader[Field] } = {}
  if (max !== undefined && max !== null) {
    if (typeof max !== "number" || !Number.isSafeInteger(max) || max < 0) {
      return wrongOwn("retry.max", "must be a whole number from 0 on")
    }
    policy.max = max
  }
  if (baseMs !== undefined && baseMs !== null) {
    if (!isFromZero(baseMs)) return wrongOwn("retry.baseMs", "must be milliseconds")
    policy.baseMs = baseMs
  }
  if (factor !== undefined && factor !== null) {
    if (!isFiniteNumber(factor) || factor < 1) return wrongOwn("retry.factor", "must be a number from 1 on")
    policy.factor = factor
  }
  if (maxMs !== undefined && maxMs !== null) {
    if (!isFromZero(maxMs)) return wrongOwn("retry.maxMs", "must be milliseconds")
    policy.maxMs = maxMs
  }
  if (jitter !== undefined && jitter !== null) {
    if (typeof jitter !== "boolean") return wrongOwn("retry.jitter", "must be true or false")
    policy.jitter = jitter
  }
  if (on !== undefined && on !== null) {
    if (!isTexts(on)) return wrongOwn("retry.on", "must be a list of error names")
    policy.on = on
  }
  if (except !== undefined && except !== null) {
    if (!isTexts(except)) return wrongOwn("retry.except", "must be a list of error names")
    policy.except = except
  }
  return policy
}

/** A task of which only some fields are known; the others say nothing. */
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
  stamps: NOTHING,
  replacedTaskNesting: 0,
  traceparent: null,
  compression: null,
  own: NOTHING,
  custom: NOTHING,
  ...fields,
})

const hasAny = (map: object): boolean => {
  for (const _ in map) return true
  return false
}

const timelimitHeader = (limits: Task["timelimit"]): ReadonlyArray<number | null> => [limits.hard, limits.soft]

/**
 * The headers of a task with every standard key in place, in the order in which a Celery 5.6 client writes them, so that
 * any Celery worker or monitor can read the message. `meth`, `traceparent`, `compression` and `callboard` only where
 * they say something. Custom headers cannot replace standard ones. For queues of our own, {@link renderCompact} says the
 * same in fewer bytes.
 */
export const renderHeaders = (task: Task): Headers => ({
  ...(task.custom === NOTHING ? undefined : task.custom),
  lang: task.lang ?? LANG,
  task: task.task,
  id: task.id,
  shadow: task.shadow,
  eta: task.eta === null ? null : formatTime(task.eta),
  expires: task.expires === null ? null : formatTime(task.expires),
  group: task.group,
  group_index: task.groupIndex,
  retries: task.retries,
  timelimit: timelimitHeader(task.timelimit),
  root_id: task.rootId,
  parent_id: task.parentId,
  argsrepr: task.argsrepr,
  kwargsrepr: task.kwargsrepr,
  origin: task.origin,
  ignore_result: task.ignoreResult,
  replaced_task_nesting: task.replacedTaskNesting,
  stamped_headers: task.stampedHeaders,
  stamps: task.stamps,
  ...(task.meth === null ? undefined : { meth: task.meth }),
  ...(task.traceparent === null ? undefined : { traceparent: task.traceparent }),
  ...(task.compression === null ? undefined : { compression: task.compression }),
  ...(hasAny(task.own) ? { [OWN_HEADER]: task.own } : undefined),
})

/**
 * The headers of a task, written only where they say something: absent and `null` mean the same to every reader here.
 * A third of the bytes of {@link renderHeaders}; what a transport stores for our own workers. Parses to the same task.
 */
export const renderCompact = (task: Task): Headers => {
  const headers: Record<string, unknown> = task.custom === NOTHING ? {} : { ...task.custom }
  headers.lang = task.lang ?? LANG
  headers.task = task.task
  if (task.meth !== null) headers.meth = task.meth
  headers.id = task.id
  if (task.rootId !== null) headers.root_id = task.rootId
  if (task.parentId !== null) headers.parent_id = task.parentId
  if (task.group !== null) headers.group = task.group
  if (task.groupIndex !== null) headers.group_index = task.groupIndex
  if (task.shadow !== null) headers.shadow = task.shadow
  if (task.eta !== null) headers.eta = formatTime(task.eta)
  if (task.expires !== null) headers.expires = formatTime(task.expires)
  if (task.retries !== 0) headers.retries = task.retries
  if (task.timelimit.hard !== null || task.timelimit.soft !== null) headers.timelimit = timelimitHeader(task.timelimit)
  if (task.argsrepr !== null) headers.argsrepr = task.argsrepr
  if (task.kwargsrepr !== null) headers.kwargsrepr = task.kwargsrepr
  if (task.origin !== null) headers.origin = task.origin
  if (task.ignoreResult) headers.ignore_result = true
  if (task.stampedHeaders !== null) headers.stamped_headers = task.stampedHeaders
  if (hasAny(task.stamps)) headers.stamps = task.stamps
  if (task.replacedTaskNesting !== 0) headers.replaced_task_nesting = task.replacedTaskNesting
  if (task.traceparent !== null) headers.traceparent = task.traceparent
  if (task.compression !== null) headers.compression = task.compression
  if (hasAny(task.own)) headers[OWN_HEADER] = task.own
  return headers
}

const STANDARD: Headers = Object.freeze({
  lang: LANG,
  shadow: null,
  eta: null,
  expires: null,
  group: null,
  group_index: null,
  retries: 0,
  timelimit: Object.freeze([null, null]),
  root_id: null,
  parent_id: null,
  argsrepr: null,
  kwargsrepr: null,
  origin: null,
  ignore_result: false,
  replaced_task_nesting: 0,
  stamped_headers: null,
  stamps: NOTHING,
})

/** Headers as they are, with the standard keys that they lack: what a transport sends to a Celery worker. */
export const completeHeaders = (headers: Headers): Headers => ({ ...STANDARD, ...headers })

/** 0–9. Celery 5.6 with Redis clamps what lies outside. */
const priorityOf = (value: unknown): number | Wrong => {
  if (value === undefined || value === null) return DEFAULT_PRIORITY
  if (!isFiniteNumber(value)) return new Wrong("priority", `must be a number from 0 to 9, not ${describe(value)}`)
  return Math.min(Math.max(Math.trunc(value), 0), 9)
}

/**
 * The posting of a message whose headers have been parsed already. Fails with {@link InvalidTask} when its priority is
 * no number.
 */
export const postingOfTask = (task: Task, message: Message, queue: string): Result.Result<Posting, InvalidTask> => {
  const priority = priorityOf(message.properties.priority)
  if (priority instanceof Wrong) return Result.fail(invalid(priority))
  const { own } = task
  const posting: { -readonly [Field in keyof Posting]: Posting[Field] } = {
    id: task.id,
    run: own.run ?? 1,
    retries: task.retries,
    queue,
    level: own.front === true ? FRONT_LEVEL : priority,
    message,
  }
  if (task.eta !== null) posting.due = task.eta
  if (task.expires !== null) posting.expires = task.expires
  if (own.key !== undefined) posting.key = own.key
  if (own.hops !== undefined) posting.hops = own.hops
  return Result.succeed(posting)
}

/**
 * The posting of a message that goes to a queue: address, order, due time and publish key from headers and properties
 * alone. Fails with {@link InvalidTask} when its headers make no task.
 */
export const postingOf = (message: Message, queue: string): Result.Result<Posting, InvalidTask> => {
  const task = parseTask(message)
  return Result.isFailure(task) ? Result.fail(task.failure) : postingOfTask(task.success, message, queue)
}
