/** Typed handles of actors for submitters: the types come from the actor's definition, its module is not loaded. */
import type { CallboardError } from "../errors.ts"
import type { JobHandle, SubmittedJob } from "../jobs/handle.ts"
import type { JsonForm } from "../jobs/json-form.ts"
import type { Submission, SubmissionFields } from "../jobs/submission/submission.ts"
import { compact } from "../protocol/compact.ts"

/** Any actor, as the bound of type parameters: its name and the types of its methods. */
export interface AnyActor {
  readonly _tag: "Actor"
  readonly name: string
  readonly "~types"?: { readonly input: object; readonly result: object }
}

/** Options of a submission without the fields that the handle fills in: method and input. */
export type CallOptions = Omit<SubmissionFields, "input" | "args" | "kwargs" | "meth">

/** Submits tasks for one method of an actor. */
export interface MethodHandle<In, R> {
  /** Submits a task with this input. Resolves once the transport has stored it; fails with `CallboardError`. */
  submit(...args: SubmitArguments<In>): Promise<SubmittedJob<R>>
  /**
   * Submits a task for each input, with the same options, in as few round trips as the transport needs. An invalid task
   * fails the whole call, with its `index` in the error. Otherwise each task has its own result, in order: a job, or the
   * `CallboardError` with which the transport refused it.
   */
  submitMany(
    inputs: ReadonlyArray<In>,
    options?: Omit<CallOptions, "id">,
  ): Promise<ReadonlyArray<SubmittedJob<R> | CallboardError>>
}

/** Submits tasks for one method of an actor from within a handler: they become children of the handler's job. */
export interface ChildMethodHandle<In, R> {
  submit(...args: SubmitArguments<In>): Promise<JobHandle<R>>
  /**
   * Submits a task, waits for the end of its job without holding anything, and resolves with its result, as `job.call` does.
   * `name`: of the call, which no other step or wait of the handler has. Fails with a `StepError` if the job does not succeed.
   */
  call(name: string, ...args: SubmitArguments<In, Omit<CallOptions, "id">>): Promise<R>
}

/**
 * A handler gets an empty object where no input was submitted: so only a method that accepts one may be submitted
 * without input.
 */
type SubmitArguments<In, Options = CallOptions> = [In] extends [undefined | void]
  ? [input?: undefined, options?: Options]
  : Record<never, never> extends In
    ? [input?: In, options?: Options]
    : [input: Exclude<In, undefined>, options?: Options]

/** A method handle for each method of an actor. */
export type ActorHandle<A extends AnyActor> = A extends {
  readonly "~types"?: { readonly input: infer In; readonly result: infer R }
}
  ? {
      readonly [K in keyof R & string]: MethodHandle<K extends keyof In ? In[K] : unknown, JsonForm<R[K]>>
    }
  : never

/** As {@link ActorHandle}, for handlers: what they submit becomes a child of their job. */
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

/** The handle of an actor that submits through a client. */
export const actorHandle = <A extends AnyActor>(name: A["name"], client: Submitting): ActorHandle<A> =>
  handleOf((meth) => ({
    submit: (input?: unknown, fields: SubmissionFields = {}) => client.submit(name, fieldsOf(meth, input, fields)),
    submitMany: (inputs: ReadonlyArray<unknown>, fields: SubmissionFields = {}) =>
      client.submitMany(inputs.map((input) => ({ ...fieldsOf(meth, input, fields), task: name }))),
  }))

/** The handle of an actor that submits through the job of a handler. */
export const childHandle = <A extends AnyActor>(
  name: A["name"],
  job: {
    readonly submit: (task: string, fields: SubmissionFields) => Promise<JobHandle>
    readonly call: (name: string, task: string, fields: SubmissionFields) => Promise<unknown>
  },
): ChildActorHandle<A> =>
  handleOf((meth) => ({
    submit: (input?: unknown, fields: SubmissionFields = {}) => job.submit(name, fieldsOf(meth, input, fields)),
    call: (call: string, input?: unknown, fields: SubmissionFields = {}) =>
      job.call(call, name, fieldsOf(meth, input, fields)),
  }))

const fieldsOf = (meth: string, input: unknown, fields: SubmissionFields): SubmissionFields => ({
  ...fields,
  meth,
  ...compact({ input }),
})

/** A proxy, because the names of the methods are known to the types and to the worker, but not here. */
const handleOf = (method: (name: string) => object) =>
  new Proxy(Object.create(null), {
    get: (_target, name) => (typeof name !== "string" || name === "then" ? undefined : method(name)),
  })
