/** Tells what happens to tasks as events. */
import type { EventSender } from "../events.ts"
import type { JobRecord } from "../protocol/record.ts"
import type { Held } from "./delivery.ts"
import type { WorkerObserver } from "./observer.ts"

export class EventTeller implements WorkerObserver {
  readonly #events: EventSender

  constructor(events: EventSender) {
    this.#events = events
  }

  refused(held: Held, record: JobRecord | undefined): void {
    const of = held.run?.record
    this.#events.tell("task-superseded", {
      uuid: held.id ?? "",
      name: record?.name ?? of?.name ?? "",
      queue: held.delivery.queue,
      attempt: record?.attempt ?? of?.attempt ?? 0,
      /** The state that was refused; null for an attempt that was told so before it had one. */
      state: record?.state ?? null,
    })
  }
}
