/**
 * The client of an application: submits tasks, follows jobs, cancels and retries them, controls queues and workers. HTTP and
 * the command line are thin layers over it.
 */
import { hostname } from "node:os"
import { type ActorHandle, type AnyActor, actorHandle } from "../actor/actor-handle.ts"
import { stayAlive } from "../async/timers.ts"
import { Board, type BoardOptions } from "../board/board.ts"
import {
  type ActorDescription,
  Directory,
  listActors,
  listWorkers,
  type WorkerDescription,
} from "../cluster/directory.ts"
import {
  checkOwnEvent,
  EventSender,
  listenToEvents,
  type OwnEventFields,
  type ReceivedEvent,
} from "../cluster/events.ts"
import {
  pausedQueues,
  pauseQueue,
  resumeQueue,
  resumeWorkers,
  type SuspendOptions,
  suspendWorkers,
} from "../cluster/pausing.ts"
import { limitQueue, type QueueLimitOptions, queueLimits } from "../cluster/queue-limits.ts"
import { countJobs, queueStates } from "../cluster/queue-states.ts"
import { askWorkers, type CommandOptions } from "../cluster/remote-ask.ts"
import type { AnswerTo, ArgumentsOf, CommandName } from "../cluster/remote-command.ts"
import { liftRevocation, listRevocations, type Revocation, type RevokeOptions, revoke } from "../cluster/revocation.ts"
import { openConnection } from "../connection/connect.ts"
import type { Connection } from "../connection/connection.ts"
import { CallboardError } from "../errors.ts"
import { cancelAlone, whyNotCancel } from "../jobs/commands/cancel.ts"
import { type BulkReport, decideAll } from "../jobs/commands/decide.ts"
import { type BulkPlan, planAll } from "../jobs/commands/plan.ts"
import {
  type BoundedPurgeOptions,
  deleteQueue,
  type Purged,
  type PurgeOptions,
  purgeQueue,
} from "../jobs/commands/purge.ts"
import { rerunJob, whyNotRerun } from "../jobs/commands/rerun.ts"
import { cancelGroup, findGroup, listGroups } from "../jobs/groups.ts"
import type { JobHandle, SubmittedJob } from "../jobs/handle.ts"
import type { Receipt } from "../jobs/receipt.ts"
import { checkFields } from "../jobs/submission/plain-fields.ts"
import type { Submission, SubmissionFields } from "../jobs/submission/submission.ts"
import { judged, REPORT_DELAY_MS } from "../jobs/tracking/finding.ts"
import { followBoard } from "../jobs/tracking/following.ts"
import { type QueuePlace, queuePlaceOf, type WaitingRange, waitingIn } from "../jobs/tracking/waiting.ts"
import { jobView } from "../jobs/view.ts"
import { askWhy } from "../jobs/why/ask.ts"
import type { Why } from "../jobs/why/cause.ts"
import { optionsChecker } from "../options/check.ts"
import { wholeNumber } from "../options/fields.ts"
import { checkSignal } from "../options/plain.ts"
import { refuseInput, refuseUnknown } from "../options/refuse.ts"
import { compact } from "../protocol/compact.ts"
import { Schedules } from "../schedules/schedules.ts"
import { queueStats } from "../statistics/queue-stats.ts"
import type { QueueStats } from "../statistics/schema.ts"
import { Statistics } from "../statistics/statistics.ts"
import { type StepPage, stepsOf } from "../steps/listing.ts"
import type { SubmissionTracing } from "../tracing/trace.ts"
import { openTracing } from "../tracing/tracing.ts"
import type { JobCount } from "../transport/job-store/transport.ts"
import { Conductor, type ConductorOptions } from "./conductor.ts"
import { jobHandle } from "./connected-handle.ts"
import { checkInputs, type GroupHandle, type GroupOptions, inChunks, PendingGroup } from "./group.ts"
import {
  asking,
  isNamed,
  type JobPage,
  type JobQuery,
  type NamedJobs,
  namedJobsOf,
  recordQueryOf,
} from "./job-query.ts"
import { CLIENT_FIELDS, type ClientSettings, clientValues } from "./settings.ts"
import { checkSubmitContext, type SubmitContext } from "./submitting/planner.ts"
import { type Prepared, Submitter } from "./submitting/submitter.ts"

const checkSettings = optionsChecker(CLIENT_FIELDS, "connect()")

/**
 * Connects to a transport, by URL or by a broker client that the application holds, and resolves with a client;
 * `await using` closes it. Fails with `CallboardError` `invalid-input`, naming the option, and with `TransportError` where the
 * transport cannot be reached or refuses. Both have a `code`: `transport-unavailable`, `unsupported` for a scheme that no
 * transport has, `invalid-input` for a wrong URL.
 *
 * @example
 * ```ts
 * await using client = await connect("nats://127.0.0.1:4222")
 * const job = await client.submit("orders.total", { input: { items: ["tea"] } })
 * ```
 */
export const connect = async (target: string | object, settings: ClientSettings = {}): Promise<Client> => {
  checkSettings(settings)
  const { connection, options } = await clientParts(target, settings)
  return new Client(connection, options)
}

/** What a client with these settings, which were checked, is made of. Fails as {@link connect} does. */
export const clientParts = async (
  target: string | object,
  settings: ClientSettings,
): Promise<{ readonly connection: Connection; readonly options: ClientOptions }> => {
  const values = clientValues(settings)
  const { taskNames = {}, taskSentEvents, failureTtlMs } = values
  const tracing = await openTracing(values)
  const connection = await openConnection(target, values, () => failureTtlMs)
  const options = {
    ownsTransport: true,
    taskNames: new Map(Object.entries(taskNames)),
    taskSentEvents,
    sender: settings.name,
    ...compact({ tracing }),
  }
  return { connection, options }
}

interface ClientOptions {
  readonly ownsTransport?: boolean
  readonly actors?: ReadonlyArray<ActorDescription>
  readonly taskNames?: ReadonlyMap<string, string>
  readonly tracing?: SubmissionTracing
  readonly taskSentEvents?: boolean
  /** Name of the client, which jobs show as their submitter. Absent: they show the process. */
  readonly sender?: string | undefined
}

/** The arguments may be left out where a command needs none. */
type ControlArguments<C extends CommandName> =
  Record<never, never> extends ArgumentsOf<C>
    ? [given?: ArgumentsOf<C>, options?: CommandOptions]
    : [given: ArgumentsOf<C>, options?: CommandOptions]

const answerOf = (report: Purged, { budget, signal }: PurgeOptions | BoundedPurgeOptions): number | Purged =>
  budget === undefined && signal === undefined ? report.purged : report

export class Client implements AsyncDisposable {
  readonly connection: Connection
  readonly directory: Directory
  /** Tasks that are submitted by the clock: `client.schedules.create("weekly", { cron: "0 7 * * mon", task: … })`. */
  readonly schedules: Schedules
  /** Statistics: series over time, findings, errors by cause. */
  readonly statistics: Statistics
  readonly #ownsTransport: boolean
  readonly #taskNames: ReadonlyMap<string, string>
  readonly #events: EventSender
  readonly #submitter: Submitter
  readonly #boards = new Set<Board>()
  readonly #conductors = new Set<Conductor>()
  readonly #closing = new AbortController()

  constructor(connection: Connection, options: ClientOptions = {}) {
    const {
      ownsTransport = false,
      actors,
      taskNames = new Map<string, string>(),
      tracing,
      taskSentEvents = false,
      sender,
    } = options
    const origin = `gen${process.pid}@${hostname()}`
    this.connection = connection
    this.directory = new Directory(connection.store, actors)
    this.statistics = new Statistics(connection)
    this.#ownsTransport = ownsTransport
    this.#taskNames = taskNames
    this.#events = new EventSender({ connection, hostname: origin, enabled: taskSentEvents })
    const { directory } = this
    const submitter = new Submitter({ connection, directory, taskNames, origin, sender, events: this.#events, tracing })
    this.#submitter = submitter
    this.schedules = new Schedules({
      connection,
      plan: (submission, id, now) => submitter.plan(submission, id, now),
      sent: (posting) => submitter.sent(posting),
      check: async (submission, context) => void (await submitter.prepare([submission], context)),
    })
  }

  /**
   * Submits one task; resolves once it is stored, with a handle of its job. Fails with {@link CallboardError}: `invalid-input`
   * and `unknown-field` name the field; `transport-unavailable` has in `details.outcome` whether the task may have been accepted.
   *
   * @example
   * ```ts
   * const job = await client.submit("orders.total", { input: { items: ["tea"] }, delay: "1 hour" })
   * ```
   */
  async submit(task: string, fields: SubmissionFields = {}, context: SubmitContext = {}): Promise<SubmittedJob> {
    checkFields(fields)
    const [answer] = await this.submitMany([{ ...fields, task }], context)
    if (answer === undefined) throw new CallboardError("internal", "the submission was lost")
    if (answer instanceof CallboardError) throw answer
    return this.#submitted(answer, fields)
  }

  /**
   * Submits tasks in as few round trips as the transport needs. The whole array is checked first: an invalid element fails the
   * call, with its `index`. Then each element has a result of its own, in order: a receipt or an error. With `atomic` all
   * are stored or none, and the call fails as a whole.
   *
   * @example
   * ```ts
   * const tasks = ["tea", "cake"].map((item) => ({ task: "orders.total", input: { items: [item] } }))
   * const results = await client.submitMany(tasks)
   * ```
   */
  async submitMany(
    submissions: ReadonlyArray<Submission>,
    context: SubmitContext = {},
  ): Promise<ReadonlyArray<Receipt | CallboardError>> {
    return this.post(await this.prepare(submissions, context))
  }

  /** The first half of {@link submitMany}: checks everything and fixes the ids. Nothing is submitted yet. */
  async prepare(submissions: ReadonlyArray<unknown>, context: SubmitContext = {}): Promise<Prepared> {
    checkSubmitContext(context)
    return this.#submitter.prepare(submissions, context)
  }

  /** The second half of {@link submitMany}: stores the tasks. Each element has a result of its own, in order. */
  post(prepared: Prepared): Promise<ReadonlyArray<Receipt | CallboardError>> {
    return this.#submitter.post(prepared)
  }

  /** A handle with the methods of an actor, typed by `A`. The module of the actor is not loaded. */
  actor<A extends AnyActor>(name: A["name"]): ActorHandle<A> {
    return actorHandle<A>(name, {
      submit: (task, fields) => this.submit(task, fields),
      submitMany: async (submissions) =>
        (await this.submitMany(submissions)).map((each, at) =>
          each instanceof CallboardError ? each : this.#submitted(each, submissions[at]),
        ),
    })
  }

  /**
   * Tasks that belong together. `.submit()` submits them, each with a result of its own; `.then("report.sum")` submits them as a
   * chord: that task starts when all have succeeded, and gets the list of their results. With a name instead of tasks: the
   * handle of a group that was submitted before.
   *
   * @example
   * ```ts
   * const orders = client.group([{ task: "orders.total", input: { items: ["tea"] } }])
   * const job = await orders.then("orders.cheapest")
   * ```
   */
  group(id: string): GroupHandle
  group(tasks: ReadonlyArray<Submission>, options?: GroupOptions): PendingGroup
  group(of: string | ReadonlyArray<Submission>, options: GroupOptions = {}): GroupHandle | PendingGroup {
    const handle = (id: string): GroupHandle => ({
      id,
      find: () => findGroup(this.connection, id),
      jobs: (query = {}) => this.jobs({ ...query, group: id }),
      cancel: () => cancelGroup(this.connection, id),
    })
    if (typeof of === "string") return handle(of)
    return new PendingGroup(of, options, {
      handle,
      submit: (task, fields) => this.submit(task, fields),
      submitMany: async (submissions) =>
        (await this.submitMany(submissions)).map((each, at) =>
          each instanceof CallboardError ? each : this.#submitted(each, submissions[at]),
        ),
    })
  }

  /** A group with one task for each input. */
  map(task: string, inputs: ReadonlyArray<unknown>, fields: Omit<SubmissionFields, "input" | "id"> = {}): PendingGroup {
    checkInputs(inputs)
    return this.group(inputs.map((input) => ({ ...fields, task, input })))
  }

  /** A group with one task for each `size` inputs, which gets them as a list. */
  chunks(
    task: string,
    inputs: ReadonlyArray<unknown>,
    size: number,
    fields: Omit<SubmissionFields, "input" | "id"> = {},
  ): PendingGroup {
    return this.map(task, inChunks(inputs, size), fields)
  }

  /** Names of the groups that have jobs, a page at a time: `next` of one page is `after` of the next. */
  async groups(
    page: { readonly limit?: number | undefined; readonly after?: string | undefined } = {},
  ): ReturnType<typeof listGroups> {
    refuseUnknown(page, { limit: true, after: true }, "groups()")
    return listGroups(this.connection, page)
  }

  #submitted(receipt: Receipt, { expires, ttl }: SubmissionFields = {}): SubmittedJob {
    const acceptedAt = performance.now()
    // A wait for the end of a job that may expire reads when that is.
    const mayExpire = expires !== undefined || ttl !== undefined
    const isNew = () => !receipt.duplicate && !mayExpire && performance.now() - acceptedAt < REPORT_DELAY_MS
    return { ...jobHandle(this.connection, receipt.id, isNew), receipt }
  }

  /**
   * A job board, from which workers claim the jobs they want: connected until it, or this client, is closed. Fails with
   * `invalid-input`.
   *
   * @example
   * ```ts
   * const board = client.board("builds")
   * await board.post("compile", { details: { commit: "4f2a" } })
   * const claim = await board.take("builder-1", { wait: "30s" })
   * await claim.consume()
   * ```
   */
  board(name: string, options: BoardOptions = {}): Board {
    const { connection } = this
    const closing = this.#closing.signal
    const board: Board = new Board(
      name,
      async () => {
        if (closing.aborted) {
          const message = `the client of the board ${name} was closed`
          throw new CallboardError("not-connected", message, { outcome: "none" })
        }
        this.#boards.add(board)
        return { connection, close: async () => void this.#boards.delete(board) }
      },
      options,
      closing.aborted ? undefined : connection,
    )
    if (!closing.aborted) this.#boards.add(board)
    return board
  }

  /**
   * A conductor of a job board: it takes the jobs of the board, submits the task that `details.flow` of each names, and consumes
   * the board's job once that has ended. It begins with `run()`, and ends with this client. Fails with `invalid-input`.
   *
   * @example
   * ```ts
   * const conductor = client.conductor({ board: "builds", maxSimultaneousJobs: 4 })
   * await conductor.run()
   * ```
   */
  conductor(options: ConductorOptions): Conductor {
    return new Conductor(
      {
        connection: this.connection,
        board: (name, given) => this.board(name, given),
        submit: (task, fields) => this.submit(task, fields),
        running: this.#conductors,
      },
      options,
    )
  }

  /** A job by its id, for instance one that was submitted over HTTP. */
  job<R = unknown>(id: string): JobHandle<R> {
    return jobHandle<R>(this.connection, id)
  }

  /**
   * Why a job does not run: the first cause is the true one; the others would hold it up next. While the transport is down that
   * is the cause. Fails with `not-found`, and with `gone` for a job that is not kept any more.
   */
  why(id: string): Promise<Why> {
    return askWhy(this.connection, id, { taskNames: this.#taskNames })
  }

  /**
   * Jobs, newest first, a page at a time: pass `next` on as `after` until there is none. Fails with `invalid-input`, and with
   * `unsupported` where the transport cannot list jobs.
   *
   * @example
   * ```ts
   * const { jobs, next } = await client.jobs({ states: ["failed"], limit: 50 })
   * ```
   */
  async jobs(query: JobQuery = {}): Promise<JobPage> {
    const { records, ...page } = await asking(query, (asked) => this.connection.jobs.list(asked))
    return { ...page, jobs: (await judged(this.connection, records, query.states)).map(jobView) }
  }

  /**
   * How many jobs match. A count by state and queue alone is exact, except for jobs that have succeeded. Those, and the
   * jobs of any other filter, are counted up to `max` (defaults to 1,000): `more` says that there are more. Which of the tasks
   * that workers have are `queued` and which are `started` is as of the workers' last heartbeats, at most two seconds ago.
   */
  async count(query: Omit<JobQuery, "limit" | "after"> = {}, max?: number): Promise<JobCount> {
    const { after: _after, limit: _limit, ...wanted } = recordQueryOf(query)
    if (max !== undefined) wholeNumber("most", max, { min: 0 })
    return countJobs(this.connection, wanted, max)
  }

  /**
   * Ids of the jobs that wait in a queue, those first that will be taken first; scheduled ones are in it from when they
   * are due. Fails with `invalid-input`, and with `unsupported` where the transport cannot list them.
   */
  waiting(queue: string, range: WaitingRange = {}): Promise<ReadonlyArray<string>> {
    return waitingIn(this.connection, queue, range)
  }

  /**
   * The durable steps of a job that have ended, in the order in which they did. Pass `next` on as `after` until there is none.
   * Fails with `not-found`, `gone`, and `invalid-input`, naming the option.
   */
  async steps(
    id: string,
    options: { readonly limit?: number | undefined; readonly after?: string | undefined } = {},
  ): Promise<StepPage> {
    refuseUnknown(options, { limit: true, after: true }, "steps()")
    const { limit = 100, after } = options
    wholeNumber("limit", limit, { min: 1, max: 1_000 })
    return stepsOf(this.connection, id, { limit, after })
  }

  /** The place of a job in its queue: `position` 0 is taken next. `null` for a job that does not wait in one, or is not due. */
  position(id: string): Promise<QueuePlace | null> {
    return queuePlaceOf(this.connection, id)
  }

  /**
   * Cancels the jobs of one page of a query, or those that are named. Pass `next` on as `after` until there is none.
   */
  async cancelAll(query: JobQuery | NamedJobs): Promise<BulkReport> {
    return this.#decideAll(query, (connection, id, check) => cancelAlone(connection, id, {}, check))
  }

  /**
   * Runs the ended jobs of one page of a query again, or those that are named. Pass `next` on as `after` until there is none.
   */
  async retryAll(query: JobQuery | NamedJobs): Promise<BulkReport> {
    return this.#decideAll(query, rerunJob)
  }

  #decideAll(query: JobQuery | NamedJobs, decide: Parameters<typeof decideAll>[2]): Promise<BulkReport> {
    if (isNamed(query)) return decideAll(this.connection, namedJobsOf(query), decide)
    return asking(query, (asked) => decideAll(this.connection, asked, decide))
  }

  /**
   * What {@link cancelAll} or {@link retryAll} would do to the jobs of a query, up to 10,000 of them, or to those that are
   * named; nothing is changed.
   */
  async planAll(decision: "cancel" | "retry", query: Omit<JobQuery, "limit" | "after"> | NamedJobs): Promise<BulkPlan> {
    if (decision !== "cancel" && decision !== "retry") refuseInput("decision", "must be cancel or retry")
    const wanted = isNamed(query) ? namedJobsOf(query) : recordQueryOf(query)
    const rule = decision === "cancel" ? { whyNot: whyNotCancel, runs: false } : { whyNot: whyNotRerun, runs: true }
    const recent = (tasks: ReadonlyArray<string>) => this.statistics.recent(tasks)
    return planAll(this.connection, wanted, { ...rule, taskNames: this.#taskNames, recent })
  }

  /**
   * The changes of all jobs, from now on, until the signal fires or the client is closed. A slow reader misses events.
   *
   * @example
   * ```ts
   * for await (const { job } of client.events(AbortSignal.timeout(60_000))) console.log(job.id, job.state)
   * ```
   */
  async *events(signal: AbortSignal): ReturnType<typeof followBoard> {
    checkSignal(signal)
    const stop = new AbortController()
    const sources = [signal, this.#closing.signal]
    const end = () => stop.abort()
    for (const source of sources) source.addEventListener("abort", end)
    try {
      if (!sources.some(({ aborted }) => aborted)) yield* followBoard(this.connection, stop.signal)
    } finally {
      for (const source of sources) source.removeEventListener("abort", end)
    }
  }

  /**
   * Cancels every task that carries a header with one of some values, now and until the revocation lapses. A waiting task ends
   * when it is delivered, a running one at once. Fails with `invalid-input`.
   */
  revoke(options: RevokeOptions): Promise<Revocation> {
    return revoke(this.connection.store, options)
  }

  /** Revocations that hold now, oldest first. */
  revocations(): Promise<ReadonlyArray<Revocation>> {
    return listRevocations(this.connection.store)
  }

  /** Ends a revocation; what it has cancelled stays cancelled. Fails with `not-found`. */
  lift(id: string): Promise<void> {
    return liftRevocation(this.connection.store, id)
  }

  /**
   * Calls `listener` with the events of workers and applications (`worker-online`, `task-superseded`, `order-shipped` …), from
   * now on, until the signal fires. Resolves once it listens, and keeps the process alive meanwhile. Best effort: nothing is
   * replayed.
   */
  async listen(listener: (event: ReceivedEvent) => void, signal: AbortSignal): Promise<void> {
    if (typeof listener !== "function") refuseInput("listener", "must be a function")
    checkSignal(signal)
    const heard = (event: ReceivedEvent) => {
      this.#events.received(event)
      listener(event)
    }
    const end = stayAlive(signal, this.#closing.signal)
    try {
      await listenToEvents(this.connection, heard, signal)
    } catch (error) {
      end()
      throw error
    }
  }

  /**
   * Sends an event of the application, such as `order-shipped`, to all that listen now. The type is `category-action` in lower
   * case, with another category than `task` and `worker`; the fields are JSON of 64 KiB at most. Resolves once it is sent. Fails with
   * `CallboardError` `invalid-input`, naming the field, and with `TransportError`.
   */
  async event(type: string, fields: OwnEventFields = {}): Promise<void> {
    checkOwnEvent(type, fields)
    await this.#events.send(type, fields)
  }

  /** Pauses a queue: it takes tasks and gives none out until it is resumed. Fails with `invalid-input`. */
  async pause(queue: string, options: { readonly by?: string | undefined } = {}): Promise<void> {
    refuseUnknown(options, { by: true }, "pause()")
    await pauseQueue(this.connection.store, queue, options.by)
  }

  /** Resumes a paused queue. Fails with `invalid-input`. */
  resume(queue: string): Promise<void> {
    return resumeQueue(this.connection.store, queue)
  }

  /**
   * Limits how many jobs of a queue run at a time, over all workers: `maxInFlight`, 1 to 100,000; `null` removes the limit. It
   * holds until it is changed. Running jobs go on, and a job that waits for its time or for its next attempt does not count.
   * Fails with `invalid-input`.
   *
   * @example
   * ```ts
   * await client.limitQueue("mail", { maxInFlight: 50 })
   * ```
   */
  async limitQueue(queue: string, options: QueueLimitOptions): Promise<void> {
    await limitQueue(this.connection.store, queue, options)
  }

  /** Names of the queues that are paused. */
  paused(): Promise<ReadonlyArray<string>> {
    return pausedQueues(this.connection.store)
  }

  /**
   * Cancels the jobs that wait in a queue, until none waits; resolves with their number. With a `budget` or a `signal` it
   * resolves with a report, whose `partial` says how many are left where these have ended it: to call it again goes on.
   * Fails with `invalid-input`, and with `unsupported` where the transport cannot list the tasks that wait.
   *
   * @example
   * ```ts
   * const { purged, partial } = await client.purge("mail", { budget: "10s" })
   * ```
   */
  purge(queue: string, options?: PurgeOptions): Promise<number>
  purge(queue: string, options: BoundedPurgeOptions): Promise<Purged>
  async purge(queue: string, options: PurgeOptions | BoundedPurgeOptions = {}): Promise<number | Purged> {
    return answerOf(await purgeQueue(this.connection, queue, options), options)
  }

  /**
   * Pauses a queue, cancels the jobs that wait in it, and takes it off the list of queues until it is used again; resolves as
   * {@link purge} does. Until nothing is left the queue stays paused, also where the call fails or its process ends: to call
   * it again goes on. Fails with `invalid-input` and `not-found`, and like {@link purge}.
   */
  deleteQueue(queue: string, options?: PurgeOptions): Promise<number>
  deleteQueue(queue: string, options: BoundedPurgeOptions): Promise<Purged>
  async deleteQueue(queue: string, options: PurgeOptions | BoundedPurgeOptions = {}): Promise<number | Purged> {
    return answerOf(await deleteQueue(this.connection, queue, options), options)
  }

  /**
   * Suspends a worker, or without a name all present and future ones: it takes no more tasks; running jobs go on. Fails
   * with `invalid-input`.
   */
  suspend(worker?: string, options: SuspendOptions = {}): Promise<void> {
    return suspendWorkers(this.connection.store, worker, options)
  }

  /** Ends the suspension of a worker, or without a name all suspensions. */
  unsuspend(worker?: string): Promise<void> {
    return resumeWorkers(this.connection.store, worker)
  }

  /**
   * Sends a command to workers (`active`, `pool-grow` …) and collects their answers, one per worker. Fails with
   * `invalid-input`, naming the argument, and with `not-found` for workers that do not live.
   */
  async control<C extends CommandName>(
    command: C,
    ...[given, options = {}]: ControlArguments<C>
  ): Promise<ReadonlyArray<AnswerTo<C>>> {
    refuseUnknown(options, { workers: true, timeout: true } satisfies Record<keyof CommandOptions, true>, "control()")
    // Workers make their replies by this type. A worker of another version may send another form.
    return (await askWorkers(this.connection, command, given ?? {}, options)) as ReadonlyArray<AnswerTo<C>>
  }

  /**
   * The queues that were used and not deleted, each with what waits in it, as `callboard queues --json` shows them.
   * `GET /v1/queues` adds the workers that serve each queue, and its rates. Resolves with an empty list where the
   * transport cannot count. Fails with `TransportError`.
   */
  async queues(): Promise<ReadonlyArray<QueueStats>> {
    const { jobs, store } = this.connection
    const [counts, listed, paused, limits] = await Promise.all([
      queueStates(this.connection),
      jobs.queueNames(),
      pausedQueues(store),
      queueLimits(store),
    ])
    return counts === undefined ? [] : queueStats(counts, listed, { paused, limits }, Date.now())
  }

  /** The living workers, as they described themselves at their last heartbeat. */
  workers(): Promise<ReadonlyArray<WorkerDescription>> {
    return listWorkers(this.connection.store)
  }

  /** Actors that live workers serve, and those of this process. */
  async actors(): Promise<ReadonlyArray<ActorDescription>> {
    const all = new Map((await listActors(this.connection.store)).map((actor) => [actor.name, actor]))
    for (const actor of this.directory.local.values()) all.set(actor.name, actor)
    return [...all.values()].sort((a, b) => a.name.localeCompare(b.name))
  }

  /**
   * Stops conductors, ends streams and listeners, sends the events that are left, and closes the transport if {@link connect}
   * opened it.
   */
  async close(): Promise<void> {
    const conductors = [...this.#conductors]
    for (const conductor of conductors) conductor.stop()
    await Promise.all(conductors.map((conductor) => conductor.wait()))
    this.#closing.abort()
    await Promise.all([...this.#boards].map((board) => board.close()))
    await this.#events.flush()
    if (this.#ownsTransport) await this.connection.transport.close()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }
}
