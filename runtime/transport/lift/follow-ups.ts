/** Finds the follow-ups that still have to be published. Publish keys cannot tell: drivers forget them after a while. */
import { type AddressedTask, isUndecodable } from "../../protocol/message.ts"
import type { Known } from "../known.ts"
import { orderOfMessage } from "./attempt.ts"
import type { BatchedDriver } from "./batching.ts"
import { decodeContent, decodeStored } from "./codec.ts"
import { isPosted, type KnownJob } from "./judge.ts"

const knownJobOf = (known: Known | undefined): KnownJob | undefined => {
  if (known === undefined) return undefined
  const message = known.task && decodeContent(known.task.content)
  return {
    ...(known.record === undefined ? {} : { record: decodeStored(known.record) }),
    ...(message === undefined || isUndecodable(message) ? {} : { task: orderOfMessage(message) }),
  }
}

/** The follow-ups of the job `owner` that are not published yet. */
export const missingFollowUps = async (
  batched: BatchedDriver,
  owner: string,
  followUps: ReadonlyArray<AddressedTask>,
): Promise<ReadonlyArray<AddressedTask>> => {
  if (followUps.length === 0) return followUps
  const known = await Promise.all(followUps.map(({ id }) => batched.read(id, "all")))
  return followUps.filter((posting, at) => !isPosted(posting, owner, knownJobOf(known[at])))
}
