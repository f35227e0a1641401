/**
 * What an actor author writes: a name, methods, and the resources that the methods share.
 *
 * Types flow from here: a method's handler gets its input from the method's schema, and `client.actor<typeof text>()`
 * gets the same types without importing a handler.
 */

import { Result } from "effect"
import { milliseconds } from "../options/duration.ts"
import type { Refuse } from "../options/refuse.ts"
import { wholeNumber } from "../options/whole.ts"
import { checkActorName, checkQueueName } from "../protocol/name.ts"
import type { ActorDefinition, ActorOptions, ErasedMethod, RestartPolicy } from "./definition.ts"
import type { InputOf, MethodsOf, NoProblem, Problems, ResultOf } from "./inference.ts"
import { eraseMethod, InvalidActor } from "./method.ts"

export type {
  AckPolicy,
  ActorDefinition,
  ActorOptions,
  ActorScope,
  ErasedMethod,
  Isolation,
  Limit,
  MethodDefinition,
  MethodHandler,
  MethodHooks,
  MethodOptions,
  RestartPolicy,
  RetryPolicy,
  TimeLimit,
} from "./definition.ts"
export { InvalidActor } from "./method.ts"

/** Carries an actor's types; there is no value behind it. */
export interface Actor<Name extends string, In, R> extends ActorDefinition {
  readonly name: Name
  readonly "~types"?: { readonly input: In; readonly result: R }
}

/**
 * Defines an actor. The default method is `run`. Throws {@link InvalidActor} on names that cannot be addressed and on
 * options out of range, naming the field.
 *
 * ```ts
 * export default actor("text", {
 *   methods: {
 *     count: { input: CountInput, run: async ({ path }) => words(path) },
 *     ping: async () => "pong",
 *   },
 * })
 * ```
 */
export const actor = <const Name extends string, Out, M, Use = undefined>(
  name: Name & NoProblem<Problems<M, Use>>,
  definition: ActorOptions<Use> & { readonly methods: MethodsOf<Out, M, Use> },
): Actor<Name, { readonly [K in keyof M]: InputOf<M[K]> }, { readonly [K in keyof M]: ResultOf<M[K]> }> => {
  const checkedName = checkActorName(name)
  if (Result.isFailure(checkedName)) throw new InvalidActor(checkedName.failure.message)
  if (definition.queue !== undefined) {
    const checkedQueue = checkQueueName(definition.queue)
    if (Result.isFailure(checkedQueue)) throw new InvalidActor(`actor ${name}: queue: ${checkedQueue.failure.message}`)
  }
  const methods = new Map<string, ErasedMethod>()
  for (const [methodName, method] of Object.entries<unknown>(definition.methods)) {
    methods.set(methodName, eraseMethod(name, methodName, method, definition.isolation))
  }
  if (methods.size === 0) throw new InvalidActor(`actor ${name}: methods is empty; an actor needs at least one`)
  const { start, stop, module } = definition
  if (module !== undefined && !(typeof module === "string" && URL.canParse(module))) {
    throw new InvalidActor(`actor ${name}: module: must be the URL of the file that exports it: import.meta.url`)
  }
  checkRestart(name, definition.restart)
  return {
    _tag: "Actor",
    name,
    queue: definition.queue,
    description: definition.description,
    module,
    start,
    // `start` and `stop` are called with each other's value only, see ActorPool.
    stop: stop === undefined ? undefined : (use) => stop(use as Use),
    restart: definition.restart,
    methods,
  }
}

const RESTARTS = { least: 0, most: 1_000 }

const checkRestart = (name: string, restart: RestartPolicy | undefined): void => {
  if (restart === undefined) return
  const refuse: Refuse = (field, message) => {
    throw new InvalidActor(`actor ${name}: restart.${field}: ${message}`)
  }
  const { max, within, backoff } = restart
  if (max !== undefined) wholeNumber("max", max, RESTARTS, refuse)
  if (within !== undefined) milliseconds("within", within, refuse)
  if (backoff?.base !== undefined) milliseconds("backoff.base", backoff.base, refuse)
  if (backoff?.max !== undefined) milliseconds("backoff.max", backoff.max, refuse)
}
