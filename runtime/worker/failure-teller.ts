/** Tells of failed attempts: a log line that says what failed, and the failure handlers of the application. */
import type { Log } from "../log.ts"
import type { Settlement } from "../transport.ts"
import type { Held } from "./delivery.ts"
import { type FailureHandler, runFailureHandlers } from "./failure-handlers.ts"
import { failureLine } from "./failure-line.ts"
import type { WorkerObserver } from "./observer.ts"

export class FailureTeller implements WorkerObserver {
  readonly #log: Log
  readonly #handlers: ReadonlyArray<FailureHandler>
  readonly #maxBody: number

  /** `maxBody`: largest body that is read for its arguments, in bytes. */
  constructor(log: Log, handlers: ReadonlyArray<FailureHandler>, maxBody: number) {
    this.#log = log
    this.#maxBody = maxBody
    this.#handlers = handlers
  }

  settled(held: Held, { record }: Settlement): void {
    if (record?.error === undefined || record.state === "succeeded") return
    if (this.#log.enabled("warn")) {
      const message = held.run?.posting.message ?? held.delivery.message
      const line = failureLine(record, message, held.method, this.#maxBody)
      this.#log.warn(line.message, line.fields)
    }
    void runFailureHandlers(this.#handlers, record, this.#log)
  }
}
