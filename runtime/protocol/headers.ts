/**
 * Everything about the headers of a task, for the rooms above: Celery's headers (protocol 2), Callboard's, and custom ones.
 *
 * Callboard's are fields of one header, `callboard`, a map: so they are easily told from Celery's, and survive any broker
 * whose headers can hold a map.
 */
import type { Headers } from "./message.ts"
import { OWN_HEADER } from "./own-headers.ts"
import type { Task } from "./task.ts"
import { formatTime } from "./time.ts"

export type { InvalidTask } from "./header-field.ts"
export {
  type AfterHeader,
  type BookHeader,
  type ChordHeader,
  type FromStepHeader,
  MAX_FROM,
  MAX_MEMBERS,
  MAX_PARENTS,
  type MemberHeader,
  notUnderstoodIn,
  OWN_HEADER,
  type OwnHeaders,
  type RepeatHeader,
  type RetryHeader,
  UNDERSTOOD,
  withFromStep,
} from "./own-headers.ts"
export { isExternal, isReservedHeader, newTask, parseTask, postingOf, postingOfTask, type Task } from "./task.ts"

/** Value of the header `lang`. Celery's workers ignore it. */
export const LANG = "ts"

const hasAny = (map: object): boolean => {
  for (const _ in map) return true
  return false
}

const timelimitHeader = (limits: Task["timelimit"]): ReadonlyArray<number | null> => [limits.hard, limits.soft]

/**
 * The headers of a task without those that are `null`, which means the same as absent. That takes a third of the bytes of all
 * standard headers, and parses to the same task.
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
