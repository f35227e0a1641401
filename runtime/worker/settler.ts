/**
 * Stores how deliveries end, in batches, and does not give up while that makes sense: an unreachable transport is tried
 * again, a record that the transport can never take is replaced by one that says so.
 */
import type { Log } from "../log.ts"
import type { JobRecord } from "../protocol/record.ts"
import { type Queue, type Settled, type Settlement, TransportError } from "../transport.ts"
import { Batcher } from "./batcher.ts"

/** How a settlement ended: `lost` when another delivery, or nobody, has the job now. */
export type Settling = "settled" | "superseded" | "lost"

const FIRST_WAIT_MS = 100
const LONGEST_WAIT_MS = 5_000

export class Settler {
  readonly #batcher: Batcher<Settlement, Settled>
  readonly #log: Log

  constructor(queue: Queue, log: Log) {
    this.#batcher = new Batcher((items) => queue.settle(items))
    this.#log = log
  }

  /** Resolves when it is over. `signal` ends trying: what is not settled then is delivered again. */
  async settle(settlement: Settlement, signal: AbortSignal): Promise<Settling> {
    let current = settlement
    let wait = FIRST_WAIT_MS
    for (let shrunk = 0; ; ) {
      const settled = await this.#batcher.add(current).catch(failedOf)
      if (settled.status === "settled" || settled.status === "gone") return "settled"
      if (settled.status === "superseded") return "superseded"
      const { error } = settled
      const smaller =
        error.reason === "too-large" || error.reason === "invalid" ? shrink(current, error, shrunk++) : undefined
      if (smaller !== undefined) {
        current = smaller
        continue
      }
      if (error.reason !== "unavailable" || signal.aborted) {
        this.#log.error("an outcome could not be stored; the task will be delivered again", {
          job: current.record?.id,
          cause: error.message,
        })
        return "lost"
      }
      await pause(wait, signal)
      wait = Math.min(LONGEST_WAIT_MS, wait * 2)
    }
  }
}

const failedOf = (cause: unknown): Settled => ({
  status: "failed",
  error: cause instanceof TransportError ? cause : new TransportError("internal", String(cause), { cause }),
})

const pause = (ms: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, ms)
    signal.addEventListener(
      "abort",
      () => {
        clearTimeout(timer)
        resolve()
      },
      { once: true },
    )
  })

/**
 * What to settle instead of a record that the transport refuses for good: first without its result, as failed; then
 * without its message and traceback, which is small whatever the job was.
 */
const shrink = (settlement: Settlement, error: TransportError, shrunk: number): Settlement | undefined => {
  const { record } = settlement
  if (record === undefined || shrunk > 1) return undefined
  const tooLarge = error.reason === "too-large"
  const { result: _result, progress: _progress, followUps: _followUps, successor: _successor, ...kept } = record
  const failed: JobRecord = {
    ...kept,
    state: "failed",
    endedAt: record.endedAt ?? record.timeline.at(-1)?.at ?? record.submittedAt,
    timeline: record.timeline.map((transition, at) =>
      at === record.timeline.length - 1 ? { ...transition, state: "failed", reason: "result-too-large" } : transition,
    ),
    error:
      record.state === "succeeded"
        ? {
            name: tooLarge ? "ResultTooLarge" : "UnserialisableResult",
            message: tooLarge
              ? `${error.message}; store large results elsewhere and return where they are`
              : error.message,
            reason: tooLarge ? "result-too-large" : "result-unserialisable",
          }
        : {
            ...(record.error ?? { name: "Error", message: error.message }),
            reason: record.error?.reason ?? "record-too-large",
          },
  }
  if (shrunk === 0) return { token: settlement.token, record: failed, then: settlement.then }
  const { message: _message, raw: _raw, meta: _meta, ...small } = failed
  const { traceback: _traceback, ...brief } = failed.error ?? {
    name: "Error",
    message: error.message,
    reason: "record-too-large",
  }
  return {
    token: settlement.token,
    record: { ...small, error: { ...brief, message: brief.message.slice(0, 1_000) } },
    then: settlement.then,
  }
}
