/** Answers as JSON. */

export type Headers = Readonly<Record<string, string>>

/** Integers beyond 2⁵³ have no exact number in JSON's usual readers: they are told as text. */
const withoutBigints = (_key: string, value: unknown): unknown => (typeof value === "bigint" ? value.toString() : value)

/** A value as the JSON body of an answer. */
export const answer = <T>(value: T, status = 200, headers: Headers = {}): Response => {
  let text: string
  try {
    text = JSON.stringify(value)
  } catch {
    text = JSON.stringify(value, withoutBigints)
  }
  return new Response(text, {
    status,
    headers: {
      "content-type": "application/json",
      "cache-control": "no-store",
      "x-content-type-options": "nosniff",
      ...headers,
    },
  })
}
