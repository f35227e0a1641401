/**
 * Everything about the headers of a task, for the rooms above: Celery's headers (protocol 2), Callboard's, and custom ones.
 *
 * Callboard's are fields of one header, `callboard`, a map: so they are easily told from Celery's, and survive any broker
 * whose headers can hold a map.
 */

export { LANG, renderCompact } from "./celery/render.ts"
export type { InvalidTask } from "./header-field.ts"
export {
  type AfterHeader,
  type BookHeader,
  type ChordHeader,
  type MemberHeader,
  MOST_MEMBERS,
  MOST_PARENTS,
  OWN_HEADER,
  type OwnHeaders,
  type RepeatHeader,
  type RetryHeader,
} from "./own-headers.ts"
export { isReservedHeader, newTask, parseTask, postingOf, postingOfTask, type Task } from "./task.ts"
