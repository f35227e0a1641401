/** Follow-ups that may be out already: those that are known are left out, since no driver remembers its keys for ever. */
import { type AddressedTask, isUndecodable } from "../../protocol/message.ts"
import type { Known } from "../known.ts"
import { orderOfMessage } from "./attempt.ts"
import { decodeStored, messageIn } from "./codec.ts"
import type { Asking } from "./commits.ts"
import { isKnown, type Kept } from "./judge.ts"

const keptOf = (known: Known | undefined): Kept | undefined => {
  if (known === undefined) return undefined
  const message = known.task && messageIn(known.task.content)
  return {
    ...(known.record === undefined ? {} : { record: decodeStored(known.record) }),
    ...(message === undefined || isUndecodable(message) ? {} : { task: orderOfMessage(message) }),
  }
}

/** Those follow-ups of a job that are not known. `owner` is the job that owes them. */
export const missing = async (
  asking: Asking,
  owner: string,
  followUps: ReadonlyArray<AddressedTask>,
): Promise<ReadonlyArray<AddressedTask>> => {
  if (followUps.length === 0) return followUps
  const known = await Promise.all(followUps.map(({ id }) => asking.read(id, "all")))
  return followUps.filter((posting, at) => !isKnown(posting, owner, keptOf(known[at])))
}
