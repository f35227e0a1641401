/** The order of rows while the reader points at them. Pure. */

/**
 * The rows in the order in which they were shown, with their newest values. A row that no longer exists keeps its last
 * value.
 */
export const keepOrder = <T>(
  shown: ReadonlyArray<T>,
  next: ReadonlyArray<T>,
  key: (row: T) => string,
): ReadonlyArray<T> => {
  const newest = new Map(next.map((row) => [key(row), row]))
  return shown.map((row) => newest.get(key(row)) ?? row)
}
