/** Tells of failed attempts: a log line that says what failed, and the failure handlers of the application. */
import type { Log } from "../log.ts"
import { isUndecodable } from "../protocol/message.ts"
import type { Settlement } from "../transport.ts"
import type { Held } from "./delivery.ts"
import { type FailureHandler, goesOn, runFailureHandlers } from "./failure-handlers.ts"
import { failureFields } from "./failure-line.ts"
import type { WorkerObserver } from "./observer.ts"

export class FailureTeller implements WorkerObserver {
  readonly #log: Log
  readonly #handlers: ReadonlyArray<FailureHandler>

  constructor(log: Log, handlers: ReadonlyArray<FailureHandler>) {
    this.#log = log
    this.#handlers = handlers
  }

  settled(held: Held, { record }: Settlement): void {
    if (record?.error === undefined || record.state === "succeeded") return
    if (this.#log.enabled("warn")) {
      const { message } = held.delivery
      const fields = isUndecodable(message)
        ? { job: record.id, queue: record.queue, reason: record.dead }
        : failureFields(record, held.run?.posting.message ?? message, held.run?.method.redact ?? false)
      const due = record.dueAt === undefined ? "now" : `at ${new Date(record.dueAt).toISOString()}`
      const next = goesOn(record) ? `; it is tried again ${due}` : ""
      this.#log.warn(`${record.name} failed: ${record.error.name}: ${record.error.message}${next}`, fields)
    }
    void runFailureHandlers(this.#handlers, record, this.#log)
  }
}
