/** Writes a task back into headers. */

import type { Headers } from "./message.ts"
import { OWN_HEADER } from "./own-headers.ts"
import type { Task } from "./task.ts"
import { formatTime } from "./time.ts"

/** What this library writes into `lang`. Celery's workers do not look at it. */
export const LANG = "ts"

const hasAny = (map: object): boolean => {
  for (const _ in map) return true
  return false
}

const timelimitHeader = (limits: Task["timelimit"]): ReadonlyArray<number | null> => [limits.hard, limits.soft]

/**
 * The headers of a task with every standard key in place, in the order in which a Celery 5.6 client writes them, so that
 * any Celery worker or monitor can read the message. `meth`, `traceparent`, `tracestate`, `compression` and `callboard`
 * only where they say something. Custom headers cannot replace standard ones. For queues of our own, {@link renderCompact} says the
 * same in fewer bytes.
 */
export const renderHeaders = (task: Task): Headers => ({
  ...task.custom,
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
  ...(task.tracestate === null ? undefined : { tracestate: task.tracestate }),
  ...(task.compression === null ? undefined : { compression: task.compression }),
  ...(hasAny(task.own) ? { [OWN_HEADER]: task.own } : undefined),
})

/**
 * The headers of a task, written only where they say something: absent and `null` mean the same to every reader here.
 * A third of the bytes of {@link renderHeaders}; what a transport stores for our own workers. Parses to the same task.
 */
export const renderCompact = (task: Task): Headers => {
  const headers: Record<string, unknown> = { ...task.custom }
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
  if (task.tracestate !== null) headers.tracestate = task.tracestate
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
  stamps: Object.freeze({}),
})

/** Headers as they are, with the standard keys that they lack: what a transport sends to a Celery worker. */
export const completeHeaders = (headers: Headers): Headers => ({ ...STANDARD, ...headers })
