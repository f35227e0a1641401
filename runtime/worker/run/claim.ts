/**
 * Claims a job before its handler runs, repeats the claim until the transport answers (the same claim sent twice counts
 * once), and decides what follows from the answer. Asks whether a delivery still has its job.
 */

import * as Effect from "effect/Effect"
import type { Batcher } from "../../async/batcher.ts"
import { OUTAGE, untilConnectedEach } from "../../async/outage-waits.ts"
import type { Connectivity } from "../../connection/connectivity.ts"
import { asTransportError } from "../../errors.ts"
import * as settlement from "../../jobs/outcome/settlement.ts"
import type { Log } from "../../log/log.ts"
import { claimed, type JobError, type JobRecord } from "../../protocol/record.ts"
import { isTerminal } from "../../protocol/state.ts"
import type { Claim, ClaimAnswer, Jobs, Settlement } from "../../transport/job-store/transport.ts"
import type { ActiveDelivery } from "../active-delivery.ts"

/** Delay after which a task that could not be claimed is delivered again. */
export const UNCLAIMED_DELAY_MS = 1_000

/** Delay after which a suspect job that must wait for another one is delivered again. */
export const SUSPECT_DELAY_MS = 1_000

/** What waits for the transport needs of the worker. */
export interface Reaching {
  readonly connectivity: Pick<Connectivity, "untilConnected">
}

const failed = (cause: unknown): ClaimAnswer => ({ status: "failed", error: asTransportError(cause) })

/**
 * Claims, again and again while the transport cannot be reached: a claim whose answer was lost may be stored, and would count
 * this worker as dead if the task were just given back. Succeeds with the last failure if the delivery is ended meanwhile.
 */
export const claimWithRetries = (
  { claims, connectivity }: Reaching & { readonly claims: Batcher<Claim, ClaimAnswer> },
  claim: Claim,
  active: ActiveDelivery,
): Effect.Effect<ClaimAnswer> => {
  const asked = Effect.flatMap(
    Effect.promise(() => claims.add(claim).catch(failed)),
    (answer) =>
      answer.status === "failed" && answer.error.reason === "unavailable"
        ? Effect.fail(answer)
        : Effect.succeed(answer),
  )
  const schedule = untilConnectedEach(OUTAGE, (ms) => connectivity.untilConnected(ms, active.ended))
  const answered = Effect.retry(asked, { schedule, while: () => active.stop === undefined })
  return Effect.catch(answered, (answer) => Effect.succeed(answer))
}

/** What is known of the attempt that asked for the claim. */
export interface ClaimingAttempt {
  /** The attempt with the record as it was before the claim. */
  readonly waiting: settlement.Attempt
  readonly begins: Parameters<typeof claimed>[1]
  /** Whether this is the job's very first delivery. */
  readonly fresh: boolean
}

/**
 * The record to continue with, as it was before the claim; or how the delivery is settled where the job must not run
 * here.
 */
export const recordAfterClaim = (
  answer: ClaimAnswer,
  { waiting, begins, fresh }: ClaimingAttempt,
  log: Log,
): JobRecord | SettledWithoutRun => {
  switch (answer.status) {
    case "superseded":
      return new SettledWithoutRun(NOTHING_TO_SETTLE)
    case "suspect":
      return new SettledWithoutRun({ token: waiting.token, then: { kind: "hand-back", delay: SUSPECT_DELAY_MS } })
    case "taken":
      return new SettledWithoutRun(settlement.duplicate(waiting, answer.by))
    case "failed": {
      const { message: cause, outcome } = answer.error
      log.warn("a job could not be claimed", { job: waiting.posting.id, cause })
      // The handler never ran. The claim may have been stored although its answer was lost, so it is closed again; that
      // is possible only where it is known which record it would have replaced.
      const doubtful = fresh && outcome === "unknown"
      const attempt = { ...waiting, record: claimed(waiting.record, begins) }
      return new SettledWithoutRun(settlement.handedBack(attempt, doubtful, UNCLAIMED_DELAY_MS))
    }
    case "finished":
      // The job has its outcome already, but the worker that stored it may have died before it published the
      // follow-ups. Publishing them again is idempotent.
      return new SettledWithoutRun({
        token: waiting.token,
        ...(answer.record.followUps === undefined ? {} : { followUps: answer.record.followUps }),
        then: { kind: "ack" },
      })
    case "started":
      return answer.record ?? waiting.record
  }
}

/** The error of a job that was claimed `claims` times without an outcome. */
export const workerLost = (claims: number): JobError => {
  const often = claims === 1 ? "its worker died" : `its worker died at least ${claims} times`
  return { name: "WorkerLost", message: `${often} while it ran`, reason: "worker-lost" }
}

/** There is nothing to settle, because another worker has the job. */
export const NOTHING_TO_SETTLE = undefined

/** The end of a delivery whose handler is not called, with the settlement to store instead. */
export class SettledWithoutRun {
  readonly settlement: Settlement | undefined
  constructor(settlement: Settlement | undefined) {
    this.settlement = settlement
  }
}

/**
 * Whether no other delivery has claimed the job, and nothing decided it; `undefined` while that cannot be asked. Never
 * rejects.
 */
export const isOurs = async (jobs: Pick<Jobs, "find">, active: ActiveDelivery): Promise<boolean | undefined> => {
  try {
    const found = await jobs.find(active.id ?? "")
    if (found === undefined) return true
    const { run, state, fence } = found.record
    return run < active.jobRun || (run === active.jobRun && !isTerminal(state) && fence <= active.delivery.fence)
  } catch {
    return undefined
  }
}

/** Whether the job was cancelled, and its steps are to be reverted; `false` while that cannot be asked. Never rejects. */
export const isCancelled = async (jobs: Pick<Jobs, "find">, { id = "", jobRun }: ActiveDelivery): Promise<boolean> => {
  const found = await jobs.find(id).catch(() => undefined)
  return found?.record.run === jobRun && found.record.reverting !== undefined
}
