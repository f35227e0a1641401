/** The {@link Job} that a handler gets, and its port where the handler runs in the worker. */
import { type AnyActor, type ChildActorHandle, childHandle } from "../../actor/actor-handle.ts"
import { type Job, type JobState, Retry } from "../../actor/job.ts"
import type { JobLog, Steps } from "../../actor/step.ts"
import type { Client } from "../../client/client.ts"
import { checkOwnEvent, type EventSender, type OwnEventFields } from "../../cluster/events.ts"
import { CallboardError } from "../../errors.ts"
import { changedMeta } from "../../jobs/changed-meta.ts"
import type { JobHandle } from "../../jobs/handle.ts"
import type { SubmissionFields } from "../../jobs/submission/submission.ts"
import { findRecord } from "../../jobs/tracking/finding.ts"
import { type JobView, jobView } from "../../jobs/view.ts"
import type { Log } from "../../log/log.ts"
import type { Headers } from "../../protocol/message.ts"
import { cut } from "../../protocol/text.ts"
import { traceContextOf } from "../../protocol/trace-context.ts"
import type { StepPort } from "../../steps/calls.ts"
import { StepEngine } from "../../steps/engine.ts"
import { type ActiveDelivery, type HandlerRun, JOB_LOGGER, jobFields } from "../active-delivery.ts"
import { invokeNow, isInHookOf } from "./call.ts"
import type { StepSession } from "./step-session.ts"

type Meta = Readonly<Record<string, unknown>>

/** What does not change during an attempt. */
export interface JobFacts {
  readonly id: string
  readonly attempt: number
  readonly run: number
  readonly retries: number
  readonly method: string
  readonly queue: string
  readonly parentId?: string
  readonly rootId?: string
  readonly after: ReadonlyArray<string>
}

/** What a job needs of the worker, or of the process of an isolated handler. What its calls are given has been checked. */
export interface JobPort {
  readonly facts: JobFacts
  readonly attempt: Pick<HandlerRun, "isOver" | "isEffect" | "trace" | "signal" | "leave">
  readonly deadline: number
  readonly headers: Headers
  readonly meta: Meta
  readonly log: JobLog
  readonly steps: StepPort
  /** `detail`: as JSON text. */
  progress(fraction: number, detail: string | undefined): void
  /** `changed`: the meta data with the patch. */
  patchMeta(patch: Meta, changed: Meta): void
  event(type: string, fields: OwnEventFields): void
  submit(task: string, fields: SubmissionFields): Promise<JobHandle>
  job<R>(id: string): JobHandle<R>
  parent(id: string): Promise<JobView | undefined>
}

/** Fields that every event of a handler carries about its job, and that a handler cannot set. */
const JOB_FIELDS = ["uuid"]

export class JobContext<Port extends JobPort = JobPort> implements Job<unknown> {
  readonly actorName: string
  readonly use: unknown
  state: JobState = "started"
  hasReturned = false
  /** The durable steps of the job, once it has begun one, or where its steps are to be reverted. */
  steps: StepEngine | undefined
  readonly #port: Port

  constructor(port: Port, actor: string, use: unknown) {
    this.#port = port
    this.actorName = actor
    this.use = use
  }

  get port(): Port {
    return this.#port
  }
  get id(): string {
    return this.#port.facts.id
  }
  get attempt(): number {
    return this.#port.facts.attempt
  }
  get run(): number {
    return this.#port.facts.run
  }
  get retries(): number {
    return this.#port.facts.retries
  }
  get method(): string {
    return this.#port.facts.method
  }
  get queue(): string {
    return this.#port.facts.queue
  }
  get parentId(): string | undefined {
    return this.#port.facts.parentId
  }
  get rootId(): string | undefined {
    return this.#port.facts.rootId
  }
  get after(): ReadonlyArray<string> {
    return this.#port.facts.after
  }
  get signal(): AbortSignal {
    return this.#port.attempt.signal
  }
  get deadline(): number {
    return this.#port.deadline
  }
  get headers(): Headers {
    return this.#port.headers
  }
  get meta(): Meta {
    return this.#port.meta
  }
  get log(): JobLog {
    return this.#port.log
  }
  get step(): Steps["step"] {
    return this.useSteps().steps.step
  }
  get each(): Steps["each"] {
    return this.useSteps().steps.each
  }
  get sleep(): Steps["sleep"] {
    return this.useSteps().steps.sleep
  }
  get waitFor(): Steps["waitFor"] {
    return this.useSteps().steps.waitFor
  }
  get call(): Steps["call"] {
    return this.useSteps().steps.call
  }
  get scope(): Steps["scope"] {
    return this.useSteps().steps.scope
  }

  useSteps(): StepEngine {
    const { attempt } = this.#port
    this.steps ??= new StepEngine({
      id: this.id,
      run: this.run,
      retries: this.retries,
      port: this.#port.steps,
      log: () => this.log,
      progress: this.progress,
      signal: () => attempt.signal,
      isOver: () => attempt.isOver,
      invoke: (call, work) => {
        call.trace = attempt.trace
        return invokeNow(call, this, work)
      },
      leave: () => attempt.leave(),
      isEffect: () => attempt.isEffect,
      hasReturned: this.hasReturned,
      isInHook: () => isInHookOf(this),
      submit: (task, fields) => submitOnce(this.#port, task, fields),
    })
    return this.steps
  }

  // Handlers destructure their job (`async (input, { progress }) => …`), so what they call is bound. It is bound when it is
  // asked for, because most handlers use none of it.
  get progress(): Job["progress"] {
    return (fraction, detail) =>
      this.#port.progress(fractionOf(fraction), detail === undefined ? undefined : progressDetail(detail))
  }
  get patchMeta(): Job["patchMeta"] {
    return (patch) => this.#port.patchMeta(patch, changedMeta(this.meta, patch, this.id))
  }
  get event(): Job["event"] {
    return (type, fields = {}) => {
      checkOwnEvent(type, fields, JOB_FIELDS)
      this.#port.event(type, fields)
    }
  }
  get submit(): Job["submit"] {
    return (task, fields = {}) => this.#port.submit(task, fields)
  }
  get actor(): Job["actor"] {
    return <A extends AnyActor>(name: A["name"]): ChildActorHandle<A> => childHandle<A>(name, this)
  }
  get job(): Job["job"] {
    return <R = unknown>(id: string): JobHandle<R> => this.#port.job<R>(id)
  }
  get parent(): Job["parent"] {
    return async () => (this.parentId === undefined ? undefined : this.#port.parent(this.parentId))
  }
  get retry(): Job["retry"] {
    return retry
  }
}

/** Services of the worker that a handler reaches through its job. */
export interface JobServices {
  readonly client: Client
  readonly events: EventSender
  readonly log: Log
  /** Makes the worker's side of a job's durable steps. */
  readonly stepsOf: (active: ActiveDelivery, run: HandlerRun) => StepSession
}

const factsOf = ({ posting, record, task, method }: HandlerRun): JobFacts => ({
  id: posting.id,
  attempt: record.attempt,
  run: posting.run,
  retries: posting.retries,
  method: method.name,
  queue: posting.queue,
  ...(task.parentId === null ? {} : { parentId: task.parentId }),
  ...(task.rootId === null ? {} : { rootId: task.rootId }),
  after: task.own.after?.ids ?? [],
})

/** The port of a job in the worker, which has its run and the transport. */
export class WorkerPort implements JobPort {
  readonly attempt: HandlerRun
  readonly #active: ActiveDelivery
  readonly #worker: JobServices
  #facts: JobFacts | undefined
  #log: JobLog | undefined
  #session: StepSession | undefined

  constructor(active: ActiveDelivery, run: HandlerRun, worker: JobServices) {
    this.attempt = run
    this.#active = active
    this.#worker = worker
  }

  get facts(): JobFacts {
    this.#facts ??= factsOf(this.attempt)
    return this.#facts
  }
  get deadline(): number {
    return this.attempt.startedAt + this.attempt.hardMs
  }
  get headers(): Headers {
    return this.attempt.posting.message.headers
  }
  get meta(): Meta {
    return this.attempt.record.meta ?? {}
  }
  get log(): JobLog {
    const { record, method } = this.attempt
    this.#log ??= this.#worker.log.with({ logger: JOB_LOGGER, ...jobFields(record, method) })
    return this.#log
  }

  /** The worker's side of its durable steps. Most jobs have none: it is made once it is asked for. */
  get steps(): StepSession {
    this.#session ??= this.#worker.stepsOf(this.#active, this.attempt)
    this.attempt.steps = this.#session
    return this.#session
  }
  get hasSteps(): boolean {
    return this.#session !== undefined
  }

  progress(fraction: number, detail: string | undefined): void {
    const json: unknown = detail === undefined ? undefined : JSON.parse(detail)
    this.attempt.progress = { fraction, ...(json === undefined ? {} : { detail: json }), at: Date.now() }
  }

  patchMeta(_patch: Meta, meta: Meta): void {
    this.attempt.record = { ...this.attempt.record, meta }
    this.attempt.metaChanges++
  }

  event(type: string, fields: OwnEventFields): void {
    this.#worker.events.emit(type, { ...fields, uuid: this.attempt.posting.id })
  }

  submit(task: string, fields: SubmissionFields): Promise<JobHandle> {
    const { task: parent, trace, posting } = this.attempt
    return this.#worker.client.submit(task, fields, {
      parent: { id: posting.id, rootId: parent.rootId ?? posting.id },
      ...(trace?.context ?? traceContextOf(parent)),
    })
  }

  job<R>(id: string): JobHandle<R> {
    return this.#worker.client.job<R>(id)
  }

  async parent(id: string): Promise<JobView | undefined> {
    try {
      const { record } = await findRecord(this.#worker.client.connection, id)
      return record.tombstone ? undefined : jobView(record)
    } catch (cause) {
      if (cause instanceof CallboardError && cause.code === "not-found") return undefined
      throw cause
    }
  }
}

/** Submits a job under an id of its own; one that is there already is left as it is. */
const submitOnce = async (port: JobPort, task: string, fields: SubmissionFields): Promise<void> => {
  try {
    await port.submit(task, fields)
  } catch (cause) {
    if (!(cause instanceof CallboardError && cause.code === "job-exists")) throw cause
  }
}

const retry: Job["retry"] = (options = {}) => new Retry(options)

/** Clamps a progress to 0–1. Throws a `CallboardError` for what is not a finite number. */
const fractionOf = (fraction: number): number => {
  if (!Number.isFinite(fraction)) {
    throw new CallboardError("invalid-input", "progress must be a number from 0 to 1", { field: "fraction" })
  }
  return Math.min(1, Math.max(0, fraction))
}

/** Longest progress detail that is stored unchanged, in characters of its JSON. */
const MAX_PROGRESS_DETAIL = 16 * 1024
const SHOWN = 1_024

/**
 * The detail of a progress report as JSON text. It is serialised at once, so that later changes of the value do not
 * count. A detail that is too long is cut and says so, because its size must not fail the job.
 */
const progressDetail = (detail: unknown): string => {
  const text = JSON.stringify(detail) ?? "null"
  return text.length <= MAX_PROGRESS_DETAIL
    ? text
    : JSON.stringify(
        `${cut(text, SHOWN)} (cut: a detail can have ${MAX_PROGRESS_DETAIL} characters, this one had ${text.length})`,
      )
}
