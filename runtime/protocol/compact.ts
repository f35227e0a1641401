/** Objects of optional fields: a field without a value is absent, and never `undefined`. */

type MayBeAbsent<T> = { [Name in keyof T]-?: undefined extends T[Name] ? Name : never }[keyof T]

/** The same fields, those that may be `undefined` as optional ones. */
export type Compact<T> = {
  [Name in Exclude<keyof T, MayBeAbsent<T>>]: T[Name]
} & { [Name in MayBeAbsent<T>]?: Exclude<T[Name], undefined> }

/** The fields that have a value. */
export const compact = <const T extends object>(fields: T): Compact<T> => {
  const kept: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(fields)) if (value !== undefined) kept[name] = value
  return kept as Compact<T>
}
