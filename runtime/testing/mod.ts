/**
 * Test support for applications (`callboard/testing`). {@link runActor} serves an actor in this process with a real queue,
 * worker, retries, progress and cancellation, on a transport in memory that no other test shares. Closing it removes all.
 *
 * ```ts
 * import { expect, test } from "vitest"
 * import { runActor } from "callboard/testing"
 * import text from "../actors/text.ts"
 *
 * test("counts words", async () => {
 *   await using run = await runActor(text)
 *   expect(await run.call.count({ files: "README.md" })).toMatchObject({ files: 1 })
 *
 *   const job = await run.submit.count({ files: "nowhere.md" })
 *   expect(await job.outcome()).toMatchObject({ state: "failed", error: { name: "NoSuchFile" } })
 * })
 * ```
 */
import * as Effect from "effect/Effect"
import { type ActorDefinition, checkActor, checkActors, type ErasedMethod } from "../actor/actor.ts"
import type { ActorHandle, AnyActor } from "../actor/actor-handle.ts"
import { Retry } from "../actor/job.ts"
import type { Client } from "../client/client.ts"
import { connectTransport } from "../connection/connect.ts"
import { CallboardError, WaitTimeout } from "../errors.ts"
import type { SubmittedJob } from "../jobs/handle.ts"
import type { SubmissionFields } from "../jobs/submission/submission.ts"
import type { JobView } from "../jobs/view.ts"
import { type DurationInput, milliseconds } from "../options/duration.ts"
import { refuseInput, refuseUnknown } from "../options/refuse.ts"
import { compact } from "../protocol/compact.ts"
import { isTerminal, STATES } from "../protocol/state.ts"
import { serve } from "../service/serve.ts"
import type { Service } from "../service/service.ts"
import { newBoardName } from "./board-name.ts"
import { collectLog, type LogLine } from "./log.ts"
import { observedTransport, type SubmittedTask } from "./observed-transport.ts"
import type { VirtualClock } from "./virtual-clock.ts"

export { type CrashEnd, type CrashOptions, type CrashSignal, crashEverywhere } from "./crashes.ts"
export type { LogLine } from "./log.ts"
export type { SubmittedTask } from "./observed-transport.ts"
export {
  forEachSeed,
  SeedFailed,
  type SeedOptions,
  StillWaiting,
  type VirtualClock,
  type VirtualClockOptions,
  virtualClock,
} from "./virtual-clock.ts"

export interface RunOptions {
  /** Other actors to serve, to which this one submits. Default: none. */
  readonly actors?: ReadonlyArray<ActorDefinition> | undefined
  /** Handlers that run at the same time, 1–10,000. Default: 4. */
  readonly concurrency?: number | undefined
  /** Longest wait of `call` and `drain`; after it they fail and name the jobs that have not ended. Default: 5 seconds. */
  readonly timeout?: DurationInput | undefined
  /**
   * Wait before the next attempt of a failed job. `none` retries at once, whatever the method's back-off or
   * `job.retry({ after })` says; `real` waits as in production. Default: `none`.
   */
  readonly backoff?: "none" | "real" | undefined
  /** A clock that the test turns. `call`, `drain` and `close` turn it as far as they need. Absent: the real time. */
  readonly clock?: VirtualClock | undefined
}

/** One function for each method of the actor, which submits a task and resolves with its job once the task is stored. */
export type Submits<A extends AnyActor> = {
  readonly [K in keyof ActorHandle<A>]: ActorHandle<A>[K] extends { readonly submit: infer S } ? S : never
}

/** One function for each method, which submits a task and waits for its result. Fails like `result()`, e.g. `JobFailed`. */
export type Calls<A extends AnyActor> = {
  readonly [K in keyof ActorHandle<A>]: ActorHandle<A>[K] extends {
    submit(...args: infer Args): Promise<SubmittedJob<infer R>>
  }
    ? (...args: Args) => Promise<R>
    : never
}

/** A running actor. `await using` closes it. */
export interface ActorRun<A extends AnyActor> extends AsyncDisposable {
  readonly submit: Submits<A>
  readonly call: Calls<A>
  /** The client of the service, for jobs by id, lists, and tasks of other actors. */
  readonly client: Client
  /**
   * The tasks that were submitted so far, in order: by the test, by handlers, and by outcomes (callbacks, errbacks, chains). A
   * task of an actor that is not served is among them, and is never run.
   */
  readonly submitted: ReadonlyArray<SubmittedTask>
  /** Log lines of the actors and the worker so far, of every level. */
  readonly logs: ReadonlyArray<LogLine>
  /**
   * Resolves when every job has ended, also those that jobs submit meanwhile. Fails with {@link NotDrained} after the
   * timeout (default: that of the run).
   */
  drain(options?: { readonly timeout?: DurationInput | undefined }): Promise<void>
  /** Waits up to a second for running handlers, then releases the actors' resources. */
  close(): Promise<void>
}

/** Failure of {@link ActorRun.drain}: `jobs` have not ended within the timeout. */
export class NotDrained extends Error {
  readonly _tag = "NotDrained"
  override readonly name = "NotDrained"
  readonly jobs: ReadonlyArray<JobView>
  constructor(jobs: ReadonlyArray<JobView>) {
    const named = jobs.slice(0, 10).map((job) => {
      const due = job.state === "scheduled" && job.times.due !== undefined ? ` until ${job.times.due}` : ""
      return `${job.name} is ${job.state}${due} (${job.id})`
    })
    const more = jobs.length > named.length ? `, and ${jobs.length - named.length} more` : ""
    super(`${jobs.length} jobs have not ended: ${named.join(", ")}${more}`)
    this.jobs = jobs
  }
}

const RUN_OPTIONS = {
  actors: true,
  concurrency: true,
  timeout: true,
  backoff: true,
  clock: true,
} satisfies Readonly<Record<keyof RunOptions, true>>

/** Serves an actor, and resolves when it takes tasks. Fails with `ActorStartFailed`, and like `serve()`. */
export const runActor = async <A extends AnyActor & ActorDefinition>(
  actor: A,
  options: RunOptions = {},
): Promise<ActorRun<A>> => {
  refuseUnknown(options, RUN_OPTIONS, "runActor()")
  const { clock, backoff = "none", actors = [] } = options
  checkActor(actor)
  checkActors(actors)
  if (backoff !== "none" && backoff !== "real") refuseInput("backoff", 'must be "none" or "real"')
  if (clock !== undefined && typeof clock?.until !== "function")
    refuseInput("clock", "must be the return value of virtualClock()")
  const timeoutMs = milliseconds("timeout", options.timeout ?? 5)
  const { lines, log } = collectLog()
  const transport = `observed://${newBoardName()}`
  const { plugin, submitted } = observedTransport(clock?.seed)
  const transports = { observed: plugin }
  // Loads what is loaded only once it is needed, since a virtual clock does not stand still for that.
  if (clock !== undefined) await (await connectTransport(transport, { transports })).close()
  const served: ReadonlyArray<ActorDefinition> = [actor, ...actors]
  const inTime: InTime =
    clock === undefined
      ? (promise) => promise
      : (promise, ms = 0) => clock.until(promise, { within: (ms + MAX_STEP_MS) / 1_000 })
  const serving = serve({
    transport,
    transports,
    actors: backoff === "real" ? served : served.map(retryAtOnce),
    concurrency: options.concurrency ?? 4,
    grace: 1,
    signals: false,
    log,
  })
  const service = await inTime(serving)
  await inTime(service.ready())
  return new RunningActor<A>(actor.name, { service, submitted, logs: lines, timeoutMs, inTime })
}

/** Longest time that a virtual clock is turned for a step that has no timeout of its own. */
const MAX_STEP_MS = 3_600_000

/** Waits for a promise, which may have a timeout of its own, and turns the clock meanwhile if it is a virtual one. */
type InTime = <T>(promise: Promise<T>, timeoutMs?: number) => Promise<T>

interface Running {
  readonly service: Service
  readonly submitted: ReadonlyArray<SubmittedTask>
  readonly logs: ReadonlyArray<LogLine>
  readonly timeoutMs: number
  readonly inTime: InTime
}

const OPEN = STATES.filter((state) => !isTerminal(state))

class RunningActor<A extends AnyActor> implements ActorRun<A> {
  readonly submit: Submits<A>
  readonly call: Calls<A>
  readonly client: Client
  readonly submitted: ReadonlyArray<SubmittedTask>
  readonly logs: ReadonlyArray<LogLine>
  readonly #service: Service
  readonly #timeoutMs: number
  readonly #inTime: InTime

  constructor(name: string, { service, submitted, logs, timeoutMs, inTime }: Running) {
    const { client } = service
    const submit = (meth: string, input: unknown, fields: SubmissionFields) =>
      client.submit(name, { ...fields, meth, ...compact({ input }) })
    this.client = client
    this.submitted = submitted
    this.logs = logs
    this.#service = service
    this.#timeoutMs = timeoutMs
    this.#inTime = inTime
    this.submit = eachMethod(
      (method) =>
        (input, fields = {}) =>
          submit(method, input, fields),
    )
    this.call = eachMethod((method) => async (input, fields = {}) => {
      const job = await submit(method, input, fields)
      return inTime(job.result({ timeout: timeoutMs / 1000 }), timeoutMs)
    })
  }

  async drain(options: { readonly timeout?: DurationInput | undefined } = {}): Promise<void> {
    refuseUnknown(options, { timeout: true }, "drain()")
    const timeoutMs = options.timeout === undefined ? this.#timeoutMs : milliseconds("timeout", options.timeout)
    return this.#inTime(this.#drain(timeoutMs), timeoutMs)
  }

  async #drain(timeoutMs: number): Promise<void> {
    const deadline = performance.now() + timeoutMs
    for (;;) {
      const { jobs } = await this.client.jobs({ states: OPEN, limit: 1_000 })
      if (jobs.length === 0) return
      const left = Math.max(0, deadline - performance.now())
      const ends = await Promise.allSettled(
        jobs.map((job) => this.client.job(job.id).outcome({ timeout: left / 1000 })),
      )
      const problems = ends.flatMap((end) =>
        end.status === "rejected" && !isForgotten(end.reason) ? [end.reason] : [],
      )
      if (problems.some((problem) => problem instanceof WaitTimeout)) throw new NotDrained(await this.#open())
      if (problems.length > 0) throw problems[0]
    }
  }

  async #open(): Promise<ReadonlyArray<JobView>> {
    return (await this.client.jobs({ states: OPEN, limit: 1_000 })).jobs
  }

  close(): Promise<void> {
    return this.#inTime(this.#service.stop()).then(() => undefined)
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }
}

/** Whether an error says that the job is not kept any more: it has ended, or was deleted. */
const isForgotten = (cause: unknown): boolean =>
  cause instanceof CallboardError && (cause.code === "not-found" || cause.code === "gone")

/** An object with a function for every name. The types limit the names to the methods of the actor. */
const eachMethod = <T>(make: (method: string) => (input?: unknown, fields?: SubmissionFields) => unknown): T =>
  new Proxy(Object.create(null), {
    // `await` looks for `then`, which is no method name; a function there would make this object a promise.
    get: (_target, method) => (typeof method === "string" && method !== "then" ? make(method) : undefined),
  })

/** The same actor with no wait between attempts. Their number stays the same. */
const retryAtOnce = (actor: ActorDefinition): ActorDefinition => ({
  ...actor,
  methods: new Map([...actor.methods].map(([name, method]) => [name, withoutWait(method)])),
})

const withoutWait = (method: ErasedMethod): ErasedMethod => ({
  ...method,
  retry: { ...method.retry, intervalsMs: [0] },
  run: (input, job) => {
    let answer: unknown
    try {
      answer = method.run(input, job)
    } catch (thrown) {
      throw atOnce(thrown)
    }
    if (Effect.isEffect(answer)) return Effect.mapError(answer, atOnce)
    return answer instanceof Promise
      ? answer.catch((thrown: unknown) => {
          throw atOnce(thrown)
        })
      : answer
  },
})

/** Also removes the wait of `job.retry({ after })`, which does not use the back-off of the method. */
const atOnce = (thrown: unknown): unknown =>
  thrown instanceof Retry ? new Retry({ after: 0, ...("cause" in thrown ? { cause: thrown.cause } : {}) }) : thrown
