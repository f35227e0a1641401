/** The resources of an actor: acquired by its `start`, in the worker or in the process of its isolated handlers. */
import type { ActorDefinition } from "./actor.ts"
import type { JobLog } from "./step.ts"

export interface Resources {
  /** The value that `start` returned. */
  readonly use: unknown
  /** Calls `stop`, then releases the resources in reverse order. Never rejects. */
  readonly release: () => Promise<void>
}

/**
 * Starts an actor. Fails with the error of its `start`; what that had acquired is released first, since each further
 * start acquires it again. `abort` fires the signal of `start`; `onBroken` is called when a resource breaks later.
 */
export const acquire = async (
  actor: ActorDefinition,
  log: JobLog,
  onBroken: (cause: unknown) => void,
  abort = new AbortController(),
): Promise<Resources> => {
  const releases: Array<() => unknown> = []
  const release = async () => {
    abort.abort()
    for (const step of releases.toReversed()) {
      // A resource that cannot be released must not keep the others from being released.
      try {
        await step()
      } catch (cause) {
        log.error("did not stop cleanly", { cause: String(cause) })
      }
    }
  }
  try {
    const use = await actor.start?.({
      actor: actor.name,
      signal: abort.signal,
      onStop: (step) => releases.push(step),
      fail: onBroken,
    })
    return {
      use,
      release: () => {
        releases.push(() => actor.stop?.(use))
        return release()
      },
    }
  } catch (cause) {
    await release()
    throw cause
  }
}
