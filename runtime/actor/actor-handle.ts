/** An actor from afar: its types flow from its definition to `submit` and `result()`, without its code. */
import type { CallboardError } from "../errors.ts"
import type { JobHandle, SubmittedJob } from "../jobs/handle.ts"
import type { JsonForm } from "../jobs/json-form.ts"
import type { Submission, SubmissionFields } from "../jobs/submission/submission.ts"

/** Any actor, for type parameters: its name, and the types that it carries. */
export interface AnyActor {
  readonly _tag: "Actor"
  readonly name: string
  readonly "~types"?: { readonly input: object; readonly result: object }
}

/** Everything but what the handle itself fills in. */
export type CallOptions = Omit<SubmissionFields, "input" | "args" | "kwargs" | "meth">

/** One method of an actor, from afar. */
export interface MethodHandle<In, R> {
  /** Submits a task for this method; resolves once it is kept. */
  submit(...args: SubmitArguments<In>): Promise<SubmittedJob<R>>
  /**
   * Submits a task for each of these inputs, with the same options, in as few round trips as the transport needs. One that
   * is wrong fails all, with its `index`; then each has its own answer, in order.
   */
  submitMany(
    inputs: ReadonlyArray<In>,
    options?: Omit<CallOptions, "id">,
  ): Promise<ReadonlyArray<SubmittedJob<R> | CallboardError>>
}

/** One method of an actor, for a handler: what it submits is a child of its job. */
export interface ChildMethodHandle<In, R> {
  submit(...args: SubmitArguments<In>): Promise<JobHandle<R>>
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

/** An actor as a handler submits to it. */
export type ChildActorHandle<A extends AnyActor> = A extends {
  readonly "~types"?: { readonly input: infer In; readonly result: infer R }
}
  ? {
      readonly [K in keyof R & string]: ChildMethodHandle<K extends keyof In ? In[K] : unknown, JsonForm<R[K]>>
    }
  : never

interface Submitting {
  submit(task: string, fields: SubmissionFields): Promise<SubmittedJob>
  submitMany(submissions: ReadonlyArray<Submission>): Promise<ReadonlyArray<SubmittedJob | CallboardError>>
}

/** Submits through a client. Types only: the actor's module is not loaded. */
export const actorHandle = <A extends AnyActor>(name: A["name"], client: Submitting): ActorHandle<A> =>
  handleOf((meth) => ({
    submit: (input?: unknown, fields: SubmissionFields = {}) => client.submit(name, fieldsOf(meth, input, fields)),
    submitMany: (inputs: ReadonlyArray<unknown>, fields: SubmissionFields = {}) =>
      client.submitMany(inputs.map((input) => ({ ...fieldsOf(meth, input, fields), task: name }))),
  }))

/** Submits through the job of a handler. */
export const childHandle = <A extends AnyActor>(
  name: A["name"],
  submit: (task: string, fields: SubmissionFields) => Promise<JobHandle>,
): ChildActorHandle<A> =>
  handleOf((meth) => ({
    submit: (input?: unknown, fields: SubmissionFields = {}) => submit(name, fieldsOf(meth, input, fields)),
  }))

const fieldsOf = (meth: string, input: unknown, fields: SubmissionFields): SubmissionFields => ({
  ...fields,
  meth,
  ...(input === undefined ? {} : { input }),
})

/** A proxy answers every method name: which ones exist is known to the types and to the worker, not here. */
const handleOf = (method: (name: string) => object) =>
  new Proxy(Object.create(null), {
    get: (_target, name) => (typeof name !== "string" || name === "then" ? undefined : method(name)),
  })
