/** Loads the actor of isolated handlers from the file that exports it. */
import type { ActorDefinition } from "../../actor/actor.ts"
import { isActor } from "../../actor/discover.ts"

/** Fails when the module cannot be loaded, and when it exports no such actor, saying what to write. */
export const loadActor = async (module: string, name: string): Promise<ActorDefinition> => {
  const exported: unknown = await import(module)
  const values: ReadonlyArray<unknown> =
    typeof exported === "object" && exported !== null ? Object.values(exported) : []
  const found = values.filter(isActor).find((actor) => actor.name === name)
  if (found === undefined) {
    throw new Error(`${module} exports no actor ${name}: export it from the file that its option \`module\` names`)
  }
  return found
}
