/**
 * Tells in the record of a job that it ran here, although a decision from outside (a cancellation, a purge) ended the job
 * before its attempt was known to have begun. The decision stands.
 */
import { NO_FENCE } from "../../protocol/outside.ts"
import { step } from "../../protocol/record.ts"
import { isTerminal } from "../../protocol/state.ts"
import type { Jobs } from "../../transport/lift/transport.ts"
import type { Run } from "../delivery/in-flight.ts"

/** Another decision may change the record meanwhile, but hardly more often. */
const TRIES = 3

/**
 * `refused`: the handler had ended, and its outcome was refused; otherwise it was stopped. Fails as the transport does. A
 * record that knows of the attempt already, or belongs to another run or worker, is left as it is.
 */
export const noteLateDecision = async (jobs: Jobs, run: Run, refused: boolean): Promise<void> => {
  const { attempt, worker } = run.record
  for (let tried = 0; tried < TRIES; tried++) {
    const found = await jobs.find(run.posting.id)
    if (found === undefined) return
    const { record, revision } = found
    const wasDecided = record.run === run.posting.run && isTerminal(record.state) && record.fence === NO_FENCE
    if (!wasDecided || record.tombstone) return
    const isKnown = record.timeline.some((each) => each.run === record.run && each.attempt === attempt)
    if (isKnown && !refused) return
    const by = worker === undefined ? {} : { worker }
    const reason = refused ? "outcome-refused" : "stopped"
    const noted = {
      ...step(record, { at: run.clock.now(), state: record.state, reason, attempt, ...by }),
      ...by,
      attempt: Math.max(record.attempt, attempt),
      startedAt: record.startedAt ?? run.startedAt,
    }
    const [decided] = await jobs.decide([{ id: record.id, expect: revision, record: noted }])
    if (decided?.status !== "conflict") return
  }
}
