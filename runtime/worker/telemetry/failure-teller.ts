/** Tells of failed attempts: a log line that says what failed, and the failure handlers of the application. */
import type { ErasedMethod } from "../../actor/actor.ts"
import type { Log } from "../../log/log.ts"
import type { Message, Undecodable } from "../../protocol/message.ts"
import type { JobRecord } from "../../protocol/record.ts"
import type { AttemptEnd } from "../../transport/lift/transport.ts"
import type { Held } from "../delivery/delivery.ts"
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

  settled(held: Held, { record }: AttemptEnd): void {
    if (record?.error === undefined || record.state === "succeeded") return
    this.#tell(record, held.run?.posting.message ?? held.delivery.message, held.method)
  }

  /** A job of another worker, which died with it. */
  lost(record: JobRecord): void {
    // Its method may not be known here: what that hides in log lines is not shown.
    this.#tell(record, record.message ?? { undecodable: "not kept", raw: new Uint8Array() }, undefined)
  }

  #tell(record: JobRecord, message: Message | Undecodable, method: ErasedMethod | undefined): void {
    if (this.#log.enabled("warn")) {
      const line = failureLine(record, message, method, this.#maxBody)
      this.#log.warn(line.message, line.fields)
    }
    void runFailureHandlers(this.#handlers, record, this.#log)
  }
}
