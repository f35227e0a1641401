/** What isolation asks of the actors of a worker, said when the worker starts rather than when the first task comes. */
import type { ActorDefinition } from "../../actor/actor.ts"
import { ActorStartFailed } from "../actors/served-actor.ts"

const isolated = (actor: ActorDefinition): ReadonlyArray<string> =>
  [...actor.methods.values()].filter((method) => method.isolation === "process").map((method) => method.name)

/** Fails with `ActorStartFailed` for an actor with isolated methods whose file is not known, saying what to write. */
export const checkIsolation = (actors: ReadonlyArray<ActorDefinition>): void => {
  for (const actor of actors) {
    const [method] = isolated(actor)
    if (method === undefined || actor.module !== undefined) continue
    throw new ActorStartFailed(
      `actor ${actor.name}: method ${method} has isolation "process", and its file is not known: write ` +
        "`module: import.meta.url` in the actor's options, and export the actor from that file",
    )
  }
}

/** Whether all its handlers run in processes of their own. */
export const isWhollyIsolated = (actor: ActorDefinition): boolean => isolated(actor).length === actor.methods.size

/** The actor as the worker itself starts it: without resources when all its handlers run in processes of their own. */
export const inWorker = (actor: ActorDefinition): ActorDefinition =>
  isWhollyIsolated(actor) ? { ...actor, start: undefined, stop: undefined } : actor
