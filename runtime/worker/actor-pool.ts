/** The actors of this worker: their methods by name, and the resources that their `start` acquired. */
import { Effect } from "effect"
import type { ActorDefinition, ErasedMethod } from "../actor.ts"
import type { Log } from "../log.ts"
import { DEFAULT_METHOD, resolveName } from "../protocol/name.ts"

/** An actor whose `start` failed: the worker does not start. */
export class ActorStartFailed extends Error {
  readonly _tag = "ActorStartFailed"
  override readonly name = "ActorStartFailed"
}

interface Served {
  readonly actor: ActorDefinition
  readonly use: unknown
}

export type Resolution =
  | { readonly found: true; readonly actor: string; readonly method: ErasedMethod; readonly use: unknown }
  | { readonly found: false; readonly message: string }

export interface ActorPool {
  readonly actors: ReadonlyArray<ActorDefinition>
  resolve(task: string, meth: string | null): Resolution
  /** Queue of an actor's tasks that name none; `undefined` when it is not served here. */
  queueOf(task: string, meth: string | null): string | undefined
}

/** Starts the actors, one after the other; the scope stops them in reverse order, after the last handler has ended. */
export const makeActorPool = Effect.fnUntraced(function* (
  actors: ReadonlyArray<ActorDefinition>,
  taskNames: ReadonlyMap<string, string>,
  log: Log,
) {
  const served = new Map<string, Served>()
  for (const actor of actors) {
    if (served.has(actor.name)) {
      return yield* Effect.fail(new ActorStartFailed(`two actors have the name ${actor.name}: names must be unique`))
    }
    const use = yield* Effect.acquireRelease(startActor(actor), (started) => stopActor(actor, started, log))
    served.set(actor.name, { actor, use: use.use })
  }
  const pool: ActorPool = {
    actors,
    queueOf(task, meth) {
      const target = resolveName(task, meth, (name) => served.has(name), taskNames)
      const actor = served.get(target.actor)?.actor
      return actor?.methods.get(target.meth ?? DEFAULT_METHOD)?.queue ?? actor?.queue
    },
    resolve(task, meth) {
      const target = resolveName(task, meth, (name) => served.has(name), taskNames)
      const entry = served.get(target.actor)
      if (entry === undefined) return { found: false, message: `no actor ${target.actor} is served here` }
      const name = target.meth ?? DEFAULT_METHOD
      const method = entry.actor.methods.get(name)
      return method === undefined
        ? { found: false, message: `actor ${target.actor} has no method ${name}` }
        : { found: true, actor: target.actor, method, use: entry.use }
    },
  }
  return pool
})

interface Started {
  readonly use: unknown
  readonly releases: ReadonlyArray<() => unknown>
  readonly abort: AbortController
}

const startActor = (actor: ActorDefinition): Effect.Effect<Started, ActorStartFailed> =>
  Effect.tryPromise({
    try: async () => {
      const releases: Array<() => unknown> = []
      const abort = new AbortController()
      const use = await actor.start?.({
        actor: actor.name,
        signal: abort.signal,
        onStop: (release) => releases.push(release),
      })
      return { use, releases, abort }
    },
    catch: (cause) =>
      new ActorStartFailed(
        `actor ${actor.name} did not start: ${cause instanceof Error ? cause.message : String(cause)}`,
        { cause },
      ),
  })

const stopActor = (actor: ActorDefinition, started: Started, log: Log): Effect.Effect<void> =>
  Effect.promise(async () => {
    started.abort.abort()
    const steps = [
      ...(actor.stop === undefined ? [] : [() => actor.stop?.(started.use)]),
      ...[...started.releases].reverse(),
    ]
    for (const step of steps) {
      // One resource that cannot be released must not keep the others.
      try {
        await step()
      } catch (cause) {
        log.error(`actor ${actor.name} did not stop cleanly`, { cause: String(cause) })
      }
    }
  })
