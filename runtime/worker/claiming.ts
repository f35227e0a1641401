/** Claims a job, and asks again where the answer was lost: a claim that is sent again counts once. */
import { asTransportError } from "../errors.ts"
import type { Claim, Claimed } from "../transport.ts"
import type { Batcher } from "./batcher.ts"

/** A longer outage is not waited for: the delivery is given back, or its lease lapses. */
const TRIES = 3
const WAIT_MS = 100

/** Resolves with the answer, or with the last failure. `stopped` ends trying. Never rejects. */
export const insist = async (
  claims: Batcher<Claim, Claimed>,
  claim: Claim,
  stopped: () => boolean,
): Promise<Claimed> => {
  for (let tried = 1; ; tried++) {
    // A transport that is out of reach is no fault of ours, nor of the job.
    const answer = await claims
      .add(claim)
      .catch((cause: unknown): Claimed => ({ status: "failed", error: asTransportError(cause) }))
    if (answer.status !== "failed" || answer.error.reason !== "unavailable" || tried === TRIES || stopped())
      return answer
    await new Promise((resolve) => setTimeout(resolve, tried * WAIT_MS))
  }
}
