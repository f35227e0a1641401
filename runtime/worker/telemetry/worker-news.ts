/** Tells that a worker is there, by events: online, a heartbeat every 2 seconds, offline. */
import { loadavg, type as operatingSystem } from "node:os"
import { HEARTBEAT_MS } from "../../cluster/directory.ts"
import type { EventSender } from "../../cluster/events.ts"
import type { WorkerEvents, WorkerLoad } from "../../protocol/celery/event.ts"
import { VERSION } from "../../version.ts"
import type { WorkerObserver } from "./observer.ts"

export class WorkerNews implements WorkerObserver {
  readonly #events: EventSender
  readonly #load: () => Pick<WorkerLoad, "active" | "processed">
  #heartbeat: ReturnType<typeof setInterval> | undefined

  /** `load` is asked for with each event. */
  constructor(events: EventSender, load: () => Pick<WorkerLoad, "active" | "processed">) {
    this.#events = events
    this.#load = load
  }

  /** Also after an outage: monitors may have given it up. */
  listening(listening: boolean): void {
    if (!listening) return
    this.#tell("worker-online")
    this.#heartbeat ??= setInterval(() => this.#tell("worker-heartbeat"), HEARTBEAT_MS)
  }

  /** It works no more: tells so, if it ever said that it does. */
  end(): void {
    if (this.#heartbeat === undefined) return
    clearInterval(this.#heartbeat)
    this.#heartbeat = undefined
    this.#tell("worker-offline")
  }

  #tell(type: keyof WorkerEvents): void {
    const load: WorkerLoad = {
      freq: HEARTBEAT_MS / 1000,
      ...this.#load(),
      loadavg: loadavg().map((value) => Math.round(value * 100) / 100),
      sw_ident: "callboard",
      sw_ver: VERSION,
      sw_sys: operatingSystem(),
    }
    this.#events.tell(type, { ...load })
  }
}
