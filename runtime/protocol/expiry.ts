/**
 * Whether a task may still start: expired, not due yet, revoked. Reads what headers say and nothing else, so that a task
 * whose body cannot be decoded expires and is revoked like any other.
 */
import type { Task } from "./headers.ts"

/** Whether a task must not start any more at `now`. Celery 5.6: later than `expires`, not at it. */
export const isExpired = (task: Pick<Task, "expires">, now: number): boolean =>
  task.expires !== null && now > task.expires

/** Whether a task may start at `now`. */
export const isDue = (task: Pick<Task, "eta">, now: number): boolean => task.eta === null || now >= task.eta

/** What has been revoked: ids, and values of stamps by the stamp's name. */
export interface Revocations {
  readonly ids: { readonly has: (id: string) => boolean }
  readonly stamps?: ReadonlyMap<string, ReadonlySet<unknown>>
}

/**
 * Whether a task was revoked, by its id or by its stamps. Celery 5.6: of the task's stamped headers only the first one
 * for which anything is revoked counts; the task matches when any of its values is among the revoked ones.
 */
export const isRevoked = (task: Pick<Task, "id" | "stampedHeaders" | "stamps">, revoked: Revocations): boolean => {
  if (revoked.ids.has(task.id)) return true
  if (task.stampedHeaders === null || revoked.stamps === undefined) return false
  for (const name of task.stampedHeaders) {
    const values = revoked.stamps.get(name)
    if (values === undefined) continue
    const own = task.stamps[name]
    return Array.isArray(own) ? own.some((value) => values.has(value)) : values.has(own)
  }
  return false
}
