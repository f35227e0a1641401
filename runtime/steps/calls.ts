/**
 * The calls of steps' functions and of the functions that revert them: what a step may be, how it is called, when it is
 * called again, and what is stored about it.
 */
import { AsyncLocalStorage } from "node:async_hooks"
import * as Cause from "effect/Cause"
import * as Exit from "effect/Exit"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { EachOptions, JobLog, Revert, Step, StepOptions } from "../actor/step.ts"
import { CallboardError } from "../errors.ts"
import { type ResolvedRetry, resolveRetry, retryAfter } from "../jobs/outcome/retry.ts"
import { AnyFunction, parserOf } from "../options/check.ts"
import { milliseconds } from "../options/duration.ts"
import { Duration } from "../options/duration-field.ts"
import { refuseInput } from "../options/refuse.ts"
import { RETRY_FIELDS, RETRY_RULE, retryHeader } from "../options/retry-policy.ts"
import { jsonForm } from "../protocol/codec/json.ts"
import { byteLength, isUnfitForName } from "../protocol/text.ts"
import type { Trace } from "../tracing/trace.ts"
import { TransportError } from "../transport/errors.ts"
import { MAX_TIMER_MS, sleep } from "../transport/timers.ts"
import { errorOf, failureNamed, failureOf } from "./failure.ts"
import type { Noted, StepEntry, StepFailure, WaitEntry } from "./page.ts"
import type { Read } from "./pages.ts"

// ── What a step may be ──────────────────────────────────────────────────────────────────────────────────────────────

/** The most steps in one run of a job. */
const MAX_STEPS = 10_000
/** The most bytes of a journal with which a further step begins. Reverts are stored beyond it. */
const MAX_BYTES = 64 * 1024 * 1024
const MAX_MIB = `${MAX_BYTES / 2 ** 20} MiB`
/** The part of either limit from which a warning is logged. */
const MUCH = 0.8
const MAX_NAME_BYTES = 128

export interface Plan {
  readonly retry: ResolvedRetry
  readonly limitMs: number | undefined
  readonly revert: ((reverting: Revert<never>) => unknown) | undefined
}

class InvalidStep extends Error {
  override readonly name: string
  constructor(name: string, message: string) {
    super(message)
    this.name = name
  }
}

export const checkName = (name: unknown, field = "name"): void => {
  if (typeof name !== "string" || name === "") refuseInput(field, "must be text")
  else if (name.length * 3 > MAX_NAME_BYTES && byteLength(name) > MAX_NAME_BYTES)
    refuseInput(field, `must have at most ${MAX_NAME_BYTES} bytes`)
  else if (isUnfitForName(name)) refuseInput(field, "must be well-formed text without control characters")
}

export const checkCall = (name: unknown, run: unknown, field = "run"): void => {
  checkName(name)
  if (typeof run !== "function") refuseInput(field, "must be a function")
}

/** The key of each item. Fails for a key that is no text, and for two equal keys. */
export const keysOf = <In>(items: ReadonlyArray<In>, key: (item: In) => unknown): ReadonlyArray<string> => {
  if (typeof key !== "function") refuseInput("key", "must be a function")
  const keys = new Set<string>()
  for (const item of items) {
    const each = key(item)
    if (typeof each !== "string") refuseInput("key", `must return a text for each item, not ${String(each)}`)
    else if (keys.has(each))
      refuseInput("key", `must return a different text for each item, but returned ${each} twice`)
    else keys.add(each)
  }
  return [...keys]
}

/** Whether an error of this name asks the job to do something, so that the step is not tried again before. */
export const isRequest = (name: string): boolean => name === "Retry" || name === "Ignore"

const NO_RETRY = resolveRetry(undefined, undefined)
const PLAIN: Plan = { retry: NO_RETRY, limitMs: undefined, revert: undefined }

const { front: _front, ...retryFields } = RETRY_FIELDS
export const STEP_OPTIONS = {
  retry: Schema.optionalKey(
    Schema.Union([Schema.Literal(false), Schema.Struct(retryFields)]).annotate({ message: RETRY_RULE }),
  ),
  timeLimit: Schema.optionalKey(Duration),
  revert: Schema.optionalKey(AnyFunction),
} satisfies Record<keyof StepOptions<never>, unknown>
const parseStepOptions = parserOf(Schema.Struct(STEP_OPTIONS), "a step", "options")

export const EACH_OPTIONS = { ...STEP_OPTIONS, key: true, parallel: true } satisfies Record<
  keyof EachOptions<never, never>,
  unknown
>

export const planOf = (options: StepOptions<never> | undefined): Plan => {
  if (options === undefined) return PLAIN
  const { retry, timeLimit } = parseStepOptions(options)
  const limitMs = timeLimit === undefined ? undefined : milliseconds("timeLimit", timeLimit)
  if (limitMs === 0) refuseInput("timeLimit", "must be more than 0")
  return {
    retry: retry === undefined ? NO_RETRY : resolveRetry(retryHeader(retry), undefined),
    limitMs,
    revert: options.revert,
  }
}

/** Fails for a step that the job may not begin now. `names`: the steps that it has begun. `inside`: what begins this one. */
export const checkUse = (
  name: string,
  names: ReadonlySet<string>,
  inside: { readonly step: boolean; readonly hook: boolean },
): void => {
  if (inside.hook) {
    const message = `step ${name} was started in a hook, which runs after the steps: start it in the handler`
    throw new InvalidStep("LateStep", message)
  }
  if (inside.step) {
    const message = `step ${name} was started inside another step: start it after that step, or combine both in one step`
    throw new InvalidStep("NestedStep", message)
  }
  if (names.has(name)) {
    const message = `step ${name} was already started; in a loop use job.each, or a name such as ${name}/<id>`
    throw new InvalidStep("DuplicateStep", message)
  }
}

/** Refuses a step of a job that has no room for its outcome. `steps`: how many had begun with it, this one included. */
export const checkRoom = (name: string, steps: number, bytes: number): void => {
  const refuse = (max: string, instead: string) => {
    const message = `step ${name} does not start, because a job has at most ${max}: ${instead}, or submit separate jobs`
    throw new InvalidStep("JournalFull", message)
  }
  if (steps > MAX_STEPS) refuse(`${MAX_STEPS} steps`, "combine several steps in one")
  if (bytes >= MAX_BYTES) refuse(MAX_MIB, "store large results elsewhere and return their address")
}

/** A line of the log that says how full the journal is; `undefined` while much room is left. */
export const nearlyFull = (steps: number, bytes: number): string | undefined =>
  Math.max(steps / MAX_STEPS, bytes / MAX_BYTES) < MUCH
    ? undefined
    : `it has ${steps} steps of ${MAX_STEPS}, and ${Math.round(bytes / 2 ** 20)} MiB of ${MAX_MIB}`

// ── How it is called ────────────────────────────────────────────────────────────────────────────────────────────────

const MAX_WAIT_MS = 600_000
const REVERT_LIMIT_MS = 600_000
const REVERT_RETRY = resolveRetry({ max: 5, baseMs: 1_000, maxMs: 60_000 }, undefined)

export type BegunWait = Pick<WaitEntry, "step" | "until" | "signal" | "job"> & { readonly forMs?: number }

/** What the steps of an attempt need of the worker. A write never settles once another delivery has the job. */
export interface StepPort {
  /** Opens the journal and resolves with its entries, and with how many bytes it has. */
  open(): Promise<Pick<Read, "entries" | "bytes">>
  /**
   * Resolves when the entry is stored, with the bytes of the journal. A large result is stored under a key of its own.
   */
  note(entry: StepEntry): Promise<number>
  /** The result that is stored under this key. */
  value(name: string): Promise<unknown>
  /** Marks the job's record before its first step with a revert: from then on a cancellation reverts the steps. */
  markReverts(): Promise<void>
  /**
   * Asked before a step, or the revert of one, begins. `undefined` unless this process stood still, or its worker is told to
   * stop. Then it resolves once it is certain that this delivery still has the job, or once the attempt was ended.
   */
  doubt(): Promise<void> | undefined
  /** Called when a step, or the revert of one, begins. */
  began(name: string, state: "started" | "reverting"): void
  /** Fires the job's signal where it was cancelled: the announcement of that may be late, or lost. */
  checkCancelled(): Promise<void>
  /** Resolves once it is stored that the handler waits under this name. `forMs`: until that many milliseconds from now. */
  wait(begun: BegunWait): Promise<void>
  /**
   * Called while the handler only waits. Resolves with the outcomes of the waits that are over, which are stored; with none if
   * the job is to be suspended. A wait that is over in a moment is waited for in here.
   */
  rest(): Promise<ReadonlyArray<StepEntry>>
  /** The handler is left, and its job continues in a later delivery. */
  suspend(): void
  /** Called when every step that can be reverted is, or when a revert has failed for good. */
  finished(): Promise<void>
}

export interface StepCall {
  interrupt: (() => void) | undefined
  pending: Promise<unknown> | undefined
  isEffect: boolean
  trace: Trace | undefined
}

export interface CallOptions {
  readonly id: string
  readonly run: number
  readonly retries: number
  readonly port: StepPort
  readonly log: () => JobLog
  readonly progress: Step["progress"]
  /** The job's signal. */
  readonly signal: () => AbortSignal
  /** Whether the attempt was ended from outside, so that no further step or try begins. */
  readonly isOver: () => boolean
  /** Calls a function that may return a value, a promise or an Effect. */
  readonly invoke: (
    call: StepCall,
    run: () => unknown,
  ) => Exit.Exit<unknown, unknown> | Promise<Exit.Exit<unknown, unknown>>
}

type Outcome = { readonly value: unknown } | { readonly failure: StepFailure; readonly final: boolean }

const inside = new AsyncLocalStorage<StepCalls>()

export class StepCalls {
  /** Bytes of the journal, as far as this process knows. */
  bytes = 0
  readonly #options: CallOptions
  readonly #onReturn: () => void
  readonly #calls = new Set<StepCall>()
  /** Functions that have not returned, those of an ended attempt included. */
  #executing = 0
  /** Ends reverts, which neither the soft time limit nor a cancellation ends. */
  #over: AbortController | undefined

  constructor(options: CallOptions, onReturn: () => void) {
    this.#options = options
    this.#onReturn = onReturn
  }

  /** Whether every function has returned, those of an ended attempt included. */
  get areOver(): boolean {
    return this.#executing === 0
  }

  /** Whether the caller runs inside the function of a step. */
  get isInside(): boolean {
    return inside.getStore() === this
  }

  /** Ends the wait for each function that runs. */
  interrupt(): void {
    for (const call of this.#calls) call.interrupt?.()
    this.#over?.abort()
  }

  /**
   * Runs a step until it succeeds or may not be tried again, and stores its outcome. Resolves with the form of its result, or with
   * `undefined` where the attempt was ended from outside: then the step has not failed, and the next attempt runs it
   * again. Fails with the error of the step. `isLast`: whether no further try begins.
   */
  async perform(
    name: string,
    run: (step: Step) => unknown,
    plan: Plan,
    isLast: () => boolean,
  ): Promise<{ readonly form: unknown } | undefined> {
    const { port, retries } = this.#options
    const tried = await this.#try(name, plan, run, ({ names }) => !isLast() && !names.some(isRequest))
    if (tried === undefined) return undefined
    const noted = plan.revert === undefined ? tried.noted : { ...tried.noted, revert: true as const }
    let { outcome } = tried
    if ("value" in outcome) {
      const { value } = outcome
      try {
        this.bytes = await port.note({ kind: "ok", ...noted, value })
        return { form: value }
      } catch (cause) {
        if (!isTooLarge(cause)) throw cause
        const message = `${cause.message}; store large results elsewhere and return their address`
        outcome = { failure: failureNamed("ResultTooLarge", message), final: true }
      }
    }
    const { failure } = outcome
    await port.note({ kind: "err", ...noted, failure, retries })
    throw errorOf(failure)
  }

  /**
   * Reverts a step, with retries, and stores the outcome. Resolves with `true`, or with why it failed; with `undefined` if it
   * has failed and `isOver` says that it is to be tried by a later delivery.
   */
  async revert(
    name: string,
    { limitMs = REVERT_LIMIT_MS }: Plan,
    run: (step: Step) => unknown,
    isOver: () => boolean,
  ): Promise<true | StepFailure | undefined> {
    const { port, log } = this.#options
    const again = ({ message }: StepFailure, tries: number) => {
      log().warn(`the revert of ${name} failed; trying again`, { cause: message, tries })
      return true
    }
    this.#over ??= new AbortController()
    const { signal } = this.#over
    const plan = { limitMs, retry: REVERT_RETRY, isOver, signal: () => signal }
    const tried = await this.#try(name, plan, run, again)
    if (tried === undefined) return undefined
    const { outcome, noted } = tried
    // The result of a revert is not used, so it need not be JSON.
    if ("value" in outcome || outcome.failure.names[0] === "ResultUnserialisable") {
      await port.note({ kind: "reverted", ...noted })
      return true
    }
    await port.note({ kind: "revert-failed", ...noted, failure: outcome.failure })
    return outcome.failure
  }

  /**
   * Calls a function until it succeeds or may not be called again; `isAgain` may refuse a further try. Resolves with
   * `undefined` where it has failed and the attempt was ended from outside.
   */
  async #try(
    name: string,
    {
      retry,
      limitMs,
      isOver = this.#options.isOver,
      signal = this.#options.signal,
    }: Pick<Plan, "retry" | "limitMs"> & Partial<Pick<CallOptions, "isOver" | "signal">>,
    run: (step: Step) => unknown,
    isAgain: (failure: StepFailure, tries: number) => boolean,
  ): Promise<{ readonly outcome: Outcome; readonly noted: Noted } | undefined> {
    const began = performance.now()
    for (let tries = 1; ; tries++) {
      const step = new RunningStep(this.#options, name, tries, signal)
      const outcome = await this.#call(name, step, limitMs, run)
      const noted = { step: name, at: Date.now(), took: Math.round(performance.now() - began), tries }
      if ("value" in outcome) return { outcome, noted }
      if (isOver()) return undefined
      const { failure, final } = outcome
      const error = { name: failure.names[0] ?? "", message: failure.message, reason: "handler" }
      const wait = final ? undefined : retryAfter(retry, error, tries - 1, Math.random())
      if (wait === undefined || !isAgain(failure, tries)) return { outcome, noted }
      await sleep(Math.min(wait, MAX_WAIT_MS), this.#options.signal())
      if (isOver()) return undefined
    }
  }

  async #call(
    name: string,
    step: RunningStep,
    limitMs: number | undefined,
    run: (step: Step) => unknown,
  ): Promise<Outcome> {
    const call: StepCall = { interrupt: undefined, pending: undefined, isEffect: false, trace: undefined }
    let late: string | undefined
    const stop = (ms: number) => () => {
      late = `exceeded its time limit of ${ms / 1000} s`
      step.abort(new DOMException(`it ${late}`, "TimeoutError"))
      call.interrupt?.()
    }
    const timer = limitMs === undefined ? undefined : setTimeout(stop(limitMs), Math.min(limitMs, MAX_TIMER_MS))
    this.#calls.add(call)
    this.#executing++
    // The context covers the whole call, since an Effect that the function returns runs only after the function.
    const called = inside.run(this, () => this.#options.invoke(call, () => run(step)))
    const exit = called instanceof Promise ? await called : called
    clearTimeout(timer)
    this.#calls.delete(call)
    const ended = () => {
      this.#executing--
      this.#onReturn()
    }
    if (call.pending === undefined) ended()
    else void call.pending.then(ended, ended)
    if (late !== undefined)
      return { failure: failureNamed("TimeLimitExceeded", `the step ${name} ${late}`), final: false }
    if (Exit.isFailure(exit)) {
      const failure = failureOf(Cause.squash(exit.cause))
      return { failure, final: failure.names.includes("Reject") }
    }
    const form = jsonForm(exit.value, "result")
    if (Result.isSuccess(form)) return { value: form.success ?? null }
    return {
      failure: failureNamed("ResultUnserialisable", `${form.failure.message}: return plain values from a step`),
      final: true,
    }
  }
}

/**
 * The key of a step of one run. Slashes of an id are escaped, since a name may hold slashes as well: `a/1`, `x` and `a`,
 * `2/x`.
 */
export const stepKey = (id: string, run: number, name: string): string =>
  `${id.replace(/[%/]/g, encodeURIComponent)}/${run}/${name}`

/** What the function of a step gets, in one try. */
class RunningStep implements Step {
  readonly key: string
  readonly attempt: number
  readonly progress: Step["progress"]
  readonly #options: CallOptions
  readonly #jobSignal: () => AbortSignal
  // Made when a step asks for its signal: most steps do not.
  #abort: AbortController | undefined
  #signal: AbortSignal | undefined

  constructor(options: CallOptions, name: string, attempt: number, jobSignal: () => AbortSignal) {
    this.#jobSignal = jobSignal
    this.key = stepKey(options.id, options.run, name)
    this.attempt = attempt
    this.progress = options.progress
    this.#options = options
  }

  get signal(): AbortSignal {
    this.#abort ??= new AbortController()
    this.#signal ??= AbortSignal.any([this.#jobSignal(), this.#abort.signal])
    return this.#signal
  }

  get log(): JobLog {
    return this.#options.log()
  }

  abort(reason: DOMException): void {
    this.#abort ??= new AbortController()
    this.#abort.abort(reason)
  }
}

const isTooLarge = (cause: unknown): cause is TransportError | CallboardError =>
  (cause instanceof TransportError && cause.reason === "too-large") ||
  (cause instanceof CallboardError && cause.code === "too-large")
