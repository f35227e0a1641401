/** A transport that can do the least that the contract allows: no due times, no priorities, no memory, no news. */

import type { Posting } from "../../runtime/protocol/message.ts"
import type { Transport, TransportCapabilities } from "../../runtime/transport/lift/transport.ts"
import { type Receipt, TransportError } from "../../runtime/transport/mod.ts"

export const least = (capabilities: TransportCapabilities): TransportCapabilities => ({
  ...capabilities,
  delay: false,
  front: false,
  priorityBands: 1,
  browse: false,
})

const unsupported = (what: string): Receipt => ({
  status: "failed",
  error: new TransportError("unsupported", `this transport has no ${what}`),
})

/** What is left of a transport that can do more. */
export const reduced = ({ name, capabilities, queue, onStatus, close }: Transport): Transport => {
  const { pull, claim, report, settle, extend } = queue
  const publishOne = async (posting: Posting): Promise<Receipt> => {
    if (posting.due !== undefined) return unsupported("due times")
    if (posting.level > 9) return unsupported("front")
    const [receipt] = await queue.publish([{ ...posting, level: 4 }])
    return receipt ?? unsupported("answer")
  }
  return {
    name,
    capabilities: least(capabilities),
    queue: { publish: (postings) => Promise.all(postings.map(publishOne)), pull, claim, report, settle, extend },
    onStatus,
    close,
  }
}
