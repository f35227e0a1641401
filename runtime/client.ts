/** What applications hold: submit tasks, follow jobs, decide about them. HTTP and the command line are thin over this. */
import { hostname } from "node:os"
import { Result } from "effect"
import type { Board } from "./board.ts"
import { type BulkReport, decideAll } from "./bulk.ts"
import { type ConnectSettings, connectBoard } from "./connect.ts"
import { isDeferred, tooEarly } from "./dependencies/checking.ts"
import { type Deferred, defer } from "./dependencies/defer.ts"
import {
  type ActorDescription,
  DEFAULT_QUEUE,
  Directory,
  listActors,
  listWorkers,
  type WorkerDescription,
} from "./directory.ts"
import { asTransportError, CallboardError } from "./errors.ts"
import { EventSender, listenToEvents, type ReceivedEvent } from "./events.ts"
import { generateId } from "./id.ts"
import { checkOwnEvent, type OwnEventFields } from "./own-event.ts"
import { pausedQueues, pauseQueue, resumeQueue, resumeWorkers, type SuspendOptions, suspendWorkers } from "./pausing.ts"
import type { Posting } from "./protocol/message.ts"
import { DEFAULT_METHOD, resolveName, type Target } from "./protocol/name.ts"
import { parseDuration } from "./protocol/time.ts"
import { type PurgeOptions, purgeQueue } from "./purging.ts"
import { type AskOptions, ask } from "./remote/ask.ts"
import type { CommandName } from "./remote/call.ts"
import type { Answer } from "./remote/message.ts"
import { lift, listRevocations, type Revocation, type RevokeOptions, revoke } from "./revocation.ts"
import { type CancelOptions, cancelJob, type DeleteOptions, deleteJob, rerunJob } from "./steering.ts"
import { type PlanContext, parseSubmission, plan, type Submission, type SubmissionFields } from "./submission.ts"
import { taskSent } from "./task-sent.ts"
import { openTracing, type Tracing, type TracingSettings } from "./tracing/tracing.ts"
import {
  findRecord,
  followBoard,
  followJob,
  type JobEvent,
  type Outcome,
  outcomeOf,
  valueOf,
  waitForEnd,
} from "./tracking.ts"
import type { QueueStats, RecordQuery, Transport } from "./transport.ts"
import { TransportError } from "./transport.ts"
import type { ActorHandle, AnyActor } from "./typed-client.ts"
import { type JobView, jobView } from "./view.ts"
import { askWhy } from "./why/ask.ts"
import type { Why } from "./why/cause.ts"

/** What came of a submission: kept as durably as `durability` says, or known already. */
export interface Receipt {
  readonly id: string
  readonly state: "queued" | "scheduled" | "deferred"
  readonly durability: Transport["capabilities"]["durability"]
  /** The job was known already: nothing was added. */
  readonly duplicate?: true
}

/** A job by its id. Nothing is asked of the transport until a method is called. */
export interface JobHandle<R = unknown> {
  readonly id: string
  /** Its record. Fails with `CallboardError` `not-found`. */
  find(): Promise<JobView>
  /** Waits for the end and returns the result. Fails with `JobFailed | JobCancelled | JobExpired | ResultGone | WaitTimeout`. */
  result(options?: WaitOptions): Promise<R>
  /** Waits for the end and tells how it came, as a union. Fails with `WaitTimeout`. */
  outcome(options?: WaitOptions): Promise<Outcome<R>>
  /** Its transitions and progress, replayed and then live, until it ends. */
  events(options?: { readonly lastEventId?: string; readonly signal?: AbortSignal }): AsyncIterable<JobEvent>
  /** Cancels it. Fails with `already-terminal`. */
  cancel(options?: CancelOptions): Promise<JobView>
  retry(): Promise<JobView>
  /** Forgets it. Fails with `job-exists` while it runs. */
  delete(options?: DeleteOptions): Promise<void>
}

export interface WaitOptions {
  /** Longest wait: seconds, or text such as `"1 minute"`. Defaults to no bound. */
  readonly timeout?: number | string
  readonly signal?: AbortSignal
}

/** The handle of a job that was just submitted. */
export interface SubmittedJob<R = unknown> extends JobHandle<R> {
  readonly receipt: Receipt
}

export interface JobPage {
  readonly jobs: ReadonlyArray<JobView>
  readonly next?: string
}

export interface ClientSettings extends ConnectSettings, TracingSettings {
  /** Task names that stand for an actor's method: `app.tasks.add` → `math.add`. */
  readonly taskNames?: ReadonlyMap<string, string>
  /** Tells of each task that was accepted, as the event `task-sent`. Defaults to false. */
  readonly taskSentEvents?: boolean
}

/** Connects to a transport and returns a client; `await using` closes it. */
export const connect = async (target: string | object, settings: ClientSettings = {}): Promise<Client> => {
  const { taskNames, taskSentEvents = false } = settings
  const tracing = await openTracing(settings)
  return new Client(await connectBoard(target, settings), {
    ownsTransport: true,
    taskSentEvents,
    ...(taskNames === undefined ? {} : { taskNames }),
    ...(tracing === undefined ? {} : { tracing }),
  })
}

const PUBLISH_CHUNK = 1_000

export class Client implements AsyncDisposable {
  readonly board: Board
  readonly directory: Directory
  readonly #ownsTransport: boolean
  readonly #taskNames: ReadonlyMap<string, string>
  readonly #tracing: Tracing | undefined
  readonly #origin = `gen${process.pid}@${hostname()}`
  readonly #events: EventSender

  constructor(
    board: Board,
    options: {
      readonly ownsTransport?: boolean
      readonly actors?: ReadonlyArray<ActorDescription>
      readonly taskNames?: ReadonlyMap<string, string>
      readonly tracing?: Tracing
      readonly taskSentEvents?: boolean
    } = {},
  ) {
    this.board = board
    this.directory = new Directory(board.store, options.actors)
    this.#ownsTransport = options.ownsTransport ?? false
    this.#taskNames = options.taskNames ?? new Map()
    this.#tracing = options.tracing
    this.#events = new EventSender({ board, hostname: this.#origin, enabled: options.taskSentEvents ?? false })
  }

  /** Submits one task; resolves once it is kept. Fails with {@link CallboardError} or `TransportError`. */
  async submit(task: string, fields: SubmissionFields = {}, context: SubmitContext = {}): Promise<SubmittedJob> {
    const [answer] = await this.submitMany([{ ...fields, task }], context)
    if (answer === undefined) throw new CallboardError("internal", "the submission was lost")
    if (answer instanceof CallboardError) throw answer
    return this.#submitted(answer)
  }

  /**
   * Submits tasks in as few round trips as the transport needs. The whole array is checked first: one that is wrong
   * fails all, with its `index`. Then each element has its own answer, in order.
   */
  async submitMany(
    submissions: ReadonlyArray<unknown>,
    context: SubmitContext = {},
  ): Promise<ReadonlyArray<Receipt | CallboardError>> {
    return this.post(await this.prepare(submissions, context))
  }

  /** The first half of {@link submitMany}: checks everything and fixes the ids. Nothing is submitted yet. */
  async prepare(submissions: ReadonlyArray<unknown>, context: SubmitContext = {}): Promise<Prepared> {
    const now = Date.now()
    const known = new Set<string>()
    const planning: Array<Promise<Result.Result<Posting, CallboardError>>> = []
    for (const [index, value] of submissions.entries()) {
      const checked = withoutTwin(parseSubmission(value), known)
      // Together: what is asked about one actor after the other may each take as long as the transport needs to fail.
      if (Result.isSuccess(checked)) planning.push(this.#plan(checked.success, now, context, context.ids?.[index]))
      else {
        planning.push(Promise.resolve(Result.fail(checked.failure)))
        break
      }
    }
    const postings: Array<Posting> = []
    for (const [index, posting] of (await Promise.all(planning)).entries()) {
      if (Result.isFailure(posting)) throw at(posting.failure, submissions.length, index)
      postings.push(posting.success)
    }
    const early = tooEarly(postings)
    if (early !== undefined) throw at(early.error, submissions.length, early.index)
    return { postings, known, now }
  }

  /** The second half of {@link submitMany}. Each element has its own answer, in order. */
  async post({ postings, known, now }: Prepared): Promise<ReadonlyArray<Receipt | CallboardError>> {
    const publish = async (all: ReadonlyArray<Posting>): Promise<ReadonlyArray<Receipt | CallboardError>> => {
      const answers: Array<Receipt | CallboardError> = []
      for (let from = 0; from < all.length; from += PUBLISH_CHUNK) {
        answers.push(...(await this.#publish(all.slice(from, from + PUBLISH_CHUNK), known, now)))
      }
      return answers
    }
    return this.#tracing === undefined ? publish(postings) : this.#tracing.submission(postings, publish)
  }

  async #plan(
    submission: Submission,
    now: number,
    context: SubmitContext,
    freshId: string | undefined,
  ): Promise<Result.Result<Posting, CallboardError>> {
    const address = resolveName(
      submission.task,
      submission.meth ?? null,
      (name) => this.directory.local.has(name),
      this.#taskNames,
    )
    const id = submission.id ?? freshId ?? generateId(now)
    let actor: ActorDescription | undefined
    try {
      // The actor may be served by another process: what the store knows of it decides its queue.
      const asked = this.directory.find(address.actor)
      actor = asked instanceof Promise ? await asked : asked
    } catch (cause) {
      // In the default queue nobody may ever look for it: better not accepted than accepted there.
      if (context.strict || submission.queue === undefined)
        return Result.fail(publishFailed(id, asTransportError(cause), "none"))
    }
    const method = actor?.methods.find((candidate) => candidate.name === (address.meth ?? DEFAULT_METHOD))
    if (context.strict && (actor === undefined || method === undefined)) {
      return Result.fail(unknownActor(submission.task, address, actor, this.directory))
    }
    const priority = method?.priority
    const planned: PlanContext = {
      now,
      id,
      origin: this.#origin,
      defaults: {
        queue: method?.queue ?? actor?.queue ?? DEFAULT_QUEUE,
        ...(priority === undefined ? {} : { priority }),
      },
      ...(context.parent === undefined ? {} : { parent: context.parent }),
      ...(context.traceparent === undefined ? {} : { traceparent: context.traceparent }),
      ...(context.tracestate === undefined ? {} : { tracestate: context.tracestate }),
    }
    const posting = plan(submission, planned)
    const { maxBody = Number.POSITIVE_INFINITY } = context
    if (Result.isSuccess(posting) && posting.success.message.body.length > maxBody) {
      const { length } = posting.success.message.body
      return Result.fail(new CallboardError("too-large", `the body has ${length} bytes, and ${maxBody} are allowed`))
    }
    return posting
  }

  async #publish(
    postings: ReadonlyArray<Posting>,
    known: ReadonlySet<string>,
    now: number,
  ): Promise<ReadonlyArray<Receipt | CallboardError>> {
    const { capabilities } = this.board.transport
    const fresh: Array<Posting> = []
    const deferred: Array<Posting> = []
    const answers = new Map<Posting, Receipt | CallboardError>()
    // Together: a thousand round trips one after the other would outlast the deadline of a request.
    const before = await Promise.all(postings.map((each) => (known.has(each.id) ? this.#earlier(each) : undefined)))
    for (const [at, posting] of postings.entries()) {
      const earlier = before[at]
      if (earlier !== undefined) answers.set(posting, earlier)
      else if (isDeferred(posting.message)) deferred.push(posting)
      else fresh.push(posting)
    }
    const receipts = await this.board.queue.publish(fresh).catch((cause: unknown) => {
      const error = asTransportError(cause)
      return fresh.map(() => ({ status: "failed" as const, error }))
    })
    for (const [at, posting] of fresh.entries()) {
      const receipt = receipts[at]
      if (receipt === undefined || receipt.status === "failed") {
        answers.set(posting, publishFailed(posting.id, receipt?.error))
      } else {
        // Another submission of this id may have come in between: it must have been the same.
        const raced = receipt.status === "duplicate" && known.has(posting.id) ? await this.#earlier(posting) : undefined
        const accepted: Receipt = {
          id: posting.id,
          state: posting.due !== undefined && posting.due > now ? "scheduled" : "queued",
          durability: capabilities.durability,
          ...(receipt.status === "duplicate" ? { duplicate: true as const } : {}),
        }
        answers.set(posting, raced ?? accepted)
        if (this.#events.enabled && accepted.duplicate === undefined) await this.#tellSent(posting)
      }
    }
    if (deferred.length > 0) await this.#defer(deferred, answers)
    return postings.map((posting) => answers.get(posting) ?? publishFailed(posting.id, undefined))
  }

  /** Submits those that wait for others, after those that do not: what they wait for may be among them. */
  async #defer(postings: ReadonlyArray<Posting>, answers: Map<Posting, Receipt | CallboardError>): Promise<void> {
    const { durability } = this.board.transport.capabilities
    const accepted = [...answers.values()].flatMap((answer) => (answer instanceof CallboardError ? [] : [answer.id]))
    const deferred = await defer(this.board, postings, new Set(accepted))
    for (const [at, posting] of postings.entries()) {
      const { id } = posting
      const answer: Deferred | undefined = deferred[at]
      if (answer === "deferred") {
        answers.set(posting, { id, state: "deferred", durability })
        if (this.#events.enabled) await this.#tellSent(posting)
      } else if (answer === "conflict") {
        answers.set(posting, (await this.#earlier(posting)) ?? publishFailed(id, undefined))
      } else answers.set(posting, answer instanceof CallboardError ? answer : publishFailed(id, answer))
    }
  }

  async #tellSent(posting: Posting): Promise<void> {
    const fields = await taskSent(posting, async (task, meth) => {
      const target = resolveName(task, meth, (name) => this.directory.local.has(name), this.#taskNames)
      const actor = await this.directory.find(target.actor)
      return actor?.methods.find((method) => method.name === (target.meth ?? DEFAULT_METHOD))
    })
    if (fields !== undefined) this.#events.tell("task-sent", fields)
  }

  /** A submission with an id of its own may be a repetition: the same task again is a duplicate, another is refused. */
  async #earlier(posting: Posting): Promise<Receipt | CallboardError | undefined> {
    let found: Awaited<ReturnType<Board["records"]["find"]>>
    try {
      found = await this.board.records.find(posting.id)
    } catch (cause) {
      return publishFailed(posting.id, asTransportError(cause), "none")
    }
    if (found === undefined) return undefined
    const { record } = found
    const sameName =
      record.task === posting.message.headers["task"] && record.meth === (posting.message.headers["meth"] ?? null)
    const body = record.message?.body
    const sameBody = body === undefined || Buffer.compare(body, posting.message.body) === 0
    if (!sameName || !sameBody || record.tombstone) {
      return new CallboardError("job-exists", `there is another job with the id ${posting.id}`, {
        id: posting.id,
        field: "id",
      })
    }
    const { durability } = this.board.transport.capabilities
    const { state } = record
    const told = state === "scheduled" || state === "deferred" ? state : "queued"
    return { id: posting.id, state: told, durability, duplicate: true }
  }

  /** A typed handle of an actor; types only, its module is not loaded. */
  actor<A extends AnyActor>(name: A["name"]): ActorHandle<A> {
    // A proxy answers every method name: which ones exist is known to the types and to the worker, not here.
    const handle = new Proxy(Object.create(null), {
      get: (_target, method) =>
        typeof method !== "string" || method === "then"
          ? undefined
          : {
              submit: (input?: unknown, fields: SubmissionFields = {}) =>
                this.submit(name, { ...fields, meth: method, ...(input === undefined ? {} : { input }) }),
            },
    })
    return handle
  }

  /** A job by its id, for instance one that was submitted over HTTP. */
  job<R = unknown>(id: string): JobHandle<R> {
    return this.#handle<R>(id)
  }

  #submitted(receipt: Receipt): SubmittedJob {
    return { ...this.#handle(receipt.id), receipt }
  }

  #handle<R>(id: string): JobHandle<R> {
    const { board } = this
    const end = (options: WaitOptions) => waitForEnd(board, id, timeoutOf(options), options.signal)
    return {
      id,
      find: async () => jobView((await findRecord(board, id)).record),
      // The record holds what the method returned, in its JSON form: the caller's type says what that is.
      result: async (options = {}) => valueOf(id, outcomeOf(await end(options)) ?? { state: "gone" }) as R,
      outcome: async (options = {}) => (outcomeOf(await end(options)) ?? { state: "gone" }) as Outcome<R>,
      events: (options = {}) => followJob(board, id, options),
      cancel: async (options = {}) => jobView(await cancelJob(board, id, options)),
      retry: async () => jobView(await rerunJob(board, id)),
      delete: (options = {}) => deleteJob(board, id, options),
    }
  }

  /**
   * Why a job does not run: the first cause is the true one. While the transport is down that is the cause. Fails with
   * `not-found`, and with `gone` for a job that is not kept any more.
   */
  why(id: string): Promise<Why> {
    return askWhy(this.board, id, { taskNames: this.#taskNames })
  }

  /** Jobs, newest first, a page at a time. */
  async jobs(query: Partial<RecordQuery> = {}): Promise<JobPage> {
    const page = await this.board.records.query({ limit: 100, ...query })
    return { jobs: page.records.map(jobView), ...(page.next === undefined ? {} : { next: page.next }) }
  }

  /** Cancels the jobs of one page of a query. Pass `next` on as `after` until there is none. */
  cancelAll(query: Partial<RecordQuery>): Promise<BulkReport> {
    return decideAll(this.board, query, (board, id) => cancelJob(board, id))
  }

  /** Runs the ended jobs of one page of a query again. Pass `next` on as `after` until there is none. */
  retryAll(query: Partial<RecordQuery>): Promise<BulkReport> {
    return decideAll(this.board, query, rerunJob)
  }

  /** Every job's changes, from now on, until the signal fires. */
  events(signal: AbortSignal): ReturnType<typeof followBoard> {
    return followBoard(this.board, signal)
  }

  /**
   * Cancels every task that carries a header with one of some values, now and until the revocation lapses. Waiting ones
   * end when their turn comes, running ones at once. Fails with `invalid-input`.
   */
  revoke(options: RevokeOptions): Promise<Revocation> {
    return revoke(this.board.store, options)
  }

  /** Revocations that hold now, oldest first. */
  revocations(): Promise<ReadonlyArray<Revocation>> {
    return listRevocations(this.board.store)
  }

  /** Ends a revocation; what it has cancelled stays cancelled. Fails with `not-found`. */
  lift(id: string): Promise<void> {
    return lift(this.board.store, id)
  }

  /**
   * What workers and applications tell (`worker-online`, `task-superseded`, `order-shipped` …), from now on, until the signal
   * fires. Resolves once it listens. Best effort: nothing is replayed.
   */
  listen(listener: (event: ReceivedEvent) => void, signal: AbortSignal): Promise<void> {
    const heard = (event: ReceivedEvent) => {
      this.#events.heard(event)
      listener(event)
    }
    return listenToEvents(this.board, heard, signal)
  }

  /**
   * Tells an event of the application, `order-shipped`, to whoever listens now. The type is `category-action` in lower case,
   * with another category than `task` and `worker`; the fields are JSON of 64 KiB at most. Resolves once it is sent. Fails with
   * `CallboardError` `invalid-input`, naming the field, and with `TransportError`.
   */
  async event(type: string, fields: OwnEventFields = {}): Promise<void> {
    checkOwnEvent(type, fields)
    await this.#events.send(type, fields)
  }

  /** Lets a queue take tasks and give none out, until it is resumed. Fails with `invalid-input`. */
  pause(queue: string): Promise<void> {
    return pauseQueue(this.board.store, queue)
  }

  resume(queue: string): Promise<void> {
    return resumeQueue(this.board.store, queue)
  }

  /** Names of the queues that are paused. */
  paused(): Promise<ReadonlyArray<string>> {
    return pausedQueues(this.board.store)
  }

  /** Cancels what waits in a queue; resolves with how many tasks that were. Fails with `invalid-input`, `unsupported`. */
  purge(queue: string, options: PurgeOptions = {}): Promise<number> {
    return purgeQueue(this.board, queue, options)
  }

  /** Lets a worker, or all there are and will be, pull nothing; what runs goes on. Fails with `invalid-input`. */
  suspend(worker?: string, options: SuspendOptions = {}): Promise<void> {
    return suspendWorkers(this.board.store, worker, options)
  }

  /** Ends the suspension of a worker, or every suspension there is. */
  unsuspend(worker?: string): Promise<void> {
    return resumeWorkers(this.board.store, worker)
  }

  /**
   * Sends a command to workers (`active`, `pool-grow` …) and collects their answers, one per worker. Fails with
   * `invalid-input`, naming the argument, and with `not-found` for workers that do not live.
   */
  control(command: CommandName, given: object = {}, options: AskOptions = {}): Promise<ReadonlyArray<Answer>> {
    return ask(this.board, command, given, options)
  }

  async queues(): Promise<ReadonlyArray<QueueStats>> {
    return (await this.board.queue.stats?.()) ?? []
  }

  workers(): Promise<ReadonlyArray<WorkerDescription>> {
    return listWorkers(this.board.store)
  }

  /** Actors that live workers serve, and those of this process. */
  async actors(): Promise<ReadonlyArray<ActorDescription>> {
    const all = new Map((await listActors(this.board.store)).map((actor) => [actor.name, actor]))
    for (const actor of this.directory.local.values()) all.set(actor.name, actor)
    return [...all.values()].sort((a, b) => a.name.localeCompare(b.name))
  }

  async close(): Promise<void> {
    await this.#events.flush()
    if (this.#ownsTransport) await this.board.transport.close()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }
}

export interface SubmitContext {
  /** The job that submits: becomes the new job's parent. */
  readonly parent?: { readonly id: string; readonly rootId: string }
  /** W3C trace context, carried along with the task. */
  readonly traceparent?: string
  /** What tracing systems say beside it: dropped without a `traceparent`, and where it is malformed; 512 characters are kept. */
  readonly tracestate?: string
  /** Refuse names that no worker is known to serve. */
  readonly strict?: boolean
  /** Fresh ids for submissions that name none, in order: never used before, so that nothing is looked up. */
  readonly ids?: ReadonlyArray<string>
  /** Refuse tasks whose encoded body has more bytes. */
  readonly maxBody?: number
}

/** Submissions that were checked, ready to be posted. */
export interface Prepared {
  readonly postings: ReadonlyArray<Posting>
  /** Ids that the submitter named: there may be jobs with them. */
  readonly known: ReadonlySet<string>
  readonly now: number
}

/** A submission whose id no other of the same call has. Notes the id. */
const withoutTwin = (
  checked: Result.Result<Submission, CallboardError>,
  known: Set<string>,
): Result.Result<Submission, CallboardError> => {
  const id = Result.isSuccess(checked) ? checked.success.id : undefined
  if (id === undefined) return checked
  if (known.has(id)) return Result.fail(new CallboardError("invalid-input", "id: is given twice", { field: "id" }))
  known.add(id)
  return checked
}

const timeoutOf = (options: WaitOptions): number => {
  if (options.timeout === undefined) return Number.POSITIVE_INFINITY
  const parsed = parseDuration(options.timeout)
  if (Result.isFailure(parsed)) throw new CallboardError("invalid-input", parsed.failure.message, { field: "timeout" })
  return parsed.success
}

const at = (error: CallboardError, length: number, index: number): CallboardError =>
  length === 1 ? error : new CallboardError(error.code, `[${index}] ${error.message}`, { ...error.details, index })

/** `outcome` is given where nothing was published yet. */
const publishFailed = (
  id: string,
  error: TransportError | undefined,
  outcome = error?.outcome ?? "unknown",
): CallboardError => {
  const cause = error ?? new TransportError("internal", "the transport gave no receipt")
  switch (cause.reason) {
    case "too-large":
      return new CallboardError("too-large", cause.message, { id, cause })
    case "unsupported":
    case "invalid":
      return new CallboardError(cause.reason === "invalid" ? "invalid-input" : "unsupported", cause.message, {
        id,
        cause,
      })
    default:
      return new CallboardError(
        "transport-unavailable",
        `the task was not confirmed (${cause.message}); submitting it again with id ${id} is safe`,
        { id, outcome, cause },
      )
  }
}

const unknownActor = (
  task: string,
  address: Target,
  actor: ActorDescription | undefined,
  directory: Directory,
): CallboardError =>
  actor === undefined
    ? new CallboardError(
        "unknown-actor",
        `no actor ${address.actor} is known (known: ${[...directory.local.keys()].join(", ") || "none"})`,
        { field: "task" },
      )
    : new CallboardError(
        "unknown-actor",
        `actor ${address.actor} has no method ${address.meth ?? DEFAULT_METHOD} (it has ${actor.methods.map((method) => method.name).join(", ")})`,
        { field: task.includes(".") ? "task" : "meth" },
      )
