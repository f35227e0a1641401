/**
 * Publishes follow-ups of a stored outcome again: the process that stored it may have died before it published them.
 */
import type { Connection } from "../../connection/connection.ts"
import type { AddressedTask } from "../../protocol/message.ts"

/**
 * Publishes the postings whose job does not exist yet. One that the transport refuses for good is left out. Fails as
 * the transport does otherwise.
 */
export const postMissing = async ({ jobs }: Connection, postings: ReadonlyArray<AddressedTask>): Promise<void> => {
  for (const posting of postings) {
    if ((await jobs.find(posting.id)) !== undefined) continue
    const [receipt] = await jobs.publish([posting])
    if (receipt?.status === "failed" && receipt.error.retryable) throw receipt.error
  }
}
