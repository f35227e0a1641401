/** The actors of a worker: resolves the name of a task to a method, and tells whether the actor can run it now. */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { ActorDefinition, ErasedMethod } from "../../actor/actor.ts"
import type { Log } from "../../log/log.ts"
import { DEFAULT_METHOD, resolveName } from "../../protocol/name.ts"
import { ActorStartFailed, type Condition, ServedActor } from "./served-actor.ts"

/** The method that a task is for, with its actor. */
export interface Target {
  readonly actor: ServedActor
  readonly method: ErasedMethod
}

/** Actor and method as one name, joined by a dot. */
export const nameOf = ({ actor, method }: Target): string => `${actor.definition.name}.${method.name}`

/** Why a task does not run in this worker. */
export interface Unserved {
  readonly found: false
  readonly message: string
  /** The field of its header that must be understood, and is not; absent where no actor or method is served. */
  readonly field?: string
}

export type Resolution = ({ readonly found: true } & Target) | Unserved

export interface ActorPool {
  readonly actors: ReadonlyArray<ActorDefinition>
  resolve(task: string, meth: string | null): Resolution
  /** Queue for tasks of an actor or method that name no queue; `undefined` when it is not served here. */
  queueOf(task: string, meth: string | null): string | undefined
  /** The arguments that the method of a task hides; `undefined` when it hides none, or is not served here. */
  redactOf(task: string, meth: string | null): ErasedMethod["redact"]
  /** Whether all actors that use this queue are unhealthy, so that it is not worth pulling from it. */
  isIdle(queue: string): boolean
  /** Actors that are not ready, with the reason. */
  readonly unhealthy: ReadonlyArray<{ readonly actor: string; readonly condition: Condition; readonly reason: string }>
}

/**
 * Starts the actors; closing the scope stops them, after the last handler has ended. An actor that does not start is
 * started again later while the others work. Fails with `ActorStartFailed` when two actors have the same name, and when
 * no actor starts.
 */
export const makeActorPool = (
  actors: ReadonlyArray<ActorDefinition>,
  taskNames: ReadonlyMap<string, string>,
  log: Log,
): Effect.Effect<ActorPool, ActorStartFailed, Scope.Scope> =>
  Effect.gen(function* () {
    const served = new Map<string, ServedActor>()
    let failure: ActorStartFailed | undefined
    for (const definition of actors) {
      const { name } = definition
      if (served.has(name)) {
        return yield* Effect.fail(new ActorStartFailed(`two actors are named ${name}: names must be unique`))
      }
      const actor = new ServedActor(definition, log)
      served.set(name, actor)
      const tried = yield* Deferred.make<void, ActorStartFailed>()
      yield* Effect.forkScoped(actor.run(tried), { startImmediately: true })
      const first = yield* Effect.result(Deferred.await(tried))
      if (first._tag === "Failure") failure = first.failure
    }
    const all = [...served.values()]
    if (failure !== undefined && all.every((actor) => actor.condition !== "ready")) return yield* Effect.fail(failure)
    return poolOf(actors, served, taskNames)
  })

const poolOf = (
  actors: ReadonlyArray<ActorDefinition>,
  served: ReadonlyMap<string, ServedActor>,
  taskNames: ReadonlyMap<string, string>,
): ActorPool => {
  const targetOf = (task: string, meth: string | null) => resolveName(task, meth, (name) => served.has(name), taskNames)
  const resolve = (task: string, meth: string | null): Resolution => {
    const target = targetOf(task, meth)
    const actor = served.get(target.actor)
    if (actor === undefined) return { found: false, message: `this worker does not serve actor ${target.actor}` }
    const name = target.meth ?? DEFAULT_METHOD
    const method = actor.definition.methods.get(name)
    return method === undefined
      ? { found: false, message: `actor ${target.actor} has no method ${name}` }
      : { found: true, actor, method }
  }
  // Most tasks are for the same method as the one before. What is served does not change.
  let last: { readonly task: string; readonly meth: string | null; readonly resolution: Resolution } | undefined
  return {
    actors,
    queueOf(task, meth) {
      const target = targetOf(task, meth)
      const definition = served.get(target.actor)?.definition
      return definition?.methods.get(target.meth ?? DEFAULT_METHOD)?.queue ?? definition?.queue
    },
    redactOf(task, meth) {
      const target = targetOf(task, meth)
      return served.get(target.actor)?.definition.methods.get(target.meth ?? DEFAULT_METHOD)?.redact
    },
    resolve(task, meth) {
      if (last?.task !== task || last.meth !== meth) last = { task, meth, resolution: resolve(task, meth) }
      return last.resolution
    },
    get unhealthy() {
      return [...served.values()]
        .filter(({ condition }) => condition !== "ready")
        .map(({ definition, condition, trouble }) => ({ actor: definition.name, condition, reason: trouble }))
    },
    isIdle(queue) {
      const using = [...served.values()].filter(({ definition }) => usesQueue(definition, queue))
      return using.length > 0 && using.every((actor) => actor.condition === "unhealthy")
    },
  }
}

const usesQueue = (definition: ActorDefinition, queue: string): boolean =>
  (definition.queue ?? "default") === queue || [...definition.methods.values()].some((method) => method.queue === queue)
