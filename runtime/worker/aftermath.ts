/** What a worker does after a delivery was settled: it counts, and tells whoever wants to know. */
import type { EventSender } from "../events.ts"
import type { Log } from "../log.ts"
import { isUndecodable } from "../protocol/message.ts"
import type { JobRecord } from "../protocol/record.ts"
import type { Settlement } from "../transport.ts"
import type { Held } from "./delivery.ts"
import { type FailureHandler, goesOn, runFailureHandlers } from "./failure-handlers.ts"
import { failureFields } from "./failure-line.ts"

export interface AftermathOptions {
  readonly log: Log
  readonly events: EventSender
  /** Run in order after each failed attempt. */
  readonly onFailure: ReadonlyArray<FailureHandler>
  /** Called once per settled job. */
  readonly onSettled: ((settlement: Settlement) => void) | undefined
}

export class Aftermath {
  readonly #options: AftermathOptions
  /** Settled, whatever came of it. */
  processed = 0
  /** Failed for good. */
  failed = 0
  handedBack = 0
  /** Outcomes that were refused, because another delivery or a cancellation has the job. */
  superseded = 0

  constructor(options: AftermathOptions) {
    this.#options = options
  }

  settled(held: Held, settlement: Settlement): void {
    if (settlement.then.kind === "release") {
      this.handedBack++
      return
    }
    this.processed++
    const { record } = settlement
    try {
      if (record?.error !== undefined && record.state !== "succeeded") this.#tellFailure(held, record)
      this.#options.onSettled?.(settlement)
    } catch (cause) {
      // The application's own affair: the job is settled, and its slot must come back.
      this.#options.log.error("onSettled failed", { job: held.id, cause: String(cause) })
    }
  }

  /** An outcome that came too late. `record`: what would have been stored, where it came as far as that. */
  refused(held: Held, record: JobRecord | undefined): void {
    this.superseded++
    const of = held.run?.record
    this.#options.log.debug("an outcome was refused: another delivery, or a cancellation, has the job", {
      job: held.id,
    })
    this.#options.events.tell("task-superseded", {
      uuid: held.id ?? "",
      name: record?.name ?? of?.name ?? "",
      queue: held.delivery.queue,
      attempt: record?.attempt ?? of?.attempt ?? 0,
      /** The state that was refused; null for an attempt that was told so before it had one. */
      state: record?.state ?? null,
    })
  }

  #tellFailure(held: Held, record: JobRecord): void {
    const { log, onFailure } = this.#options
    const willRetry = goesOn(record)
    if (!willRetry) this.failed++
    if (log.enabled("warn")) {
      const { message } = held.delivery
      const fields = isUndecodable(message)
        ? { job: record.id, queue: record.queue, reason: record.dead }
        : failureFields(record, held.run?.posting.message ?? message, held.run?.method.redact ?? false)
      const due = record.dueAt === undefined ? "now" : `at ${new Date(record.dueAt).toISOString()}`
      const next = willRetry ? `; it is tried again ${due}` : ""
      log.warn(`${record.name} failed: ${record.error?.name}: ${record.error?.message}${next}`, fields)
    }
    void runFailureHandlers(onFailure, record, log)
  }
}
