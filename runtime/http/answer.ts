/** Answers as JSON. */

export type Headers = Readonly<Record<string, string>>

/** A value as the JSON body of an answer. */
export const answer = <T>(value: T, status = 200, headers: Headers = {}): Response =>
  new Response(JSON.stringify(value), {
    status,
    headers: {
      "content-type": "application/json",
      "cache-control": "no-store",
      "x-content-type-options": "nosniff",
      ...headers,
    },
  })
