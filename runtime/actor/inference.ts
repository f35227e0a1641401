/**
 * How the types of an actor follow from its definition: which input a caller may submit, which input the handler gets, and
 * which result comes back. Types only.
 *
 * Two things are inferred at once. `Out` maps each method to what its schema gives, and is settled first, so that a
 * handler's parameters can be typed from it. `M` maps each method to everything that was written, and is settled last,
 * when the handlers' own annotations and results are known. With one parameter for both, or with
 * `M extends Record<string, Definition>`, a handler's input would silently become `any`.
 */
import type { StandardSchemaV1 } from "@standard-schema/spec"
import type * as Effect from "effect/Effect"
import type { MethodDefinition, MethodHandler } from "./definition.ts"
import type { Job } from "./job.ts"
import type { Resolved } from "./step.ts"

/** The methods of a definition. */
export type MethodsOf<Out, M, Use> = {
  readonly [K in keyof Out | keyof M]: (
    | MethodDefinition<At<Out, K>, NoInfer<Use>>
    | MethodHandler<At<Out, K>, NoInfer<Use>>
  ) &
    At<M, K>
}

// `unknown` for what is not known yet: with `never` a definition whose handlers all wait for their types would have
// none.
type At<T, K> = K extends keyof T ? T[K] : unknown

type Callable = (...args: never) => unknown

// Asked by key and not by `extends { run: … }`: to TypeScript before 6 a definition's other options would be in excess.
type Part<Method, Key> = Key extends keyof Method ? Method[Key] : never

/** Whether a method has an option: one that is `undefined` is as if absent. */
type Has<Method, Key> = Key extends keyof Method ? ([Method[Key]] extends [undefined] ? false : true) : false

type RunOf<Method> = Extract<Method extends Callable ? Method : Part<Method, "run">, Callable>

type SchemaInput<S> =
  S extends StandardSchemaV1<infer In, unknown> ? In : S extends { readonly Encoded: infer In } ? In : never

type SchemaOutput<S> =
  S extends StandardSchemaV1<unknown, infer Out> ? Out : S extends { readonly Type: infer Out } ? Out : never

/** What a caller may submit to a method: the input of its schema, else the type of its handler's first parameter. */
export type InputOf<Method> =
  Has<Method, "input"> extends true
    ? SchemaInput<Part<Method, "input">>
    : Parameters<RunOf<Method>> extends readonly [infer In, ...ReadonlyArray<unknown>]
      ? In
      : unknown

/** The result of a method: the output of its `output` schema, else what its handler returns. */
export type ResultOf<Method> =
  Has<Method, "output"> extends true ? SchemaOutput<Part<Method, "output">> : Resolved<ReturnType<RunOf<Method>>>

/**
 * `unknown` where there is no problem; else a type that the actor's name does not fit, so that the compiler shows the
 * sentence in it. It is attached to the name, because next to the methods it would disturb the inference of their handlers.
 */
export type NoProblem<P> = [P] extends [never] ? unknown : IsAny<P> extends true ? unknown : { readonly problem: P }

export type Problems<M, Use> = { [K in keyof M]: ProblemsOf<M[K], Use, K extends string ? K : string> }[keyof M]

// The compiler asks twice. The first time handlers that wait for their parameter types are missing: no problem yet.
type ProblemsOf<Method, Use, Name extends string> = Method extends Callable
  ? HandlerProblem<Method, unknown, Use, Name>
  :
      | HandlerProblem<Part<Method, "run">, Method, Use, Name>
      | HooksProblem<Method, Use, Name>
      | OptionProblem<Method, Name>

type OptionProblem<Method, Name extends string> =
  UnknownIn<Method, MethodDefinition> extends infer Place extends string
    ? `${Name}: ${Place} is not an option of a method`
    : never

/** The paths of the fields that options do not have, also within them. */
type UnknownIn<Given, Known, Path extends string = ""> = {
  [Key in keyof Given & string]: Key extends NamesOf<Known>
    ? unknown extends ValueOf<Known, Key>
      ? never
      : UnknownInside<Given[Key], ValueOf<Known, Key>, `${Path}${Key}.`>
    : `${Path}${Key}`
}[keyof Given & string]

// Distributes over the kinds that an option may have, of which only plain objects have options of their own.
type UnknownInside<Given, Known, Path extends string> =
  IsAny<Given> extends true
    ? never
    : Given extends Callable | ReadonlyArray<unknown> | StandardSchemaV1 | { readonly Encoded: unknown }
      ? never
      : Given extends object
        ? UnknownIn<Given, Known, Path>
        : never

/** The options of those kinds of a value that are plain objects. */
type NamesOf<Known> = Known extends object
  ? Known extends Callable | ReadonlyArray<unknown> | StandardSchemaV1
    ? never
    : keyof Known
  : never
type ValueOf<Known, Key> = Known extends object ? (Key extends keyof Known ? Known[Key] : never) : never

type HandlerProblem<F, Method, Use, Name extends string> = F extends (...args: infer A) => infer R
  ? InputProblem<A, Method, Name> | JobProblem<A, Use, Name> | EffectProblem<R, Name> | OutputProblem<R, Method, Name>
  : never

// The type of the result is inferred after the parameters of the hooks, so a hook annotates the result that it takes.
type HooksProblem<Method, Use, Name extends string> =
  | ResultProblem<Part<Method, "onSuccess">, Method, Name>
  | HookProblem<Part<Method, "onSuccess" | "onFailure">, Use, Name>
  | StopProblem<Part<Method, "onStopped">, Use, Name>

type ResultProblem<F, Method, Name extends string> = F extends (...args: infer A) => unknown
  ? A extends readonly [infer Given, ...ReadonlyArray<unknown>]
    ? [ResultOf<Method>] extends [Given]
      ? never
      : `${Name}: its onSuccess takes another result than the method gives`
    : never
  : never

type HookProblem<F, Use, Name extends string> = F extends (...args: infer A) => infer R
  ? JobProblem<A, Use, Name> | EffectProblem<R, Name>
  : never

type StopProblem<F, Use, Name extends string> = F extends (...args: infer A) => infer R
  ? JobProblem<readonly [unknown, ...A], Use, Name> | EffectProblem<R, Name>
  : never

type InputProblem<A, Method, Name extends string> =
  Has<Method, "input"> extends true
    ? A extends readonly [infer In, ...ReadonlyArray<unknown>]
      ? [SchemaOutput<Part<Method, "input">>] extends [In]
        ? never
        : `${Name}: its handler takes another input than its schema gives`
      : never
    : never

type JobProblem<A, Use, Name extends string> = A extends readonly [unknown, infer J, ...ReadonlyArray<unknown>]
  ? [Job<Use>] extends [J]
    ? never
    : `${Name}: its handler expects another job.use than start gives`
  : never

// A handler returns `any` where its value has no type (`JSON.parse`), and where its code does not compile, which is
// reported
// there. An Effect that needs `unknown` comes from such code, too.
type EffectProblem<R, Name extends string> =
  IsAny<R> extends true
    ? never
    : R extends Effect.Effect<infer _A, infer _E, infer Needs>
      ? [Needs] extends [never]
        ? never
        : [unknown] extends [Needs]
          ? never
          : `${Name}: its Effect needs services that nobody provides`
      : never

// In tuples, because the compiler would report a plain conditional type over code that does not compile as an error,
// too.
type IsAny<T> = [unknown] extends [T] ? ([T] extends [string] ? true : false) : false

type OutputProblem<R, Method, Name extends string> =
  Has<Method, "output"> extends true
    ? [Resolved<R>] extends [SchemaInput<Part<Method, "output">>]
      ? never
      : `${Name}: its result does not fit its output schema`
    : never
