/**
 * The handle of a job: its methods, and how the argument of each is checked. Over a transport, over HTTP
 * and over the channel of an isolated handler it is made of {@link HANDLE} by {@link handleOf}.
 */
import { milliseconds } from "../options/duration.ts"
import { durationIn, flag, plainParser, type Rule, signal } from "../options/plain.ts"
import { changedMeta, metaInJson } from "./changed-meta.ts"
import type { CancelOptions } from "./commands/cancel.ts"
import type { DeleteOptions } from "./commands/delete.ts"
import type { RetryOptions } from "./commands/rerun.ts"
import type { JobEvent } from "./lists.ts"
import type { Receipt } from "./receipt.ts"
import {
  parseSignal,
  parseSignalOptions,
  SIGNAL_OPTIONS,
  type SignalOptions,
  type SignalRequest,
} from "./signal-request.ts"
import type { Outcome } from "./tracking/outcome.ts"
import type { JobView, RunView } from "./view.ts"

/** A job by its id. Nothing is asked of the transport until a method is called. */
export interface JobHandle<R = unknown> {
  readonly id: string
  /** The job as it is now, with its result in the form that HTTP shows. Fails with `CallboardError` `not-found`, and `gone` once it is deleted or not kept any more. */
  find(): Promise<JobView>
  /**
   * Waits for the end of the job and resolves with its result, also while the transport cannot be reached. Fails with `JobFailed`, `JobCancelled`, `JobExpired`,
   * `ResultGone`, and with `WaitTimeout` while the job goes on.
   *
   * @example
   * ```ts
   * const job = await client.submit("orders.total", { input: { items: ["tea"] } })
   * const total = await job.result({ timeout: "30 seconds" })
   * ```
   */
  result(options?: WaitOptions): Promise<R>
  /** Waits for the end of the job and resolves with its outcome, as a union by `state`. Fails with `WaitTimeout`. */
  outcome(options?: WaitOptions): Promise<Outcome<R>>
  /**
   * How the last ten runs ended, newest first, with their results in the form that HTTP shows. A job that runs once has one
   * once it has ended. Fails with `not-found`, and `gone`.
   */
  results(options?: ResultsOptions): Promise<ReadonlyArray<RunView>>
  /**
   * The job's transitions and progress: first those so far (after `lastEventId`, if given), then live, until the job ends.
   * Fails with `not-found`.
   */
  events(options?: FollowOptions): AsyncIterable<JobEvent>
  /** Cancels the job. Fails with `already-terminal`. */
  cancel(options?: CancelOptions): Promise<JobView>
  /**
   * Runs the ended job again, as its next run. Fails with `job-exists` before it has ended, `unsupported` where its
   * input is not kept, and `invalid-input` for a step that it does not have.
   */
  retry(options?: RetryOptions): Promise<JobView>
  /**
   * Changes the meta data of the job by a merge patch (RFC 7396): fields are set, `null` removes one. The handler sees it in its
   * next attempt; where it changes the same field while it runs, the value that is given here stays. Fails with
   * `invalid-input`, `not-found`, and `gone`.
   */
  patchMeta(patch: Readonly<Record<string, unknown>>): Promise<JobView>
  /**
   * Sends a value to the job: its handler gets it by `job.waitFor(name)`, also if it comes there later. A job that waits for it
   * continues. With the `key` of an earlier signal of the job it counts once. Fails with `invalid-input`, `not-found`, `gone`,
   * `already-terminal`, and `too-large`.
   */
  signal(name: string, value?: unknown, options?: SignalOptions): Promise<void>
  /** Deletes the record of the job; if it waits, it will not run. Fails with `job-exists` while it runs. */
  delete(options?: DeleteOptions): Promise<void>
}

export interface WaitOptions {
  /** Longest wait: seconds, or text such as `"1 minute"`. Defaults to no bound. */
  readonly timeout?: number | string | undefined
  readonly signal?: AbortSignal | undefined
}

export interface ResultsOptions {
  /** How long to wait for the first result where there is none: seconds, or text such as `"1 minute"`. Defaults to 0. */
  readonly wait?: number | string | undefined
  readonly signal?: AbortSignal | undefined
}

export interface FollowOptions {
  /** Id of the last event that the caller has seen, such as `"1.3"`; events after it are told. Defaults to all events. */
  readonly lastEventId?: string | undefined
  readonly signal?: AbortSignal | undefined
}

/** The handle of a job that was just submitted. */
export interface SubmittedJob<R = unknown> extends JobHandle<R> {
  readonly receipt: Receipt
}

/** The methods that answer with a promise. */
export type HandleMethod = Exclude<keyof JobHandle, "id" | "events">

/** What a method takes: its options, or its patch. */
type ArgumentOf<M extends HandleMethod | "events"> = M extends "signal"
  ? SignalRequest
  : Parameters<JobHandle[M]> extends readonly []
    ? Record<never, never>
    : NonNullable<Parameters<JobHandle[M]>[0]>

type OptionsOf<M extends HandleMethod | "events"> = M extends "signal" ? SignalOptions : ArgumentOf<M>

interface Method<Argument, Options = Argument> {
  /** The options, none of which is required. */
  readonly options: { readonly [Name in keyof Options]-?: Rule }
  /** Makes one argument of several. */
  readonly pack?: (...given: ReadonlyArray<unknown>) => unknown
  /** The checked argument. Fails with `invalid-input`, and with `unknown-field` for an option that does not exist. */
  readonly parse: (given: unknown, id?: string) => Argument
}

const withOptions = <Options>(call: string, options: Method<Options>["options"]): Method<Options> => {
  return { options, parse: plainParser(options, call) }
}

const EVENT_ID = /^\d{1,15}\.\d{1,15}$/

/** The rule for the id of an event of a job; empty text is none, as an EventSource has it. */
export const eventId: Rule = (id) => {
  if (typeof id !== "string") return "must be text"
  return id === "" || EVENT_ID.test(id) ? undefined : "is not an event id, such as 1.3"
}

const fromStart: Rule = (step) => (step === "start" ? undefined : 'must be "start"')
const stepName: Rule = (step) => (typeof step === "string" && step !== "" ? undefined : "must be the name of a step")

const WAIT = { timeout: durationIn(), signal }

/** Each method of the handle of a job. Every way of calling one has its options from here. */
export const HANDLE: { readonly [M in HandleMethod | "events"]: Method<ArgumentOf<M>, OptionsOf<M>> } = {
  // Arguments are not looked at, so that it can be passed as a callback.
  find: { options: {}, parse: () => ({}) },
  result: withOptions<ArgumentOf<"result">>("result()", WAIT),
  outcome: withOptions<ArgumentOf<"outcome">>("outcome()", WAIT),
  results: withOptions<ArgumentOf<"results">>("results()", { wait: durationIn(), signal }),
  events: withOptions<ArgumentOf<"events">>("events()", { lastEventId: eventId, signal }),
  cancel: withOptions<ArgumentOf<"cancel">>("cancel()", { terminate: flag, release: flag }),
  retry: withOptions<ArgumentOf<"retry">>("retry()", { from: fromStart, fromStep: stepName }),
  patchMeta: {
    options: {},
    parse: (patch, id = "") => {
      changedMeta({}, patch, id)
      return metaInJson(() => patch, id)
    },
  },
  signal: {
    options: SIGNAL_OPTIONS,
    pack: (name, value, options) => ({ ...parseSignalOptions(options), name, value }),
    // What else it may be is checked where it is stored.
    parse: (given, id = "") => parseSignal(given as SignalRequest, id),
  },
  delete: withOptions<ArgumentOf<"delete">>("delete()", { dependents: flag }),
}

/** What the methods do over `Over`, such as a connection. Their arguments have been checked. */
export type HandleActions<Over> = {
  readonly [M in HandleMethod]: (over: Over, id: string, argument: ArgumentOf<M>) => ReturnType<JobHandle[M]>
}

/** How long a call waits for the end of a job, in milliseconds. */
export const timeoutMsOf = ({ timeout }: WaitOptions): number =>
  timeout === undefined ? Number.POSITIVE_INFINITY : milliseconds("timeout", timeout)

/** How long a call waits for the first result of a job, in milliseconds. */
export const resultsWaitMsOf = ({ wait = 0 }: ResultsOptions): number => milliseconds("wait", wait)

const isHandleMethod = (name: string): name is HandleMethod => name !== "events" && Object.hasOwn(HANDLE, name)

export const HANDLE_METHODS: ReadonlyArray<HandleMethod> = Object.keys(HANDLE).filter(isHandleMethod)

/** Checks the argument of a method, and does what the method does. */
export const callHandle = <M extends HandleMethod, Over>(
  actions: HandleActions<Over>,
  over: Over,
  id: string,
  method: M,
  given: unknown,
): ReturnType<JobHandle[M]> => actions[method](over, id, HANDLE[method].parse(given, id))

/** The handle of a job whose methods do what the actions say. */
export const handleOf = <Over, R>(
  actions: HandleActions<Over>,
  over: Over,
  id: string,
): Omit<JobHandle<R>, "events"> => {
  const handle: Record<string, unknown> = { id }
  for (const method of HANDLE_METHODS)
    handle[method] = async (...given: ReadonlyArray<unknown>) =>
      callHandle(actions, over, id, method, HANDLE[method].pack?.(...given) ?? given[0])
  // Each method has been added. What the job returned is what the caller says that it is.
  return handle as Omit<JobHandle<R>, "events">
}
