/**
 * Claims a job, and asks again where the answer was lost: a claim that is sent again counts once. Then says what follows
 * from the answer.
 */

import type { Batcher } from "../../async/batcher.ts"
import { asTransportError } from "../../errors.ts"
import * as verdict from "../../jobs/outcome/verdict.ts"
import type { Log } from "../../log/log.ts"
import { claimed, type JobError, type JobRecord } from "../../protocol/record.ts"
import type { AttemptEnd, AttemptStart, StartAnswer } from "../../transport/lift/transport.ts"

/** A longer outage is not waited for: the delivery is given back, or its lease lapses. */
const TRIES = 3
const WAIT_MS = 100

/** How long a task that could not be claimed waits before it is delivered again. */
export const UNCLAIMED_DELAY_MS = 1_000

/** Resolves with the answer, or with the last failure. `stopped` ends trying. Never rejects. */
export const claimWithRetries = async (
  claims: Batcher<AttemptStart, StartAnswer>,
  claim: AttemptStart,
  stopped: () => boolean,
): Promise<StartAnswer> => {
  for (let tried = 1; ; tried++) {
    // A transport that is out of reach is no fault of ours, nor of the job.
    const answer = await claims
      .add(claim)
      .catch((cause: unknown): StartAnswer => ({ status: "failed", error: asTransportError(cause) }))
    if (answer.status !== "failed" || answer.error.reason !== "unavailable" || tried === TRIES || stopped())
      return answer
    await new Promise((resolve) => setTimeout(resolve, tried * WAIT_MS))
  }
}

/** The attempt that claimed. */
export interface ClaimingAttempt {
  /** With the record that it waited with. */
  readonly waiting: verdict.Attempt
  readonly begins: Parameters<typeof claimed>[1]
  /** Whether this is the job's very first delivery. */
  readonly fresh: boolean
}

/** The record to go on with, as it was before the claim, or how the delivery is settled where the job is not ours. */
export const recordAfterClaim = (
  answer: StartAnswer,
  { waiting, begins, fresh }: ClaimingAttempt,
  log: Log,
): JobRecord | SettledWithoutRun => {
  switch (answer.status) {
    case "superseded":
      return new SettledWithoutRun(NOTHING_TO_SETTLE)
    case "failed": {
      const { message: cause, outcome } = answer.error
      log.warn("a job could not be claimed", { job: waiting.posting.id, cause })
      // It never ran: a claim that may be stored all the same is closed, where it is known what it would have replaced.
      const doubtful = fresh && outcome === "unknown"
      const attempt = { ...waiting, record: claimed(waiting.record, begins) }
      return new SettledWithoutRun(verdict.handedBack(attempt, doubtful, UNCLAIMED_DELAY_MS))
    }
    case "finished":
      // Somebody decided it and may have died before its follow-ups were out: publishing is idempotent.
      return new SettledWithoutRun({
        token: waiting.token,
        ...(answer.record.followUps === undefined ? {} : { followUps: answer.record.followUps }),
        then: { kind: "ack" },
      })
    case "claimed":
      return answer.record ?? waiting.record
  }
}

/** The error of a job that was claimed `claims` times without an outcome. */
export const workerLost = (claims: number): JobError => {
  const often = claims === 1 ? "its worker died" : `its worker died at least ${claims} times`
  return { name: "WorkerLost", message: `${often} while it ran`, reason: "worker-lost" }
}

/** Nothing to settle: the delivery is not ours any more. */
export const NOTHING_TO_SETTLE = undefined

/** Ends the way of a delivery before its handler, with a settlement. */
export class SettledWithoutRun {
  readonly settlement: AttemptEnd | undefined
  constructor(settlement: AttemptEnd | undefined) {
    this.settlement = settlement
  }
}
