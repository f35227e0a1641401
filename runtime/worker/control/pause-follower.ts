/** Follows pauses and suspensions in the store and applies them to the worker's queue subscription. */

import type { StoreEntry } from "../../async/store-entry.ts"
import { isSuspended, PAUSES, SUSPENSIONS } from "../../cluster/pausing.ts"
import type { Connection } from "../../connection/connection.ts"
import { StoreMirror } from "../../connection/store-watch.ts"
import type { Log } from "../../log/log.ts"
import type { QueueSubscription } from "../fetch/queue-subscription.ts"

export interface PauseFollowerOptions {
  readonly connection: Connection
  /** Name of the worker. */
  readonly name: string
  readonly subscription: QueueSubscription
  /** Called after each change. */
  readonly onChange: () => void
  readonly log: Log
  readonly signal: AbortSignal
}

/** Starts to follow. Resolves once the present pauses are known; until then no task may be pulled. */
export const followPauses = async (options: PauseFollowerOptions): Promise<void> => {
  const { connection, name, subscription, onChange, log, signal } = options
  const mirror = <A>({ prefix }: StoreEntry<A>, change: (names: ReadonlyArray<string>) => void): StoreMirror<true> => {
    const entries = new StoreMirror<true>({
      connection,
      prefix,
      // Only the key is read, so that a pause which a newer version wrote counts as well.
      decode: () => true,
      onChange: () => {
        change([...entries.entries.keys()].map((key) => key.slice(prefix.length)))
        onChange()
      },
      log,
      signal,
    })
    return entries
  }
  const paused = mirror(PAUSES, (names) => subscription.pause(names))
  const suspended = mirror(SUSPENSIONS, (names) => subscription.suspend(isSuspended(names, name)))
  await Promise.all([paused.ready, suspended.ready])
}
