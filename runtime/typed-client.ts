/** The types that flow from an actor's definition to `submit` and `result()`, without its code. */
import type { Effect } from "effect"
import type { ActorDefinition } from "./actor.ts"
import type { SubmittedJob } from "./client.ts"
import type { SubmissionFields } from "./submission.ts"

/** Any actor, for type parameters. */
export interface AnyActor extends ActorDefinition {
  readonly "~types"?: { readonly input: object; readonly result: object }
}

/** What a handler's answer resolves to. */
export type Resolved<R> = R extends Effect.Effect<infer A, infer _E, infer _R> ? A : Awaited<R>

/** A value after a round trip through JSON: what a record can hold. */
export type JsonForm<T> = T extends string | number | boolean | null
  ? T
  : T extends undefined | void
    ? null
    : T extends { toJSON(): infer J }
      ? JsonForm<J>
      : T extends bigint | symbol | ((...args: never) => unknown)
        ? never
        : T extends ReadonlyArray<infer E>
          ? ReadonlyArray<JsonForm<E>>
          : T extends ReadonlyMap<unknown, unknown> | ReadonlySet<unknown>
            ? Record<string, never>
            : T extends object
              ? { readonly [K in keyof T as T[K] extends (...args: never) => unknown ? never : K]: JsonForm<T[K]> }
              : unknown

/** Everything but what the handle itself fills in. */
export type CallOptions = Omit<SubmissionFields, "input" | "args" | "kwargs" | "meth">

/** One method of an actor, from afar. */
export interface MethodHandle<In, R> {
  /** Submits a task for this method; resolves once it is kept. */
  submit(...args: SubmitArguments<In>): Promise<SubmittedJob<R>>
}

/** A method that takes nothing can be submitted with nothing. */
type SubmitArguments<In> = unknown extends In
  ? [input?: In, options?: CallOptions]
  : undefined extends In
    ? [input?: In, options?: CallOptions]
    : [input: In, options?: CallOptions]

export type ActorHandle<A extends AnyActor> = A extends {
  readonly "~types"?: { readonly input: infer In; readonly result: infer R }
}
  ? {
      readonly [K in keyof R & string]: MethodHandle<K extends keyof In ? In[K] : unknown, JsonForm<Resolved<R[K]>>>
    }
  : never
