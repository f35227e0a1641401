/** Whether a task has expired. Only its `expires` is read, so that a task whose body cannot be decoded expires, too. */

/**
 * A task must start before its `expires`; at that very moment it is too late. A task without `expires` never expires.
 * `toleranceMs`: for a reader that learns of a start only some time after it.
 */
export const isExpired = (expires: number | null | undefined, now: number, toleranceMs = 0): boolean =>
  expires !== null && expires !== undefined && expires + toleranceMs <= now
