/** Answers as JSON. */

export type Headers = Readonly<Record<string, string>>

/** Integers beyond 2⁵³ have no exact number in JSON's usual readers: they are told as text. */
const withoutBigints = (_key: string, value: unknown): unknown => (typeof value === "bigint" ? value.toString() : value)

/** A value as JSON text, also where it came over another wire with values that JSON has no words for. */
export const jsonOf = <T>(value: T): string => {
  try {
    return JSON.stringify(value)
  } catch {
    return JSON.stringify(value, withoutBigints)
  }
}

/** A value as the JSON body of an answer. */
export const answer = <T>(value: T, status = 200, headers: Headers = {}): Response =>
  new Response(jsonOf(value), {
    status,
    headers: {
      "content-type": "application/json",
      "cache-control": "no-store",
      "x-content-type-options": "nosniff",
      ...headers,
    },
  })
