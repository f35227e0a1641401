/** This worker's entries in the directory: who it is and what it does, for as long as it beats. */
import {
  ACTOR_REFRESH_MS,
  type ActorDescription,
  actorEntries,
  HEARTBEAT_MS,
  type WorkerDescription,
  workerEntry,
} from "../directory.ts"
import type { Log } from "../log.ts"
import type { Store } from "../transport.ts"

const END_PATIENCE_MS = 2_000

export interface RegistryOptions {
  readonly store: Store
  readonly log: Log
  readonly actors: ReadonlyArray<ActorDescription>
  /** Asked for at each beat. */
  readonly describe: () => WorkerDescription
}

/** Registers the worker and keeps it registered; returns how to beat at once, and how to end. */
export const register = (
  options: RegistryOptions,
): { readonly beat: () => Promise<void>; readonly end: () => Promise<void> } => {
  const { store, log } = options
  // By a clock that nobody sets back: entries that are not told again are forgotten.
  let actorsAt = Number.NEGATIVE_INFINITY
  let ended = false
  const beat = async () => {
    if (ended) return
    const now = performance.now()
    try {
      await store.write([workerEntry(options.describe())])
      if (now - actorsAt >= ACTOR_REFRESH_MS) {
        for (const entry of actorEntries(options.actors)) await store.write([entry])
        // Only now: until all are known, the next beat tells them again.
        actorsAt = now
      }
    } catch (cause) {
      log.debug("the heartbeat could not be written", { cause: cause instanceof Error ? cause.message : String(cause) })
    }
  }
  const timer = setInterval(() => void beat(), HEARTBEAT_MS)
  return {
    beat,
    end: async () => {
      ended = true
      clearInterval(timer)
      // A transport that does not answer must not keep the worker from ending: the entry lapses by itself.
      await Promise.race([
        store.write([{ key: workerEntry(options.describe()).key }]).catch(() => undefined),
        new Promise((resolve) => setTimeout(resolve, END_PATIENCE_MS).unref()),
      ])
    },
  }
}
