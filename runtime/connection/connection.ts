/** A connected transport with all the parts that client and worker need, and the topics on which its processes talk. */

import type { Log } from "../log/log.ts"
import type { KeepFailed } from "../protocol/outside.ts"
import type { Jobs, Transport } from "../transport/job-store/transport.ts"
import type { Broadcast } from "../transport/mod.ts"
import type { Store } from "../transport/store.ts"
import { sleep } from "../transport/timers.ts"

/** What one process holds of its transport while it is connected. */
export interface Connection {
  readonly transport: Transport
  readonly jobs: Jobs
  readonly store: Store
  readonly broadcast: Broadcast
  /** How long the record of a job that has failed, expired or was cancelled is kept, unless its task says otherwise. */
  readonly keepFailed: KeepFailed
}

export const DEFAULT_KEEP_FAILED_MS = 7 * 86_400_000

/**
 * The parts of a transport. Without a broadcast of its own, processes hear only what they send themselves: no remote control,
 * no live events of others, and a worker learns of a cancellation when it stores the outcome. `keepFailed` defaults to 7 days.
 */
export const connectionOf = (
  transport: Transport,
  keepFailed: KeepFailed = () => DEFAULT_KEEP_FAILED_MS,
): Connection => {
  const { jobs, store, broadcast } = transport
  return { transport, jobs, store, broadcast: broadcast ?? localBroadcast(), keepFailed }
}

/** Announcements within this process. */
const localBroadcast = (): Broadcast => {
  const listeners = new Set<{ readonly topic: string; readonly listener: (payload: Uint8Array) => void }>()
  return {
    send: async (topic, payload) => {
      for (const each of [...listeners]) if (each.topic === topic) each.listener(payload)
    },
    listen: async (topic, listener, signal) => {
      if (signal.aborted) return
      const entry = { topic, listener }
      listeners.add(entry)
      signal.addEventListener("abort", () => listeners.delete(entry), { once: true })
    },
  }
}

/** Topic on which a cancelled job is announced to the workers that may run it: JSON `{id, run, terminate}`. */
export const CANCEL_TOPIC = "cancel"

/** Topic on which workers announce that they ask for permits of a limit, or have given some back. */
export const LIMIT_TOPIC = "limit"

const FIRST_WAIT_MS = 250
const MAX_WAIT_MS = 10_000

/**
 * Listens on a topic until the signal fires. A subscription that cannot be made now is made as soon as the transport is
 * back. Resolves once it does listen, or the signal has fired.
 */
export const keepListening = async (
  broadcast: Broadcast,
  topic: string,
  listener: (payload: Uint8Array) => void,
  options: { readonly log: Log; readonly signal: AbortSignal },
): Promise<void> => {
  const { log, signal } = options
  for (let wait = FIRST_WAIT_MS; !signal.aborted; wait = Math.min(MAX_WAIT_MS, wait * 2)) {
    try {
      return await broadcast.listen(topic, listener, signal)
    } catch (cause) {
      log.debug(`${topic} is not received yet`, { cause: String(cause) })
      await sleep(wait, signal)
    }
  }
}
