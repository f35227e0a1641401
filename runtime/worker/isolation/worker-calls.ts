/**
 * Performs the calls of an isolated handler that need the worker's transport: submits and follows jobs, with the
 * handler's job as parent.
 */
import * as Result from "effect/Result"
import type { Client } from "../../client/client.ts"
import { CONNECTED } from "../../client/connected-handle.ts"
import { CallboardError } from "../../errors.ts"
import { callHandle, HANDLE, HANDLE_METHODS } from "../../jobs/handle.ts"
import type { SubmissionFields } from "../../jobs/submission/submission.ts"
import { parseJson } from "../../protocol/codec/json.ts"
import type { BegunWait, StepPort } from "../../steps/calls.ts"
import type { StepEntry } from "../../steps/page.ts"
import { TransportError } from "../../transport/errors.ts"
import type { JobContext, WorkerPort } from "../run/job-context.ts"
import type { ProcessMessage, ProcessRequest } from "./messages.ts"

type WorkerCall = Extract<ProcessMessage, { readonly kind: "ask" }>
type CallFailure = NonNullable<Extract<ProcessRequest, { readonly kind: "answer" }>["refused"]>

/** The run that makes the calls. */
interface Caller {
  readonly job: JobContext<WorkerPort>
  readonly client: Client
  readonly signal: AbortSignal
}

type Methods<Name extends string = string> = Readonly<
  Record<Name, (caller: Caller, ...args: ReadonlyArray<unknown>) => unknown>
>

const JOB: Methods = {
  // The submission validates task and fields with its own schema.
  submit: async ({ job }, task, fields) => (await job.submit(task as string, fields as SubmissionFields)).id,
  parent: ({ job }) => job.parent(),
}

/** Where a method waits, it also ends with the run. */
const HANDLES: Methods = Object.fromEntries(
  HANDLE_METHODS.map((method) => {
    const waits = "signal" in HANDLE[method].options
    return [
      method,
      ({ client: { connection }, signal }: Caller, id: unknown, given: unknown) => {
        const argument = waits ? Object.assign({ signal }, given) : given
        return callHandle(CONNECTED, { connection, isNew: () => false }, String(id), method, argument)
      },
    ]
  }),
)

/** See `StepPort`. The child writes the entries, and reads them again. */
const STEPS: Methods<keyof StepPort | "returned"> = {
  open: async ({ job: { port } }) => {
    const { entries, bytes } = await port.steps.open()
    return { entries, bytes }
  },
  note: async ({ job: { port } }, entry) => {
    try {
      return await port.steps.note(entry as StepEntry)
    } catch (cause) {
      if (cause instanceof TransportError && cause.reason === "too-large")
        throw new CallboardError("too-large", cause.message)
      throw cause
    }
  },
  value: ({ job: { port } }, name) => port.steps.value(String(name)),
  markReverts: ({ job: { port } }) => port.steps.markReverts(),
  checkCancelled: ({ job: { port } }) => port.steps.checkCancelled(),
  doubt: ({ job: { port } }) => port.steps.doubt(),
  returned: ({ job: { port } }) => port.steps.returned(),
  began: ({ job: { port } }, name, state) =>
    port.steps.began(String(name), state === "reverting" ? "reverting" : "started"),
  wait: ({ job: { port } }, begun) => port.steps.wait(begun as BegunWait),
  rest: ({ job: { port } }) => port.steps.rest(),
  suspend: ({ job: { port } }) => port.steps.suspend(),
  finished: ({ job: { port } }) => port.steps.finished(),
}

/** What a handler may call. Entries of steps stay as they are written: their values are in the form in which they are stored. */
const OBJECTS: Readonly<Record<string, { readonly methods: Methods; readonly read: (text: string) => unknown }>> = {
  job: { methods: JOB, read: (text) => Result.getOrThrowWith(parseJson(text), unreadable) },
  handle: { methods: HANDLES, read: JSON.parse },
  steps: { methods: STEPS, read: JSON.parse },
}

const unreadable = ({ message }: { readonly message: string }) => new CallboardError("invalid-input", message)

/** Resolves with the result of the call; fails with its error, and with `internal` for a call that does not exist. */
export const performCall = async ({ object, method, args }: WorkerCall, caller: Caller): Promise<unknown> => {
  const called = Object.hasOwn(OBJECTS, object) ? OBJECTS[object] : undefined
  const act = called !== undefined && Object.hasOwn(called.methods, method) ? called.methods[method] : undefined
  if (called === undefined || act === undefined)
    throw new CallboardError(
      "internal",
      `an isolated handler cannot call ${object}.${method}: the worker does not know it`,
    )
  const given = called.read(args)
  return act(caller, ...(Array.isArray(given) ? given : []))
}

/** Describes the error of a call, so that the process can rebuild it. */
export const callFailureOf = (cause: unknown): CallFailure => {
  if (!(cause instanceof Error)) return { name: "Error", message: String(cause) }
  const { name, message } = cause
  if (cause instanceof CallboardError) {
    const { field, id } = cause.details
    return {
      name,
      message,
      code: cause.code,
      ...(field === undefined ? {} : { field }),
      ...(id === undefined ? {} : { id }),
    }
  }
  return { name, message, ...("id" in cause && typeof cause.id === "string" ? { id: cause.id } : {}) }
}
