/** An actor from afar: its types flow from its definition to `submit` and `result()`, without its code. */
import type { ActorDefinition } from "../actor.ts"
import type { SubmittedJob } from "./job-handle.ts"
import type { JsonForm } from "./json-form.ts"
import type { SubmissionFields } from "./submitting/submission.ts"

/** Any actor, for type parameters. */
export interface AnyActor extends ActorDefinition {
  readonly "~types"?: { readonly input: object; readonly result: object }
}

/** Everything but what the handle itself fills in. */
export type CallOptions = Omit<SubmissionFields, "input" | "args" | "kwargs" | "meth">

/** One method of an actor, from afar. */
export interface MethodHandle<In, R> {
  /** Submits a task for this method; resolves once it is kept. */
  submit(...args: SubmitArguments<In>): Promise<SubmittedJob<R>>
}

/** Nothing submitted is an empty object to the handler: only a method that takes one may be submitted with nothing. */
type SubmitArguments<In> = [In] extends [undefined | void]
  ? [input?: undefined, options?: CallOptions]
  : Record<never, never> extends In
    ? [input?: In, options?: CallOptions]
    : [input: Exclude<In, undefined>, options?: CallOptions]

export type ActorHandle<A extends AnyActor> = A extends {
  readonly "~types"?: { readonly input: infer In; readonly result: infer R }
}
  ? {
      readonly [K in keyof R & string]: MethodHandle<K extends keyof In ? In[K] : unknown, JsonForm<R[K]>>
    }
  : never

/** Submits through `submit`. Types only: the actor's module is not loaded. */
export const actorHandle = <A extends AnyActor>(
  name: A["name"],
  submit: (task: string, fields: SubmissionFields) => Promise<SubmittedJob>,
): ActorHandle<A> => {
  // A proxy answers every method name: which ones exist is known to the types and to the worker, not here.
  const handle = new Proxy(Object.create(null), {
    get: (_target, method) =>
      typeof method !== "string" || method === "then"
        ? undefined
        : {
            submit: (input?: unknown, fields: SubmissionFields = {}) =>
              submit(name, { ...fields, meth: method, ...(input === undefined ? {} : { input }) }),
          },
  })
  return handle
}
