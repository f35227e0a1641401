/** A submission with an id of its own may be a repetition: the same task again is a duplicate, another is refused. */
import type { Connection } from "../../connection/connection.ts"
import { asTransportError, CallboardError } from "../../errors.ts"
import { type Answer, publishFailed } from "../../jobs/receipt.ts"
import type { AddressedTask } from "../../protocol/message.ts"

/** What the task is answered with if there is a job with its id. Never rejects. */
export const answerOfEarlier = async (connection: Connection, posting: AddressedTask): Promise<Answer | undefined> => {
  let found: Awaited<ReturnType<Connection["jobs"]["find"]>>
  try {
    found = await connection.jobs.find(posting.id)
  } catch (cause) {
    return publishFailed(posting.id, asTransportError(cause), "none")
  }
  if (found === undefined) return undefined
  const { record } = found
  const sameName =
    record.task === posting.message.headers["task"] && record.meth === (posting.message.headers["meth"] ?? null)
  const body = record.message?.body
  const sameBody = body === undefined || Buffer.compare(body, posting.message.body) === 0
  if (!sameName || !sameBody || record.tombstone) {
    return new CallboardError("job-exists", `there is another job with the id ${posting.id}`, {
      id: posting.id,
      field: "id",
    })
  }
  const { durability } = connection.transport.capabilities
  const { state } = record
  const told = state === "scheduled" || state === "deferred" ? state : "queued"
  return { id: posting.id, state: told, durability, duplicate: true }
}
