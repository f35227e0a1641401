/** Whether a task may still start. Reads its `expires` and nothing else: a task whose body cannot be decoded expires, too. */

/**
 * The one rule: a task must start before its `expires`; at that moment it is too late. One without `expires` is never too
 * late. `toleranceMs` is for a reader that hears of a start only some time after it.
 */
export const isExpired = (expires: number | null | undefined, now: number, toleranceMs = 0): boolean =>
  expires !== null && expires !== undefined && expires + toleranceMs <= now
