/** The {@link Job} that an inline handler gets: a view of its run, made once per attempt. */
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
import { StepEngine } from "../../steps/engine.ts"
import { type HandlerRun, JOB_LOGGER, jobFields } from "../active-delivery.ts"
import { invokeNow, isInHookOf } from "./call.ts"
import type { StepSession } from "./step-session.ts"

/** Services of the worker that a handler reaches through its job. */
export interface JobServices {
  readonly client: Client
  readonly events: EventSender
  readonly log: Log
}

/** Fields that every event of a handler carries about its job, and that a handler cannot set. */
export const JOB_FIELDS = ["uuid"]

export class JobContext implements Job<unknown> {
  readonly actorName: string
  readonly use: unknown
  state: JobState = "started"
  hasReturned = false
  /** The durable steps of the job, once it has begun one, or where its steps are to be reverted. */
  steps: StepEngine | undefined
  readonly #run: HandlerRun
  readonly #worker: JobServices
  #jobLog: JobLog | undefined
  readonly #makeSession: () => StepSession
  #session: StepSession | undefined

  constructor(run: HandlerRun, actor: string, use: unknown, worker: JobServices, makeSession: () => StepSession) {
    this.#makeSession = makeSession
    this.#run = run
    this.actorName = actor
    this.use = use
    this.#worker = worker
  }

  get id(): string {
    return this.#run.posting.id
  }
  get attempt(): number {
    return this.#run.record.attempt
  }
  get run(): number {
    return this.#run.posting.run
  }
  get retries(): number {
    return this.#run.posting.retries
  }
  get method(): string {
    return this.#run.method.name
  }
  get queue(): string {
    return this.#run.posting.queue
  }
  get parentId(): string | undefined {
    return this.#run.task.parentId ?? undefined
  }
  get rootId(): string | undefined {
    return this.#run.task.rootId ?? undefined
  }
  get after(): ReadonlyArray<string> {
    return this.#run.task.own.after?.ids ?? []
  }
  get signal(): AbortSignal {
    return this.#run.signal
  }
  get deadline(): number {
    return this.#run.startedAt + this.#run.hardMs
  }
  get headers(): Headers {
    return this.#run.posting.message.headers
  }
  get meta(): Readonly<Record<string, unknown>> {
    return this.#run.record.meta ?? {}
  }

  get log(): JobLog {
    this.#jobLog ??= this.#worker.log.with({ logger: JOB_LOGGER, ...jobFields(this.#run.record, this.#run.method) })
    return this.#jobLog
  }

  /** The worker's side of its durable steps. Most jobs have none: it is made once it is asked for. */
  get session(): StepSession {
    this.#session ??= this.#makeSession()
    this.#run.steps = this.#session
    return this.#session
  }
  get hasSession(): boolean {
    return this.#session !== undefined
  }
  get step(): Steps["step"] {
    return this.useSteps().step
  }
  get each(): Steps["each"] {
    return this.useSteps().each
  }

  useSteps(): StepEngine {
    const run = this.#run
    this.steps ??= new StepEngine({
      id: this.id,
      run: this.run,
      retries: this.retries,
      port: this.session,
      log: () => this.log,
      progress: this.progress,
      signal: () => run.signal,
      isOver: () => run.isOver,
      invoke: (call, work) => {
        call.trace = run.trace
        return invokeNow(call, this, work)
      },
      leave: () => run.leave(),
      isEffect: () => run.isEffect,
      hasReturned: this.hasReturned,
      isInHook: () => isInHookOf(this),
    })
    return this.steps
  }

  // Handlers destructure their job (`async (input, { progress }) => …`), so what they call is bound. It is bound when it is
  // asked for, because most handlers use none of it.
  get progress(): Job["progress"] {
    return this.#progress.bind(this)
  }
  get patchMeta(): Job["patchMeta"] {
    return this.#patchMeta.bind(this)
  }
  get event(): Job["event"] {
    return this.#event.bind(this)
  }
  get submit(): Job["submit"] {
    return this.#submit.bind(this)
  }
  get actor(): Job["actor"] {
    return <A extends AnyActor>(name: A["name"]): ChildActorHandle<A> => childHandle<A>(name, this.submit)
  }
  get job(): Job["job"] {
    return <R = unknown>(id: string): JobHandle<R> => this.#worker.client.job<R>(id)
  }
  get parent(): Job["parent"] {
    return this.#parent.bind(this)
  }
  get retry(): Job["retry"] {
    return retry
  }

  #progress(fraction: number, detail?: unknown): void {
    const clamped = fractionOf(fraction)
    const json: unknown = detail === undefined ? undefined : JSON.parse(progressDetail(detail))
    this.#run.progress = { fraction: clamped, ...(json === undefined ? {} : { detail: json }), at: Date.now() }
  }

  #patchMeta(patch: Readonly<Record<string, unknown>>): void {
    const { record } = this.#run
    this.#run.record = { ...record, meta: changedMeta(this.meta, patch, this.id) }
    this.#run.metaChanges++
  }

  #event(type: string, fields: OwnEventFields = {}): void {
    checkOwnEvent(type, fields, JOB_FIELDS)
    this.#worker.events.emit(type, { ...fields, uuid: this.id })
  }

  #submit(task: string, fields: SubmissionFields = {}): Promise<JobHandle> {
    const { task: parent, trace } = this.#run
    return this.#worker.client.submit(task, fields, {
      parent: { id: this.id, rootId: parent.rootId ?? this.id },
      ...(trace?.context ?? traceContextOf(parent)),
    })
  }

  async #parent(): Promise<JobView | undefined> {
    const { parentId } = this
    if (parentId === undefined) return undefined
    try {
      const { record } = await findRecord(this.#worker.client.connection, parentId)
      return record.tombstone ? undefined : jobView(record)
    } catch (cause) {
      if (cause instanceof CallboardError && cause.code === "not-found") return undefined
      throw cause
    }
  }
}

const retry: Job["retry"] = (options = {}) => new Retry(options)

/** Clamps a progress to 0–1. Throws a `CallboardError` for what is not a finite number. */
export const fractionOf = (fraction: number): number => {
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
export const progressDetail = (detail: unknown): string => {
  const text = JSON.stringify(detail) ?? "null"
  return text.length <= MAX_PROGRESS_DETAIL
    ? text
    : JSON.stringify(
        `${cut(text, SHOWN)} (cut: a detail can have ${MAX_PROGRESS_DETAIL} characters, this one had ${text.length})`,
      )
}
