/** What the tasks of a worker are called where names are counted: `actor.method`, and nothing that a submitter chose. */
import type { ActorDefinition, ErasedMethod } from "../../actor.ts"
import { DEFAULT_METHOD, resolveName } from "../../protocol/name.ts"
import type { JobRecord } from "../../protocol/record.ts"
import type { Held } from "../delivery.ts"

export class TaskNames {
  /** All of them, in the order of the actors. */
  readonly all: ReadonlyArray<string>
  readonly #byMethod = new Map<ErasedMethod, string>()
  readonly #actors = new Set<string>()
  readonly #known: ReadonlySet<string>
  readonly #mapping: ReadonlyMap<string, string>

  /** `mapping`: task names that stand for an actor's method. */
  constructor(actors: ReadonlyArray<ActorDefinition>, mapping: ReadonlyMap<string, string>) {
    for (const actor of actors) {
      this.#actors.add(actor.name)
      for (const method of actor.methods.values()) this.#byMethod.set(method, `${actor.name}.${method.name}`)
    }
    this.all = [...this.#byMethod.values()]
    this.#known = new Set(this.all)
    this.#mapping = mapping
  }

  /** The method that ran a delivery, or would have; `undefined` where it is not served here. */
  of(held: Held, record: JobRecord | undefined): string | undefined {
    if (held.run !== undefined) return this.#byMethod.get(held.run.method)
    if (record === undefined) return undefined
    const target = resolveName(record.task, record.meth, (name) => this.#actors.has(name), this.#mapping)
    const name = `${target.actor}.${target.meth ?? DEFAULT_METHOD}`
    return this.#known.has(name) ? name : undefined
  }
}
