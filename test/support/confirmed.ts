/**
 * Submits again while the transport does not confirm the task in time, as callers may: over HTTP each submission is answered within
 * two seconds, and the server of a test may be slower on a busy machine. Settles as the first other answer does.
 */
import { CallboardError } from "callboard"
import { eventually } from "./servers/process.ts"

export const confirmed = async <A>(submit: () => Promise<A>): Promise<A> => {
  const { answer } = await eventually(
    async () => {
      const answer = submit()
      const error: unknown = await answer.then(
        () => undefined,
        (cause: unknown) => cause,
      )
      const isUnconfirmed = error instanceof CallboardError && error.code === "transport-unavailable"
      // In an object, since the promise may be a rejected one.
      return !isUnconfirmed && { answer }
    },
    { message: "the submission is confirmed or refused" },
  )
  return answer
}
