/**
 * The result of a task as Celery's result back end stores it: written for clients of Celery, and read where Celery's workers
 * wrote it. Fields have their names on the wire. Pure.
 */
import * as Result from "effect/Result"
import type { CodecFailure } from "./codec/codec.ts"
import { jsonCodec, ofJsonForm, renderJson } from "./codec/json.ts"
import { Exact } from "./exact.ts"
import { isDecodedMap, isPlainObject } from "./guards.ts"
import type { JobError, JobRecord, Progress } from "./record.ts"
import type { Task } from "./task.ts"
import { formatTime } from "./time.ts"

/** States of a task that has ended. */
export const READY: ReadonlySet<string> = new Set(["SUCCESS", "FAILURE", "REVOKED"])

/** Key of a task's result, which is also the channel on which it is announced. */
export const metaKey = (id: string): string => `celery-task-meta-${id}`

/** The reverse of `metaKey`. */
export const idOfMetaKey = (key: string): string => key.slice(metaKey("").length)

/** Key of a group's saved results. With `.j`, `.t` and `.s` appended: keys of the counters of its chord. */
export const groupKey = (group: string): string => `celery-taskset-meta-${group}`

/** How long results are kept, in seconds: a day, the default of Celery's `result_expires`. */
export const RESULT_EXPIRES_S = 86_400

/** A Python exception in a result. */
export interface ExceptionMeta {
  readonly exc_type: string
  /** The arguments of its constructor. */
  readonly exc_message: ReadonlyArray<unknown>
  readonly exc_module: string
}

/** The id of a result and that of its parent; for a group also the tuples of its members. */
export type ResultTuple = readonly [readonly [id: string, parent: unknown], ReadonlyArray<unknown> | null]

export interface ResultMeta {
  /** SUCCESS, FAILURE, REVOKED, RETRY, STARTED, or a custom state of the application. */
  readonly status: string
  /** The return value; an {@link ExceptionMeta} for a task that has failed, was revoked, or waits for a retry. */
  readonly result: unknown
  readonly traceback: string | null
  /** Results of the tasks that this task has submitted. */
  readonly children: ReadonlyArray<unknown>
  /** ISO 8601; `null` until the task has ended. */
  readonly date_done: string | null
  readonly group_id?: string
  readonly parent_id?: string
  readonly task_id: string
}

/** The fields of a task that its result refers to. */
export interface OfTask {
  readonly id: string
  readonly task: string
  readonly group?: string | null
  readonly parentId?: string | null
  readonly timelimit?: Task["timelimit"]
}

/** The result that follows from a job's record. `undefined` while the job is in a state that Celery's clients do not see. */
export const metaOfRecord = (
  record: Pick<JobRecord, "state" | "result" | "error" | "timeline" | "endedAt">,
  of: OfTask,
  at: number,
  children: ReadonlyArray<ResultTuple> = [],
): ResultMeta | undefined => {
  const { error } = record
  const reason = record.timeline.at(-1)?.reason
  switch (record.state) {
    case "succeeded":
      return metaOf("SUCCESS", ofJsonForm(record.result ?? null), of, at, { children })
    case "failed":
      return error === undefined ? undefined : failureMeta(error, of, at, children)
    case "cancelled":
      return revokedMeta(of, at, reason === "stopped" ? "terminated" : "revoked")
    case "expired":
      return revokedMeta(of, at, "expired")
    default:
      if (reason !== "retry") return undefined
      return metaOf("RETRY", error === undefined || error.name === "Retry" ? null : exceptionOf(error, of), of, null, {
        traceback: error?.traceback ?? null,
      })
  }
}

/** The result of a task that has failed. */
export const failureMeta = (
  error: JobError,
  of: OfTask,
  at: number,
  children: ReadonlyArray<ResultTuple> = [],
): ResultMeta => metaOf("FAILURE", exceptionOf(error, of), of, at, { traceback: error.traceback ?? null, children })

/** The result of a task that was revoked before it started, was terminated while it ran, or has expired. */
export const revokedMeta = (of: OfTask, at: number, why: "revoked" | "terminated" | "expired"): ResultMeta =>
  metaOf("REVOKED", exception("celery.exceptions", "TaskRevokedError", why), of, at, {})

/** The result of a task that has reported its progress: the detail, which clients read as `info`; without one the fraction. */
export const progressMeta = (of: OfTask, { fraction, detail = { fraction } }: Omit<Progress, "at">): ResultMeta =>
  metaOf("PROGRESS", detail, of, null, {})

const metaOf = (
  status: string,
  result: unknown,
  of: OfTask,
  done: number | null,
  { traceback = null, children = [] }: Partial<Pick<ResultMeta, "traceback" | "children">>,
): ResultMeta => ({
  status,
  result,
  traceback,
  children,
  date_done: done === null ? null : formatTime(done),
  ...(typeof of.group === "string" ? { group_id: of.group } : {}),
  ...(typeof of.parentId === "string" ? { parent_id: of.parentId } : {}),
  task_id: of.id,
})

// ── exceptions ───────────────────────────────────────────────────────────────────────────────────────────────────────

const exception = (module: string, type: string, ...message: ReadonlyArray<unknown>): ExceptionMeta => ({
  exc_type: type,
  exc_message: message,
  exc_module: module,
})

/** Built-in exceptions of Python. An error with one of these names is raised as that exception. */
const BUILTINS: ReadonlySet<string> = new Set(
  (
    "ArithmeticError AssertionError AttributeError BufferError ConnectionError EOFError Exception FileExistsError " +
    "FileNotFoundError ImportError IndexError InterruptedError KeyError LookupError MemoryError NameError " +
    "NotImplementedError OSError OverflowError PermissionError ProcessLookupError RecursionError ReferenceError RuntimeError " +
    "StopIteration SyntaxError SystemError TimeoutError TypeError UnicodeError ValueError ZeroDivisionError"
  ).split(" "),
)

/**
 * The exception that a client of Celery raises for an error: Celery's own class where it has one for the reason; for a name
 * with dots the class in that module (`shop.errors.OutOfStock`); for the name of a built-in exception that one. For any
 * other name the client creates a class.
 */
export const exceptionOf = (error: JobError, of: OfTask): ExceptionMeta => {
  const { name, message, reason } = error
  switch (reason) {
    case "unknown-actor":
      return exception("celery.exceptions", "NotRegistered", of.task)
    case "timeout":
      return name === "SoftTimeLimitExceeded"
        ? exception("billiard.exceptions", name, of.timelimit?.soft ?? message)
        : exception("billiard.exceptions", "TimeLimitExceeded", of.timelimit?.hard ?? message)
    case "worker-lost":
      return exception("billiard.exceptions", "WorkerLostError", message)
    case "result-unserialisable":
      return exception("kombu.exceptions", "EncodeError", message)
    default:
  }
  if (name === "Retry")
    return exception("celery.exceptions", "MaxRetriesExceededError", `Can't retry ${of.task}[${of.id}]`)
  const dot = name.lastIndexOf(".")
  if (dot > 0 && dot < name.length - 1) return exception(name.slice(0, dot), name.slice(dot + 1), message)
  return exception(BUILTINS.has(name) ? "builtins" : "callboard", name, message)
}

/** The error in the result of a task that has not succeeded. */
export const errorOfMeta = (meta: ResultMeta): JobError => {
  const { exc_type, exc_message, exc_module } = isDecodedMap(meta.result) ? meta.result : EMPTY
  const parts: ReadonlyArray<unknown> = Array.isArray(exc_message) ? exc_message : [exc_message ?? ""]
  const name = typeof exc_type === "string" && exc_type !== "" ? exc_type : "Exception"
  const own = exc_module === "builtins" || exc_module === "callboard" || typeof exc_module !== "string"
  return {
    name: own ? name : `${exc_module}.${name}`,
    message: parts.map(partText).join(", "),
    reason: meta.status === "REVOKED" ? "revoked" : "handler",
    ...(meta.traceback === null ? {} : { traceback: meta.traceback }),
  }
}

/** An argument of an exception as text for people. It may be an integer of any size, which `JSON.stringify` refuses. */
const partText = (part: unknown): string =>
  typeof part === "string" ? part : Result.getOrElse(renderJson(part), () => String(part))

// ── bytes ────────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Encodes a result as JSON. Fails for a value that JSON cannot hold. */
export const encodeMeta = (meta: ResultMeta): Result.Result<Uint8Array, CodecFailure> => jsonCodec.encode(meta)

/** The failure for bytes that are no result. */
export interface InvalidMeta {
  readonly _tag: "InvalidMeta"
  readonly message: string
}

/** Decodes a result. Fails with {@link InvalidMeta}. */
export const decodeMeta = (bytes: Uint8Array): Result.Result<ResultMeta, InvalidMeta> => {
  const decoded = jsonCodec.decode(bytes)
  if (Result.isFailure(decoded)) return invalid(decoded.failure.message)
  const value = decoded.success
  if (!isDecodedMap(value) || typeof value.status !== "string" || typeof value.task_id !== "string")
    return invalid("a result must have a status and a task_id")
  const { status, result = null, traceback, children, date_done, group_id, parent_id, task_id } = value
  return Result.succeed({
    status,
    result,
    traceback: typeof traceback === "string" ? traceback : null,
    children: Array.isArray(children) ? children : [],
    date_done: typeof date_done === "string" ? date_done : null,
    ...(typeof group_id === "string" ? { group_id } : {}),
    ...(typeof parent_id === "string" ? { parent_id } : {}),
    task_id,
  })
}

const invalid = (message: string): Result.Result<never, InvalidMeta> => Result.fail({ _tag: "InvalidMeta", message })

const EMPTY: Readonly<Record<string, unknown>> = Object.freeze({})
// ── chords ───────────────────────────────────────────────────────────────────────────────────────────────────────────

/** The value that the counter of a chord stores for a member that has ended: `[1, id, state, result]`. */
export const encodeMember = (meta: ResultMeta): Result.Result<Uint8Array, CodecFailure> =>
  jsonCodec.encode([1, meta.task_id, meta.status, meta.result])

/** The results of all members in their order. If one has failed: the error with which the body of the chord fails. */
export const chordResults = (members: ReadonlyArray<Uint8Array>): Result.Result<ReadonlyArray<unknown>, JobError> => {
  const results: Array<unknown> = []
  for (const bytes of members) {
    const decoded = jsonCodec.decode(bytes)
    const member: unknown = Result.isSuccess(decoded) ? decoded.success : undefined
    if (!Array.isArray(member) || member.length !== 4)
      return Result.fail(chordError("a member of the chord cannot be read"))
    const [, id, state, result] = member
    if (state === "FAILURE" || state === "REVOKED") return Result.fail(chordError(dependencyText(String(id), result)))
    results.push(result)
  }
  return Result.succeed(results)
}

/**
 * The results of a group that its client has saved because members of it are groups themselves: `{"result": [[id, parent],
 * nodes]}`, where a node that is a group has nodes in turn. `read`: reads results of tasks, in the order of the ids.
 */
export const joinedResults = async (
  saved: Uint8Array,
  read: (ids: ReadonlyArray<string>) => Promise<ReadonlyArray<Uint8Array | undefined>>,
): Promise<Result.Result<ReadonlyArray<unknown>, JobError>> => {
  const decoded = jsonCodec.decode(saved)
  const root: unknown = Result.isSuccess(decoded) && isDecodedMap(decoded.success) ? decoded.success.result : undefined
  const nodes: unknown = Array.isArray(root) ? root[1] : undefined
  if (!isList(nodes)) return Result.fail(chordError("its group cannot be read"))
  const ids = nodes.flatMap(leavesOf)
  const kept = await read(ids)
  const metas = new Map<string, ResultMeta>()
  for (const [at, id] of ids.entries()) {
    const bytes = kept[at]
    const meta = bytes === undefined ? undefined : Result.getOrUndefined(decodeMeta(bytes))
    if (meta === undefined || !READY.has(meta.status)) return Result.fail(chordError(`Dependency ${id} has no result`))
    if (meta.status !== "SUCCESS") return Result.fail(chordError(dependencyText(id, meta.result)))
    metas.set(id, meta)
  }
  const valueOf = (node: unknown): unknown => {
    const members = membersOf(node)
    return members === undefined ? metas.get(idOf(node) ?? "")?.result : members.map(valueOf)
  }
  return Result.succeed(nodes.map(valueOf))
}

const isList = (value: unknown): value is ReadonlyArray<unknown> => Array.isArray(value)

/** The nodes of a group; `undefined` for a task. */
const membersOf = (node: unknown): ReadonlyArray<unknown> | undefined =>
  isList(node) && isList(node[1]) ? node[1] : undefined

const idOf = (node: unknown): string | undefined => {
  const own: unknown = isList(node) ? node[0] : node
  const id: unknown = isList(own) ? own[0] : own
  return typeof id === "string" ? id : undefined
}

const leavesOf = (node: unknown): ReadonlyArray<string> => {
  const members = membersOf(node)
  if (members !== undefined) return members.flatMap(leavesOf)
  const id = idOf(node)
  return id === undefined ? [] : [id]
}

/** Celery's message for a member that has failed: `Dependency <id> raised ValueError('no')`. */
const dependencyText = (id: string, result: unknown): string => {
  const { exc_type, exc_message } = isDecodedMap(result) ? result : EMPTY
  const args = Array.isArray(exc_message) ? exc_message.map(pythonText).join(", ") : pythonText(exc_message ?? "")
  return `Dependency ${id} raised ${typeof exc_type === "string" ? exc_type : "Exception"}(${args})`
}

/** A value as Python's `repr` shows it. */
const pythonText = (value: unknown): string => {
  switch (typeof value) {
    case "string":
      return pythonString(value)
    case "boolean":
      return value ? "True" : "False"
    case "number":
      return Number.isFinite(value) ? String(value) : String(value).replace("Infinity", "inf").toLowerCase()
    case "object":
      break
    default:
      return String(value)
  }
  if (value === null) return "None"
  if (isList(value)) return `[${value.map(pythonText).join(", ")}]`
  if (value instanceof Exact && value.type === "decimal") return `Decimal('${value.text}')`
  if (!isPlainObject(value)) return String(value)
  return `{${Object.entries(value)
    .map(([key, each]) => `${pythonString(key)}: ${pythonText(each)}`)
    .join(", ")}}`
}

/** An error as Python's `repr` shows an exception: `OutOfStock('none left')`. */
export const pythonException = (name: string, message: string): string =>
  `${name.slice(name.lastIndexOf(".") + 1)}(${pythonString(message)})`

/** Python puts a text into double quotes where it holds single ones and no double ones. */
const pythonString = (text: string): string => {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'"
  const escaped = JSON.stringify(text).slice(1, -1).replaceAll('\\"', '"')
  return `${quote}${quote === "'" ? escaped.replaceAll("'", "\\'") : escaped}${quote}`
}

/** The error with which the body of a chord fails when a member has not succeeded. */
export const chordError = (message: string): JobError => ({
  name: "celery.exceptions.ChordError",
  message,
  reason: "dependency-failed",
})
