/** The order of rows that a hand may be on. Pure. */

/** The rows that were shown, with their newest values, in the order in which they stood. What is not there any more stays as it was. */
export const keepOrder = <T>(
  shown: ReadonlyArray<T>,
  next: ReadonlyArray<T>,
  key: (row: T) => string,
): ReadonlyArray<T> => {
  const newest = new Map(next.map((row) => [key(row), row]))
  return shown.map((row) => newest.get(key(row)) ?? row)
}
