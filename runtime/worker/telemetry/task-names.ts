/**
 * Names of a worker's tasks for metrics and spans: `actor.method`, so that their number is bounded whatever submitters
 * send.
 */
import type { ActorDefinition, ErasedMethod } from "../../actor/actor.ts"
import { DEFAULT_METHOD, resolveName } from "../../protocol/name.ts"
import type { JobRecord } from "../../protocol/record.ts"
import type { InFlight } from "../delivery/in-flight.ts"

export class TaskNames {
  /** All names, in the order of the actors. */
  readonly all: ReadonlyArray<string>
  readonly #byMethod = new Map<ErasedMethod, string>()
  readonly #actors = new Set<string>()
  readonly #byName: ReadonlyMap<string, ErasedMethod>
  readonly #mapping: ReadonlyMap<string, string>

  /** `mapping`: task names that are mapped to an actor's method. */
  constructor(actors: ReadonlyArray<ActorDefinition>, mapping: ReadonlyMap<string, string>) {
    for (const actor of actors) {
      this.#actors.add(actor.name)
      for (const method of actor.methods.values()) this.#byMethod.set(method, `${actor.name}.${method.name}`)
    }
    this.all = [...this.#byMethod.values()]
    this.#byName = new Map([...this.#byMethod].map(([method, name]) => [name, method]))
    this.#mapping = mapping
  }

  /** Name of the method that ran a delivery, or would have; `undefined` where it is not served here. */
  of(inFlight: InFlight, record: JobRecord | undefined): string | undefined {
    if (inFlight.run !== undefined) return this.#byMethod.get(inFlight.run.method)
    if (record === undefined) return undefined
    return this.nameOf(record.task, record.meth)
  }

  /** Name of the method that a task is for; `undefined` where it is not served here. */
  nameOf(task: string, meth: string | null): string | undefined {
    const method = this.method(task, meth)
    return method === undefined ? undefined : this.#byMethod.get(method)
  }

  /** The method that a task is for; `undefined` where it is not served here. */
  method(task: string, meth: string | null): ErasedMethod | undefined {
    const target = resolveName(task, meth, (name) => this.#actors.has(name), this.#mapping)
    return this.#byName.get(`${target.actor}.${target.meth ?? DEFAULT_METHOD}`)
  }
}
