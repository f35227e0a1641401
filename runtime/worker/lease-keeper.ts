/** Extends the leases of what this worker holds. A delivery whose lease is lost is ended, and never settled. */
import type { Log } from "../log.ts"
import type { Queue } from "../transport.ts"
import type { Held } from "./delivery.ts"

export interface LeaseKeeperOptions {
  readonly queue: Queue
  readonly held: ReadonlyMap<string, Held>
  /** Length of a lease, in milliseconds; extended at a third of it. */
  readonly lease: number
  readonly log: Log
  readonly onLost: (held: Held) => void
}

/** Starts keeping; returns how to stop. */
export const keepLeases = (options: LeaseKeeperOptions): (() => void) => {
  let busy = false
  const extend = async () => {
    if (busy || options.held.size === 0) return
    busy = true
    try {
      const all = [...options.held.values()]
      const kept = await options.queue.extend(all.map((held) => held.delivery.token))
      for (const [at, held] of all.entries()) {
        // One that was settled meanwhile is not ours any more either, and that is as it should be.
        if (kept[at] === false && options.held.has(held.delivery.token)) options.onLost(held)
      }
    } catch (cause) {
      options.log.warn("leases could not be extended", {
        cause: cause instanceof Error ? cause.message : String(cause),
      })
    } finally {
      busy = false
    }
  }
  const timer = setInterval(() => void extend(), options.lease / 3)
  return () => clearInterval(timer)
}
