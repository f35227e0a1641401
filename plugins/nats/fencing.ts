/** Who may write about a job: compares what is stored with who wants to write. Pure. */
import type { Posting } from "../../runtime/protocol/message.ts"
import { isTakenEarly, type JobRecord } from "../../runtime/protocol/record.ts"
import { isTerminal } from "../../runtime/protocol/state.ts"

/**
 * `write`: nothing stands against it. `done`: this very write is stored already, its acknowledgement was lost.
 * `superseded`: a newer delivery or somebody else's decision stands.
 */
export type Verdict = "write" | "done" | "superseded"

type Position = Pick<Posting, "id" | "run" | "retries" | "hops">

/** Whether a publish key carries the job on from a posting: deliveries of that posting are over then. */
export const isAhead = (key: string, { id, run, retries, hops = 0 }: Position): boolean => {
  const [keyRun = 0, keyRetries = 0, keyHops = 0] = key
    .slice(id.length + 1)
    .split("/")
    .map(Number)
  if (keyRun !== run) return keyRun > run
  return keyRetries === retries ? keyHops > hops : keyRetries > retries
}

/** Whether the delivery with this fence may store a record. */
export const judgeRecord = (stored: JobRecord | undefined, record: JobRecord, fence: string): Verdict => {
  if (stored === undefined) return "write"
  if (stored.run > record.run || stored.fence > fence) return "superseded"
  // The record ends a run by beginning the next one: only a run that nobody has ended can be.
  if (stored.run < record.run) return isTerminal(stored.state) ? "superseded" : "write"
  if (stored.fence === fence) {
    if (!isTerminal(stored.state)) return "write"
    return stored.state === record.state ? "done" : "superseded"
  }
  return isTerminal(stored.state) ? "superseded" : "write"
}

/** Whether the delivery with this fence may begin a posting. `finished`: its run is over, or goes on without it. */
export const judgeClaim = (
  stored: JobRecord | undefined,
  posting: Position,
  fence: string,
): "claim" | "finished" | "superseded" => {
  if (stored === undefined || stored.run < posting.run) return "claim"
  if (stored.run > posting.run || isTerminal(stored.state)) return "finished"
  if (isTakenEarly(stored, posting)) return "finished"
  if (stored.successor !== undefined && isAhead(stored.successor, posting)) return "finished"
  return stored.fence > fence ? "superseded" : "claim"
}
