/** Objects of optional fields: a field without a value is absent, and never `undefined`. */

type MayBeAbsent<T> = { [Name in keyof T]-?: undefined extends T[Name] ? Name : never }[keyof T]

/** The same fields, those that may be `undefined` as optional ones. */
type Compact<T> = {
  [Name in Exclude<keyof T, MayBeAbsent<T>>]: T[Name]
} & { [Name in MayBeAbsent<T>]?: Exclude<T[Name], undefined> }

/** The fields that have a value. */
export const compact = <const T extends object>(fields: T): Compact<T> =>
  pick(fields, Object.keys(fields) as Array<keyof T>)

/** Those of the named fields that have a value, in the order of the names. */
export const pick = <T extends object, Name extends keyof T>(
  fields: T,
  names: ReadonlyArray<Name>,
): Compact<Pick<T, Name>> => {
  const kept: Partial<T> = {}
  for (const name of names) {
    const value = fields[name]
    if (value !== undefined) kept[name] = value
  }
  return kept as Compact<Pick<T, Name>>
}

/** What is made of a value, if there is one. */
export const ifGiven = <A, B>(value: A | undefined, make: (value: A) => B): B | undefined =>
  value === undefined ? undefined : make(value)
