/**
 * Defines actors: a name, methods, and resources that the methods share.
 *
 * The types follow from the definition: the schema of a method types the input of its handler, and a client has the same
 * types through `client.actor<typeof text>("text")`, without loading the module of the actor.
 */
import * as Result from "effect/Result"
import { type ActorDescription, DEFAULT_QUEUE } from "../cluster/directory.ts"
import { milliseconds } from "../options/duration.ts"
import { isExact, jsonSchemaOf } from "../options/json-schema.ts"
import { rateText } from "../options/limit.ts"
import { refuseInput } from "../options/refuse.ts"
import { compact, ifGiven } from "../protocol/compact.ts"
import { isMap, isObject } from "../protocol/guards.ts"
import { checkActorName } from "../protocol/name.ts"
import { describeOptions, withDefaults } from "./defaults.ts"
import type { ActorDefinition, ActorOptions, ErasedMethod, RestartPolicy } from "./definition.ts"
import type { InputOf, MethodsOf, NoProblem, Problems, ResultOf } from "./inference.ts"
import { eraseMethod } from "./method.ts"
import { defining, InvalidActor, parseActorOptions } from "./options.ts"

export type { TimeLimit } from "../options/duration.ts"
export type { RetryPolicy } from "../options/retry-policy.ts"
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
} from "./definition.ts"
export { InvalidActor } from "./options.ts"

/** An actor with the types of its methods. `"~types"` exists for the compiler only and has no value. */
export interface Actor<Name extends string, In, R> extends ActorDefinition {
  readonly name: Name
  readonly "~types"?: { readonly input: In; readonly result: R }
}

/**
 * Defines an actor. A method is a function, or an object with options and the function `run`. A task without a method
 * runs the method `run`.
 *
 * `name`: words of letters, digits, `_` and `-`, joined by dots, 128 characters at most. Throws {@link InvalidActor} where
 * the name or an option is not allowed; the message names the field.
 *
 * @example
 * ```ts
 * export default actor("text", {
 *   methods: {
 *     count: { input: z.object({ path: z.string() }), run: async ({ path }, job) => countWords(path, job.signal) },
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
  const what = `actor ${name}`
  if (!isMap(definition)) throw new InvalidActor(`${what}: must be defined by an object with \`methods\``)
  const options = defining(what, () => parseActorOptions(definition))
  const { queue, description, module, isolation, restart } = options
  const methods = new Map<string, ErasedMethod>()
  for (const [methodName, method] of Object.entries<unknown>(definition.methods)) {
    methods.set(methodName, eraseMethod(name, methodName, method, isolation))
  }
  if (methods.size === 0) throw new InvalidActor(`${what}: methods is empty; an actor needs at least one`)
  defining(what, () => checkRestart(restart))
  const { start, stop } = definition
  return {
    _tag: "Actor",
    name,
    queue,
    description,
    module,
    start,
    // The cast is safe: the ActorPool passes `stop` only what `start` of the same actor returned.
    stop: stop === undefined ? undefined : (use) => stop(use as Use),
    restart,
    methods: withDefaults(methods, options, () => "actor"),
  }
}

/** Whether a value was made by {@link actor}. */
export const isActor = (value: unknown): value is ActorDefinition =>
  isObject(value) && "_tag" in value && value._tag === "Actor" && "methods" in value && value.methods instanceof Map

/** Fails with `CallboardError` `invalid-input` for what is no list of actors, such as an actor alone. */
export const checkActors = (actors: unknown): void => {
  if (!(Array.isArray(actors) && actors.every(isActor)))
    refuseInput("actors", "must be a list of actors, as `actor()` returns them")
}

/** Fails with `CallboardError` `invalid-input` for what is no actor. */
export const checkActor = (actor: unknown): void => {
  if (!isActor(actor)) refuseInput("actor", "must be an actor, as `actor()` returns it")
}

const checkRestart = ({ within, backoff }: RestartPolicy = {}): void => {
  if (within !== undefined) milliseconds("restart.within", within)
  if (backoff?.base !== undefined) milliseconds("restart.backoff.base", backoff.base)
  if (backoff?.max !== undefined) milliseconds("restart.backoff.max", backoff.max)
}

/** Describes an actor for the directory, where submitters and operators read it: names and options, no handlers. */
export const describeActor = (actor: ActorDefinition): ActorDescription => ({
  name: actor.name,
  queue: actor.queue ?? DEFAULT_QUEUE,
  ...compact({ description: actor.description }),
  methods: [...actor.methods.values()].map(describeMethod),
})

const describeMethod = (method: ErasedMethod): ActorDescription["methods"][number] => {
  const input = method.input === undefined ? undefined : jsonSchemaOf(method.input, "input")
  const output = method.output === undefined ? undefined : jsonSchemaOf(method.output, "output")
  return {
    name: method.name,
    ...compact({
      description: method.description,
      queue: method.queue,
      priority: method.priority,
      options: describeOptions(method),
      params: method.params,
      redact: method.redact,
      limit: method.limit && describeLimit(method.limit),
      limitKey: typeof method.limit?.key === "string" ? method.limit.key : undefined,
      input,
      exactInput: method.input !== undefined && input !== undefined && isExact(method.input) ? true : undefined,
      output,
    }),
  }
}

const describeLimit = ({
  rate,
  concurrency,
  key,
}: NonNullable<ErasedMethod["limit"]>): NonNullable<ActorDescription["methods"][number]["limit"]> => ({
  ...compact({ rate: ifGiven(rate, rateText), concurrency }),
  keyed: key !== undefined,
})
