/** The resources that an actor's `start` acquires inside the process of its isolated handlers. */
import type { ActorDefinition } from "../../actor/actor.ts"
import type { JobLog } from "../../actor/job.ts"

export interface Resources {
  readonly use: unknown
  /** Releases them, in reverse order. Never fails. */
  release(): Promise<void>
}

/** Starts an actor. Fails with whatever its `start` fails with; `onBroken` hears of a resource that breaks later. */
export const acquire = async (
  actor: ActorDefinition,
  log: JobLog,
  onBroken: (cause: unknown) => void,
): Promise<Resources> => {
  const releases: Array<() => unknown> = []
  const abort = new AbortController()
  const use = await actor.start?.({
    actor: actor.name,
    signal: abort.signal,
    onStop: (release) => releases.push(release),
    fail: onBroken,
  })
  return {
    use,
    release: async () => {
      abort.abort()
      for (const step of [() => actor.stop?.(use), ...[...releases].reverse()]) {
        // One resource that cannot be released must not keep the others.
        try {
          await step()
        } catch (cause) {
          log.error(`actor ${actor.name} did not stop cleanly`, { cause: String(cause) })
        }
      }
    },
  }
}
