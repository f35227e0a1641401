/** Which kind of object a value is. The caller checks its fields. */

/** An object of any kind: lists, bytes and instances of classes too. */
export const isObject = (value: unknown): value is object => typeof value === "object" && value !== null

/** An object that is neither a list nor bytes, such as a JSON object. */
export const isMap = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value) && !ArrayBuffer.isView(value)

/** A map with text keys among decoded values, in which a `Map` has other keys, and sets and times are objects too. */
export const isDecodedMap = (value: unknown): value is Readonly<Record<string, unknown>> =>
  isMap(value) && !(value instanceof Map) && !(value instanceof Set) && !(value instanceof Date)

/** A map that is no instance of a class. */
export const isPlainObject = (value: unknown): value is Record<string, unknown> => {
  if (typeof value !== "object" || value === null) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}

/** Why a key is refused that is not safe. */
export const unsafeKey = (key: string): string =>
  `the key ${key} is refused, because it could change JavaScript's own objects`

/** Whether an entry of a map is taken; `value.ts` says which are not. */
export const isSafeEntry = (key: string, value: unknown): boolean =>
  key !== "__proto__" && !(key === "constructor" && isObject(value) && Object.hasOwn(value, "prototype"))
