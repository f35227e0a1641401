/**
 * Headers of a task, parsed once: Celery's (protocol 2), our own, and the rest.
 *
 * Our own live in one header, `callboard`, a map: they can be told from Celery's at a glance and survive any broker
 * whose headers can hold a map.
 */

export { LANG, renderCompact } from "./celery/render.ts"
export type { InvalidTask } from "./header-field.ts"
export {
  type AfterHeader,
  MOST_PARENTS,
  OWN_HEADER,
  type OwnHeaders,
  type RepeatHeader,
  type RetryHeader,
} from "./own-headers.ts"
export { isReservedHeader, newTask, parseTask, postingOf, postingOfTask, type Task } from "./task.ts"
