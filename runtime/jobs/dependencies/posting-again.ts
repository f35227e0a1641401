/** Posts what follows from an outcome, where whoever stored that outcome may have died before. */
import type { Connection } from "../../connection/connection.ts"
import type { AddressedTask } from "../../protocol/message.ts"

/** What is known of is left alone. Fails as the transport does, unless it can never take a posting: that is left out. */
export const postMissing = async ({ jobs }: Connection, postings: ReadonlyArray<AddressedTask>): Promise<void> => {
  for (const posting of postings) {
    if ((await jobs.find(posting.id)) !== undefined) continue
    const [receipt] = await jobs.publish([posting])
    if (receipt?.status === "failed" && receipt.error.retryable) throw receipt.error
  }
}
