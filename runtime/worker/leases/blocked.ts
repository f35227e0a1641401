/**
 * The last resort for a handler that blocks the main thread past its hard limit: its job is recorded as timed out, the
 * other tasks of the worker are given back, uncounted, and the process ends. Runs in the lease thread.
 */

import { writeSync } from "node:fs"
import { lostJobFailure } from "../../jobs/outcome/lost-job.ts"
import { type Log, type LogSettings, makeLog } from "../../log/log.ts"
import { type JobError, type JobRecord, started } from "../../protocol/record.ts"
import { isTerminal } from "../../protocol/state.ts"
import type { AttemptEnd, Transport } from "../../transport/lift/transport.ts"
import type { RunDetails } from "./lease-protocol.ts"

/**
 * Longest wait for the transport: a process whose main thread is blocked must end, even if the transport does not
 * answer.
 */
const PATIENCE_MS = 5_000

/**
 * Writes directly to standard output, because Bun routes the output of a thread through the main thread, which is
 * blocked.
 */
export const lastWords = (settings: LogSettings = { level: "none" }): Log =>
  makeLog(settings, (...parts) => writeSync(1, `${parts.join(" ")}\n`)).with({ logger: "callboard.worker" })

export const endBlocked = async (
  open: Promise<Transport>,
  /** The run that blocks the process at a time, in milliseconds since the epoch, as far as it is known. */
  runAt: (now: number) => RunDetails | undefined,
  worker: string,
  held: ReadonlyArray<string>,
  log: Log,
): Promise<void> => {
  const run = runAt(Date.now())
  log.error("a handler blocks this worker past its hard limit: the process ends, and its other jobs run elsewhere", {
    job: run?.id ?? "unknown",
  })
  const work = (async () => {
    const transport = await open
    const settlement = run === undefined ? undefined : await timedOut(transport, run, worker)
    const others = held.filter((token) => token !== run?.token)
    const back = others.map((token): AttemptEnd => ({ token, then: { kind: "release", delay: 0 } }))
    await transport.jobs.end([...(settlement === undefined ? [] : [settlement]), ...back])
  })()
  await Promise.race([
    work.catch((cause: unknown) => log.error("the last settlement failed", { cause: String(cause) })),
    new Promise((resolve) => setTimeout(resolve, PATIENCE_MS)),
  ])
}

const timedOut = async (transport: Transport, run: RunDetails, worker: string): Promise<AttemptEnd | undefined> => {
  const found = await transport.jobs.find(run.id)
  if (found === undefined || isTerminal(found.record.state)) return undefined
  const error: JobError = {
    name: "TimeLimitExceeded",
    message: `it blocked its worker for longer than its hard limit of ${run.hardSeconds} s`,
    reason: "timeout",
  }
  const { record } = found
  const began: JobRecord =
    record.state === "started"
      ? { ...record, fence: run.fence }
      : started(record, { fence: run.fence, worker, at: run.startedAt })
  return lostJobFailure(began, error, {
    token: run.token,
    fence: run.fence,
    now: Date.now(),
    keepMs: run.keepMs,
    ...(run.rejects ? { dead: error.reason } : {}),
  })
}
