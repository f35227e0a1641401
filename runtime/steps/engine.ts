/**
 * The steps of one attempt, in the process that runs the handler. A step whose outcome is in the journal resolves with
 * it; any other step runs, and its outcome is stored before the handler goes on. While steps are reverted, no further
 * step runs: the handler stays at the first step without an outcome, and the completed steps are reverted.
 */
import * as Cause from "effect/Cause"
import * as Exit from "effect/Exit"
import { Ignore, Reject, Retry } from "../actor/job.ts"
import {
  type CallFields,
  type EachOptions,
  type Revert,
  type ScopeOptions,
  type ScopeTry,
  type SignalWait,
  type Step,
  StepError,
  type StepOptions,
  type Steps,
} from "../actor/step.ts"
import { inLanes, WatchedPromise } from "../async/timers.ts"
import { CallboardError } from "../errors.ts"
import type { SubmissionFields } from "../jobs/submission/submission.ts"
import { milliseconds, timeToLive } from "../options/duration.ts"
import { wholeNumber } from "../options/fields.ts"
import { refuseInput, refuseUnknown } from "../options/refuse.ts"
import { ofJsonForm } from "../protocol/codec/json.ts"
import { isObject } from "../protocol/guards.ts"
import { hash } from "../transport/job-store/hash.ts"
import { nextTurn, sleep } from "../transport/timers.ts"
import {
  type BegunWait,
  type CallOptions,
  checkCall,
  checkName,
  checkRoom,
  checkUse,
  EACH_OPTIONS,
  isRequest,
  keysOf,
  nearlyFull,
  type Plan,
  planOf,
  type StepCall,
  StepCalls,
} from "./calls.ts"
import { errorOf, failureNamed, failureOf } from "./failure.ts"
import {
  type Folded,
  fold,
  hasBegun,
  outcomeFor,
  type StepState,
  type Tried,
  toRevert,
  triedOf,
  unreverted,
} from "./fold.ts"
import type { StepEntry, StepFailure } from "./page.ts"
import { controllerOf, decisionOf, type EndedStep, finalError, Try } from "./scope.ts"

export interface EngineOptions extends CallOptions {
  /** Ends the wait for a handler that will not continue. */
  readonly leave: () => void
  /** Whether the handler is an Effect, which is interrupted where a promise can only be left. */
  readonly isEffect: () => boolean
  /** Whether the handler has returned, or the wait for it has ended, before the first step began. */
  readonly hasReturned: boolean
  /** Whether the caller runs inside a hook of the job's method. */
  readonly isInHook: () => boolean
  /** Submits a job that this one calls. A job of that id that is there already is left as it is. */
  readonly submit: (task: string, fields: SubmissionFields) => Promise<void>
}

/** While steps are reverted: how long the handler must have reached no further step before the first step is reverted. */
const QUIET_MS = 10
/** The same where the handler has not reached every step that is to be reverted. */
const PATIENCE_MS = 1_000
/** The same where the handler waits outside of its steps, and may be on its way to one that is to be reverted. */
const MAX_REPLAY_MS = 30_000
/** How long a cancelled handler that is no Effect may continue between two steps before its steps are reverted. */
const HEED_MS = 10_000

/** How long the handler must have begun nothing before it is left because all that it awaits is still to come. */
const REST_MS = 10
/** Pause before a store that cannot be reached is asked again. */
const AGAIN_MS = 1_000
/** The result of a called job must be kept for so long at least, since it is read when the caller continues. */
const MIN_CALL_TTL_MS = 3_600_000

const NEVER = new Promise<never>(() => undefined)
const LOADED = Promise.resolve()

/** Position of the first outcome that this run of the handler has stored: after those of the journal. */
const FRESH = 2 ** 40

export class StepEngine {
  /** What the handler begins its steps with. */
  readonly steps: Steps
  /** Whether the wait for the handler was ended at one of its steps. */
  #isLeft = false
  readonly #options: EngineOptions
  readonly #names = new Set<string>()
  readonly #reverts = new Map<string, Plan>()
  readonly #calls: StepCalls
  readonly #replays: Array<{ readonly order: number; readonly loaded: Promise<void>; readonly resolve: () => void }> =
    []
  readonly #failures: Array<{
    readonly promise: WatchedPromise<unknown>
    readonly cause: unknown
    readonly within: Try | undefined
  }> = []
  /** The bodies of scopes that run. */
  readonly #bodies = new Set<StepCall>()
  /** Names of the steps that scopes have reverted in this run of the handler. */
  readonly #undone = new Set<string>()
  #fresh = FRESH
  readonly #waiters = new Set<() => void>()
  /** The waits that the handler has come to and that are not over, by name. */
  readonly #waits = new Map<string, (outcome: StepState) => void>()
  /** Number of waits that the handler has come to and that are not stored yet. */
  #entering = 0
  #resting = false
  #suspended = false
  #opening: Promise<Folded> | undefined
  #folded: Folded | undefined
  /**
   * `#begun`: number of steps that have not ended. `#running`: number of steps whose function runs or whose outcome is
   * being stored.
   */
  #begun = 0
  #running = 0
  #parked = 0
  /** Number of steps that were begun after the handler had returned, or after the wait for it had ended. */
  #late = 0
  #moves = 0
  #marked = false
  #halted = false
  #returned: boolean
  #hasWarnedOfLate = false
  #hasWarnedOfRoom = false

  constructor(options: EngineOptions) {
    this.#options = options
    this.#returned = options.hasReturned
    this.#calls = new StepCalls(options, () => this.#check())
    this.steps = this.#stepsIn(undefined)
  }

  /** What the handler, or the body of a scope in one of its tries, begins its steps with. */
  #stepsIn(within: Try | undefined): Steps {
    const named = (name: string) => (within === undefined ? name : within.nameOf(name))
    return {
      step: (name, run, options) =>
        // The result is the JSON form of what the function returned, which the compiler cannot follow.
        this.#track(() => this.#step(named(name), run, options, within), within) as ReturnType<
          Steps["step"]
        > as Promise<never>,
      each: (name, items, run, options) =>
        this.#track(() => this.#each(named(name), items, run, options, within), within) as Promise<never>,
      sleep: async (name, time) => {
        await this.#wait(named(name), within, () =>
          time instanceof Date ? { until: timeOf(time) } : { forMs: milliseconds("time", time) },
        )
      },
      waitFor: async (name: string, options = {}) => {
        const form = await this.#wait(named(name), within, () => awaitedOf(name, options))
        return (isObject(form) && "signal" in form ? ofJsonForm(structuredClone(form.signal)) : undefined) as never
      },
      call: async (name, task, fields = {}) => {
        const full = named(name)
        return copyOf(await this.#wait(full, within, () => this.#submit(full, task, fields))) as never
      },
      scope: (name, body, options) =>
        this.#watched(async () => this.#scope(named(name), body, options, within), within) as Promise<never>,
    }
  }

  /**
   * Waits for the outcome of what is stored under this name; what `begin` resolves with is stored if the handler comes to it for
   * the first time. Unlike a step it does not keep the handler from returning.
   */
  #wait(
    name: string,
    within: Try | undefined,
    begin: () => Omit<BegunWait, "step"> | Promise<Omit<BegunWait, "step"> | StepState>,
  ): Promise<unknown> {
    const waiting = this.#enter(name, within, begin).then((state) =>
      state === undefined ? this.#stay(within) : this.#replay(state),
    )
    // A handler that has returned leaves it.
    waiting.catch(() => undefined)
    return waiting
  }

  /** `undefined`: the attempt, or the try of the scope, was ended, or the handler has returned. */
  async #enter(
    name: string,
    within: Try | undefined,
    begin: () => Omit<BegunWait, "step"> | Promise<Omit<BegunWait, "step"> | StepState>,
  ): Promise<StepState | undefined> {
    this.#moves++
    this.#entering++
    const isOver = () => this.#mustStop || this.#returned || within?.isOpen === false
    let ended: Promise<StepState>
    try {
      checkName(name)
      this.#use(name)
      const steps = this.#names.size
      const folded = this.#folded ?? (await this.open())
      const known = this.#known(folded, name, within)
      if (known !== undefined) return known
      if (isOver()) return undefined
      checkRoom(name, steps, this.#calls.bytes)
      if (!folded.waits.has(name)) {
        const begun = await begin()
        if ("state" in begun) return begun
        if (within?.isOpen === false) return undefined
        await this.#options.port.wait({ step: name, ...begun })
      }
      if (isOver()) return undefined
      ended = new Promise((resolve) => this.#waits.set(name, resolve))
    } finally {
      this.#entering--
      this.#moves++
    }
    this.#rest()
    return ended
  }

  /** Submits the called job; a refusal is the outcome of the call, and is stored. Waits while the transport cannot be reached. */
  async #submit(name: string, task: string, fields: CallFields): Promise<Omit<BegunWait, "step"> | StepState> {
    const { id, run, retries, port, submit } = this.#options
    if (isObject(fields) && "id" in fields)
      refuseInput("id", "must be absent: the id of a called job is made of its caller's")
    const { resultTtl } = fields
    const keptMs = resultTtl === undefined ? -1 : timeToLive("resultTtl", resultTtl)
    if (keptMs >= 0 && keptMs < MIN_CALL_TTL_MS)
      refuseInput("resultTtl", "must be an hour or more: the result is read when the caller continues")
    const job = `call-${hash(`${id}/${run}/${retries}/${name}`)}`
    for (;;) {
      try {
        await submit(task, { ...fields, id: job })
        return { job }
      } catch (cause) {
        if (!(cause instanceof CallboardError)) throw cause
        if (cause.code !== "transport-unavailable") {
          const failure = failureOf(cause)
          const noted = { step: name, at: Date.now(), took: 0, tries: 1 }
          this.#calls.bytes = await port.note({ kind: "err", ...noted, failure, retries })
          return { name, order: Number.MAX_SAFE_INTEGER, ...noted, state: "failed", revert: false, failure, retries }
        }
      }
      await sleep(AGAIN_MS)
      if (this.#mustStop) return { job }
    }
  }

  /** Whether the handler awaits nothing but what is to come. */
  get #isAtRest(): boolean {
    const isIdle = this.#begun === 0 && this.#entering === 0 && this.#replays.length === 0
    return this.#waits.size > 0 && isIdle && !this.#returned && !this.#mustStop
  }

  #rest(): void {
    // Called after every step: without a wait it allocates nothing.
    if (this.#resting || !this.#isAtRest) return
    this.#resting = true
    void this.#suspend()
  }

  /** Suspends the job once the handler has come to rest. What has come by then is handed to the handler instead. */
  async #suspend(): Promise<void> {
    let failed = false
    while (this.#isAtRest) {
      const moves = this.#moves
      await sleep(failed ? AGAIN_MS : REST_MS)
      if (moves !== this.#moves || !this.#isAtRest) continue
      try {
        const ended = await this.#options.port.rest()
        this.#arrived(ended)
        if (ended.length > 0 || moves !== this.#moves || !this.#isAtRest) continue
        this.#suspended = true
        this.#options.port.suspend()
        this.#leave()
      } catch (cause) {
        if (!failed)
          this.#options.log().warn("the job cannot be suspended now and waits in its worker", { cause: String(cause) })
        failed = true
      }
    }
    this.#resting = false
  }

  #arrived(ended: ReadonlyArray<StepEntry>): void {
    for (const [at, state] of [...fold(ended).steps.values()].entries()) {
      const resolve = this.#waits.get(state.name)
      this.#waits.delete(state.name)
      // They come after all that is known, in their own order.
      resolve?.({ ...state, order: Number.MAX_SAFE_INTEGER - ended.length + at })
    }
  }

  /**
   * The part of the handler that still runs after the wait for it, or its attempt, was ended; `undefined` where nothing
   * runs. A handler that stays at a step never ends, so that only the functions of its steps are waited for. Once its attempt
   * was ended it also stays at a step that waits for its journal, which another delivery may write.
   */
  pending(handler: Promise<unknown> | undefined): Promise<unknown> | undefined {
    const staying = () =>
      this.#parked +
      (this.#suspended ? this.#waits.size : 0) +
      (this.#options.isOver() ? this.#begun + this.#entering : 0)
    if (handler === undefined && staying() === 0) return undefined
    const stays = () => staying() + this.#late > 0 && this.#calls.areOver
    if (stays()) return undefined
    const left = this.#until(stays)
    return handler === undefined || staying() > 0 ? left : Promise.race([handler, left])
  }

  /**
   * Called when the handler has returned, or the wait for it has ended: waits for the steps that have begun, or reverts
   * the completed ones. Resolves with the exit of the attempt. A failure of a step that the handler does not await
   * fails the job.
   */
  async finish(exit: Exit.Exit<unknown, unknown>): Promise<Exit.Exit<unknown, unknown>> {
    this.#returned = true
    this.#endBodies()
    if (this.#isEnding) {
      // What a revert waits for never settles once another delivery has the job.
      await Promise.race([this.#revertAll(), this.#until(() => this.#options.isOver())])
      if (!this.#options.isOver()) await this.#options.port.finished()
      return exit
    }
    if (!this.#suspended) this.#waits.clear()
    await this.#until(() => (this.#mustStop ? this.#running === 0 || this.#options.isOver() : this.#begun === 0))
    if (this.#folded !== undefined && !this.#mustStop) await this.#options.port.checkCancelled()
    if (this.#mustStop || this.#isLeft) return exit
    const missed = Exit.isSuccess(exit)
      ? this.#failures.find(({ promise, within }) => !promise.isAwaited && !within?.is("over"))
      : undefined
    const failed = missed === undefined ? exit : Exit.fail(missed.cause)
    const thrown = Exit.isFailure(failed) ? Cause.squash(failed.cause) : undefined
    const asked = thrown instanceof StepError ? requestOf(thrown) : undefined
    return asked === undefined ? failed : Exit.fail(asked)
  }

  /** Whether the wait for the handler was ended, or its outcome does not count. */
  get isStopped(): boolean {
    return this.#isLeft || this.#mustStop
  }

  /** Whether this attempt only reverts steps. */
  get #isEnding(): boolean {
    return this.#folded?.ending !== undefined
  }

  get #mustStop(): boolean {
    return this.#halted || this.#suspended || this.#isEnding || this.#options.isOver()
  }

  #track<T>(work: () => Promise<T>, within: Try | undefined): Promise<T> {
    this.#moves++
    // A body whose try is over, or is only called for its reverts, may go on; nothing waits for it.
    if (within !== undefined && !within.isOpen) return within.is("over") ? NEVER : ignored(work())
    // Reverts and hooks run after the handler: a step inside of them is refused, so that they do not wait for ever.
    if (this.#returned && !this.#calls.isInside && !this.#options.isInHook()) {
      if (!this.#hasWarnedOfLate)
        this.#options.log().warn("a step was started after the handler had returned, and does not run")
      this.#hasWarnedOfLate = true
      this.#late++
      this.#check()
      return NEVER
    }
    const around = within === undefined ? [] : [...within.chain()]
    this.#begun++
    for (const each of around) each.begun++
    return this.#watched(work, within, () => {
      if (!around.some(({ isForgotten }) => isForgotten)) {
        this.#begun--
        for (const each of around) each.begun--
      }
      this.#moves++
      this.#rest()
      this.#check()
    })
  }

  /** A failure that nothing awaits fails the job. */
  #watched<T>(work: () => Promise<T>, within: Try | undefined, ended: () => void = () => undefined): Promise<T> {
    const promise: WatchedPromise<T> = new WatchedPromise((resolve, reject) =>
      work().then(
        (value) => {
          resolve(value)
          ended()
        },
        (cause: unknown) => {
          this.#failures.push({ promise, cause, within })
          // A failure that nothing awaits must not end the process: it fails the job instead, see `finish`.
          Promise.prototype.then.call(promise, undefined, () => undefined)
          reject(cause)
          ended()
        },
      ),
    )
    return promise
  }

  async #step(
    name: string,
    run: (step: Step) => unknown,
    options: StepOptions<never> | undefined,
    within: Try | undefined,
  ): Promise<unknown> {
    checkCall(name, run)
    const plan = planOf(options)
    this.#use(name)
    // Parallel steps have all begun before the journal is open.
    const steps = this.#names.size
    const folded = this.#folded ?? (await this.open())
    if (plan.revert !== undefined) this.#reverts.set(name, plan)
    const around = plan.revert === undefined || within === undefined ? [] : [...within.chain()]
    const ended = (step: EndedStep) => {
      for (const each of around) each.ended.push(step)
    }
    if (around.length > 0) this.#check()
    const known = this.#known(folded, name, within)
    if (known !== undefined) {
      ended(known)
      return this.#replay(known)
    }
    const stays = () => this.#mustStop || within?.isOpen === false
    if (stays()) return this.#stay(within)
    checkRoom(name, steps, this.#calls.bytes)
    this.#warnInTime()
    const { port } = this.#options
    if (plan.revert !== undefined && !this.#marked) {
      await port.markReverts()
      this.#marked = true
    }
    const doubt = port.doubt()
    if (doubt !== undefined) await doubt
    if (stays()) return this.#stay(within)
    port.began(name, "started")
    this.#running++
    for (const each of within?.chain() ?? []) each.running++
    try {
      const done = await this.#calls.perform(name, run, plan, () => this.#halted)
      if (done !== undefined) {
        if (around.length > 0) ended({ name, order: this.#fresh++, value: structuredClone(done.form) })
        if (this.#replays.length > 0) await this.#replayed()
        return ofJsonForm(done.form)
      }
    } catch (cause) {
      if (around.length > 0) ended({ name, order: this.#fresh++, failure: failureOf(cause) })
      if (this.#replays.length > 0) await this.#replayed()
      throw cause
    } finally {
      this.#running--
      for (const each of within?.chain() ?? []) each.running--
      this.#check()
    }
    return this.#park()
  }

  /** Steps of a try that is over and that have not run will never end. */
  #forget(each: Try): void {
    const left = each.begun
    this.#begun -= left
    for (const around of each.chain()) around.begun -= left
    each.isForgotten = true
    this.#check()
  }

  #use(name: string): void {
    checkUse(name, this.#names, { step: this.#calls.isInside, hook: this.#options.isInHook() })
    this.#names.add(name)
  }

  /** The stored outcome. Where a scope is called again for its reverts alone, it takes the same path as before. */
  #known(folded: Folded, name: string, within: Try | undefined): StepState | undefined {
    return outcomeFor(folded, name, within?.is("failed") ? undefined : this.#options.retries)
  }

  /** For what begins no more, because the attempt was ended, or only the try of its scope. */
  #stay(within: Try | undefined): Promise<never> {
    return this.#mustStop || within?.isOpen !== false ? this.#park() : NEVER
  }

  /** Runs one try after the other until one succeeds, or its controller gives up. */
  async #scope<V>(
    name: string,
    body: (job: Steps, value: V) => unknown,
    options: ScopeOptions<V>,
    outer: Try | undefined,
  ): Promise<unknown> {
    this.#moves++
    checkCall(name, body, "body")
    const controller = controllerOf(options)
    this.#use(name)
    const folded = this.#folded ?? (await this.open())
    const history: Array<ScopeTry<V>> = []
    for (let n = 1; ; n++) {
      const value = controller.next(history)
      const each = new Try(`${name}#${n}`, outer)
      this.#use(each.label)
      const call = (): Promise<Exit.Exit<unknown, unknown>> => this.#body(() => body(this.#stepsIn(each), value))
      const tried = triedOf(folded, each.label)
      const done = tried === undefined ? await this.#begin(each, call) : await this.#triedAgain(each, call, tried)
      if ("value" in done) return done.value
      const error = errorOf(done.failure)
      history.push({ value, error })
      const decision = decisionOf(controller, history)
      if (decision === "retry") continue
      // It gave up in an earlier attempt of the job. Another attempt begins with the first value again.
      const isEarlier =
        tried !== undefined && tried.retries < this.#options.retries && !this.#isEnding && !outer?.is("failed")
      if (!isEarlier && !hasBegun(folded, `${name}#${n + 1}`))
        throw decision === "revert" ? error : finalError("RevertAll", done.failure, error)
      history.length = 0
    }
  }

  async #body(call: () => unknown): Promise<Exit.Exit<unknown, unknown>> {
    const body: StepCall = { interrupt: undefined, pending: undefined, isEffect: false, trace: undefined }
    this.#bodies.add(body)
    const exit = await this.#options.invoke(body, call)
    this.#bodies.delete(body)
    return exit
  }

  /** Runs a try. If it fails, that is stored, and then its steps are reverted. */
  async #begin(
    each: Try,
    call: () => Promise<Exit.Exit<unknown, unknown>>,
  ): Promise<{ readonly value: unknown } | { readonly failure: StepFailure }> {
    const { outer, label } = each
    if (this.#mustStop && !this.#isEnding) return this.#park()
    checkRoom(label, this.#names.size, this.#calls.bytes)
    const began = performance.now()
    const exit = await call()
    if (Exit.isSuccess(exit)) return { value: exit.value }
    const isOver = () => this.#mustStop || this.#returned || outer?.isOpen === false
    if (isOver()) return this.#stay(outer)
    const thrown = Cause.squash(exit.cause)
    const failure = failureOf(thrown)
    // What asks for a retry of the job continues in this try.
    if (failure.names.some((name) => isRequest(name) || name === "RevertFailed")) throw thrown
    each.state = "over"
    for (const name of this.#waits.keys()) if (each.has(name)) this.#waits.delete(name)
    await this.#until(() => each.running === 0)
    this.#forget(each)
    if (isOver()) return this.#stay(outer)
    const took = Math.round(performance.now() - began)
    await this.#reverting(outer, async () => {
      const { port, retries, log } = this.#options
      log().warn(`${label} failed; its steps are reverted`, { cause: failure.message })
      const noted = { kind: "tried", step: label, at: Date.now(), took, tries: 1, failure, retries } as const
      this.#calls.bytes = await this.#whileRunning(() => port.note(noted))
      await this.#revertTry(failure, each.ended)
    })
    return { failure }
  }

  /** A try that has failed in an earlier run of the handler. Its body is called only if steps are to be reverted. */
  async #triedAgain(
    each: Try,
    call: () => Promise<Exit.Exit<unknown, unknown>>,
    { failure, order, pending }: Tried,
  ): Promise<{ readonly failure: StepFailure }> {
    const { outer } = each
    const stuck = pending.find(({ state }) => state === "revert-failed")
    if (pending.length === 0 || stuck !== undefined) {
      await this.#inOrder(order)
      if (stuck?.revertFailure !== undefined) throw finalError("RevertFailed", failure, errorOf(stuck.revertFailure))
      return { failure }
    }
    each.state = "failed"
    void call()
    if (this.#isEnding || outer?.isOpen === false) return this.#stay(outer)
    await this.#reverting(outer, async () => {
      const reached = new AbortController()
      const isReached = () => this.#mustStop || pending.every(({ name }) => this.#reverts.has(name))
      void this.#until(isReached).then(() => reached.abort())
      if (!reached.signal.aborted) await sleep(MAX_REPLAY_MS, reached.signal)
      each.state = "over"
      await this.#revertTry(failure, pending)
    })
    return { failure }
  }

  /** The tries around one that is reverted wait for that as for a step that runs. */
  #reverting(outer: Try | undefined, work: () => Promise<void>): Promise<void> {
    const around = outer === undefined ? [] : [...outer.chain()]
    return this.#track(async () => {
      for (const each of around) each.running++
      try {
        await work()
      } finally {
        for (const each of around) each.running--
      }
    }, outer)
  }

  /** Reverts the steps of a try that has failed. The next delivery continues if this one is ended. */
  async #revertTry(failure: StepFailure, ended: ReadonlyArray<EndedStep>): Promise<void> {
    const { port } = this.#options
    for (const state of ended.toSorted((one, other) => other.order - one.order)) {
      const { name } = state
      if (state.undone !== undefined || this.#undone.has(name)) continue
      const plan = this.#reverts.get(name)
      if (plan === undefined) {
        const message = `the handler no longer reaches ${name}`
        throw finalError("RevertFailed", failure, errorOf(failureNamed("Error", message)))
      }
      const doubt = port.doubt()
      if (doubt !== undefined) await doubt
      if (this.#mustStop) return this.#park()
      port.began(name, "reverting")
      const reverted = await this.#whileRunning(() => this.#revert(name, plan, state, "failed", () => this.#mustStop))
      if (reverted === undefined) return this.#park()
      if (reverted !== true) throw finalError("RevertFailed", failure, errorOf(reverted))
      this.#undone.add(name)
    }
  }

  async #whileRunning<T>(work: () => Promise<T>): Promise<T> {
    this.#running++
    try {
      return await work()
    } finally {
      this.#running--
      this.#check()
    }
  }

  async #replay(known: StepState): Promise<unknown> {
    const form = this.#formOf(known)
    await this.#inOrder(known.order, form)
    if (known.failure !== undefined) throw errorOf(known.failure)
    return copyOf(await form)
  }

  async #each<In>(
    name: string,
    given: Iterable<In>,
    run: (item: In, step: Step) => unknown,
    asked: EachOptions<In, never>,
    within: Try | undefined,
  ): Promise<ReadonlyArray<unknown>> {
    checkCall(name, run)
    refuseUnknown(asked, EACH_OPTIONS, "each()")
    const { key, parallel = 16, ...options } = asked
    const items = [...given]
    wholeNumber("parallel", parallel, { min: 1 })
    const keys = keysOf(items, key)
    return inLanes(parallel, items, (item, at) =>
      this.#track(() => this.#step(`${name}/${keys[at]}`, (step) => run(item, step), options, within), within),
    )
  }

  /** Opens the journal, once: at the first step, or before the handler begins. */
  open(): Promise<Folded> {
    this.#opening ??= this.#options.port.open().then(({ entries, bytes }) => {
      this.#folded = fold(entries)
      this.#calls.bytes = bytes
      if (this.#isEnding) void this.#collect()
      const signal = this.#options.signal()
      signal.addEventListener("abort", () => this.#aborted(signal))
      if (signal.aborted) this.#aborted(signal)
      return this.#folded
    })
    return this.#opening
  }

  #aborted({ reason }: AbortSignal): void {
    if (this.#options.isOver()) {
      this.#calls.interrupt()
      this.#endBodies()
    }
    // A cancelled job reverts its steps, so no further one begins. The soft time limit stops no step.
    else if (reason instanceof DOMException && reason.name === "AbortError") this.#halt()
    this.#check()
  }

  #halt(): void {
    if (this.#halted || this.#isEnding) return
    this.#halted = true
    const leave = () => void this.#until(() => this.#running === 0).then(() => this.#leave())
    if (this.#options.isEffect()) leave()
    // A promise that ignores its signal between steps must not keep them from being reverted.
    else setTimeout(leave, HEED_MS).unref?.()
  }

  /**
   * Resolves stored outcomes in the order in which they were stored, so that a race of steps ends as it did in the
   * first run. `loading`: the result, which the later outcomes wait for.
   */
  #inOrder(order: number, loading: Promise<unknown> = LOADED): Promise<void> {
    const loaded = loading.then(
      () => undefined,
      () => undefined,
    )
    return new Promise((resolve) => {
      this.#replays.push({ order, loaded, resolve })
      if (this.#replays.length === 1) setImmediate(() => void this.#replayNext())
    })
  }

  async #replayNext(): Promise<void> {
    this.#moves++
    const [first] = this.#replays
    if (first === undefined) return
    const next = this.#replays.reduce((min, each) => (each.order < min.order ? each : min), first)
    await next.loaded
    this.#moves++
    this.#replays.splice(this.#replays.indexOf(next), 1)
    next.resolve()
    if (this.#replays.length > 0) setImmediate(() => void this.#replayNext())
    else this.#rest()
  }

  /** Resolves once the handler has got the stored outcomes that it has reached: they come before what has just ended. */
  async #replayed(): Promise<void> {
    while (this.#replays.length > 0) await nextTurn()
  }

  async #formOf({ value, large }: EndedStep): Promise<unknown> {
    return large === undefined ? value : this.#options.port.value(large)
  }

  #park(): Promise<never> {
    this.#parked++
    this.#check()
    return NEVER
  }

  #warnInTime(): void {
    const warning = this.#hasWarnedOfRoom ? undefined : nearlyFull(this.#names.size, this.#calls.bytes)
    if (warning === undefined) return
    this.#hasWarnedOfRoom = true
    this.#options.log().warn(warning)
  }

  /** Ends the wait for the handler while steps are reverted, once the handler reaches no further step. */
  async #collect(): Promise<void> {
    const began = performance.now()
    let moves = this.#moves
    let quietSince = began
    while (!this.#returned && !this.#options.isOver()) {
      await sleep(QUIET_MS / 2)
      const now = performance.now()
      if (moves !== this.#moves || this.#replays.length > 0) quietSince = now
      moves = this.#moves
      const patience = this.#hasReachedAll ? QUIET_MS : this.#parked > 0 ? PATIENCE_MS : MAX_REPLAY_MS
      if (now - quietSince >= patience || now - began >= MAX_REPLAY_MS) return this.#leave()
    }
  }

  /**
   * Whether the handler has reached every step that is to be reverted. One that was under way when a worker died is in no
   * entry, so that a handler that waits may be on its way to it, unless it is sure that there was none.
   */
  get #hasReachedAll(): boolean {
    const folded = this.#folded
    if (folded === undefined) return false
    const isPast = this.#parked > 0 || (folded.ending?.sure === true && this.#reverts.size > 0)
    return isPast && unreverted(folded).every((name) => this.#reverts.has(name))
  }

  /** Reverts one step after another, and stops at the first revert that fails for good. */
  async #revertAll(): Promise<void> {
    const folded = this.#folded
    if (folded?.ending === undefined) return
    if ([...folded.steps.values()].some(({ state }) => state === "revert-failed")) return
    for (const name of toRevert(folded, [...this.#reverts.keys()])) {
      const plan = this.#reverts.get(name)
      if (this.#options.isOver() || plan === undefined) return
      await this.#options.port.doubt()
      if (this.#options.isOver()) return
      this.#options.port.began(name, "reverting")
      const { why } = folded.ending
      const { isOver } = this.#options
      if ((await this.#revert(name, plan, outcomeFor(folded, name, 0), why, isOver)) !== true) return
    }
  }

  async #revert(
    name: string,
    plan: Plan,
    state: EndedStep | undefined,
    why: Revert<never>["why"],
    isOver: () => boolean,
  ): Promise<true | StepFailure | undefined> {
    const form = state === undefined || state.failure !== undefined ? undefined : await this.#formOf(state)
    const error = state?.failure === undefined ? undefined : errorOf(state.failure)
    // `Plan` has lost the type of the step's result, which the handler's own types check.
    const run = (step: Step) => plan.revert?.({ result: copyOf(form) as never, error, why, step })
    return this.#calls.revert(name, plan, run, isOver)
  }

  #leave(): void {
    if (this.#isLeft || this.#returned) return
    this.#isLeft = true
    this.#endBodies()
    this.#options.leave()
  }

  /** Interrupts the bodies of scopes that are Effects. */
  #endBodies(): void {
    for (const body of this.#bodies) body.interrupt?.()
  }

  #check(): void {
    if (this.#halted && !this.#isEnding && this.#parked > 0 && this.#running === 0) this.#leave()
    for (const waiter of this.#waiters) waiter()
  }

  #until(holds: () => boolean): Promise<void> {
    if (holds()) return Promise.resolve()
    return new Promise((resolve) => {
      const waiter = () => {
        if (!holds()) return
        this.#waiters.delete(waiter)
        resolve()
      }
      this.#waiters.add(waiter)
    })
  }
}

const timeOf = (time: Date): number => {
  const at = time.getTime()
  return Number.isFinite(at) ? at : refuseInput("time", "must be a valid date")
}

const WAIT_OPTIONS = { timeout: true, signal: true } satisfies Record<keyof SignalWait, true>

const awaitedOf = (name: string, options: SignalWait): Omit<BegunWait, "step"> => {
  refuseUnknown(options, WAIT_OPTIONS, "waitFor()")
  const { timeout, signal = name } = options
  checkName(signal, "signal")
  if (/^\.\.?$/.test(signal)) refuseInput("signal", `must not be ${signal}, since no signal can have that name`)
  return { signal, ...(timeout === undefined ? {} : { forMs: milliseconds("timeout", timeout) }) }
}

/** A stored result as the handler gets it: a copy, since neither the handler nor a try of the revert may change it. */
const copyOf = (form: unknown): unknown => ofJsonForm(typeof form === "object" ? structuredClone(form) : form)

const ignored = <T>(promise: Promise<T>): Promise<T> => {
  promise.catch(() => undefined)
  return promise
}

/** What a step asks of its job by the error that it throws: the same error as the handler itself would throw it. */
const requestOf = (error: StepError): Reject | Retry | Ignore | undefined => {
  const { after } = error.fields
  const cause = { cause: error.cause }
  const asked = error.is("Reject")
    ? new Reject(error.message, cause)
    : error.is("Ignore")
      ? new Ignore(error.message, cause)
      : error.is("Retry")
        ? new Retry({ ...cause, ...(typeof after === "string" || typeof after === "number" ? { after } : {}) })
        : undefined
  if (asked !== undefined && error.stack !== undefined) asked.stack = error.stack
  return asked
}
