/**
 * A client for Celery's workers: submits tasks, reads their results, sends commands and receives events. These tasks are not
 * jobs of Callboard: there is no record, so only the result in Celery's back end says what became of a task.
 */
import { hostname } from "node:os"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { deferred } from "../async/deferred.ts"
import { openCeleryMessages } from "../connection/celery.ts"
import { JobCancelled, JobExpired, JobFailed, WaitTimeout } from "../errors.ts"
import { generateId } from "../id.ts"
import { optionsChecker, parserOf } from "../options/check.ts"
import { type DurationInput, milliseconds } from "../options/duration.ts"
import { Duration } from "../options/duration-field.ts"
import { OwnName, wholeNumber } from "../options/fields.ts"
import { refuseInput, refuseUnknown } from "../options/refuse.ts"
import { NO_EMBED } from "../protocol/body.ts"
import { decodeEvents, type ReceivedEvent } from "../protocol/celery/event.ts"
import { applySignature, parseSignature, type Signature } from "../protocol/celery/signature.ts"
import type { ControlReply } from "../protocol/celery-control.ts"
import { decodeMeta, errorOfMeta, metaKey, READY, type ResultMeta } from "../protocol/celery-result.ts"
import { compact } from "../protocol/compact.ts"
import { composeMessage } from "../protocol/compose.ts"
import { isReservedHeader, newTask } from "../protocol/headers.ts"
import { checkQueueName } from "../protocol/name.ts"
import type { CeleryMessages, CeleryResults } from "../transport/celery.ts"
import { TransportError } from "../transport/mod.ts"
import { CeleryCommands } from "./commands.ts"
import { EVENT_EXCHANGE } from "./events.ts"
import { openResults } from "./results.ts"

export interface CeleryConnectSettings {
  /** URL of the broker (`broker_url`). */
  readonly broker: string
  /** URL of the result back end (`result_backend`); `rpc://` where results are sent to this client. */
  readonly resultBackend: string
  /** Queue of tasks that name none (`task_default_queue`). Defaults to `celery`. */
  readonly queue?: string | undefined
  /** Name of the connections, which the broker may show. Defaults to `callboard@<host>:<pid>`. */
  readonly name?: string | undefined
}

const fields = {
  broker: Schema.String,
  resultBackend: Schema.String,
  queue: Schema.optionalKey(Schema.String),
  name: Schema.optionalKey(OwnName),
} satisfies Readonly<Record<keyof CeleryConnectSettings, Schema.Top>>
const checkSettings = optionsChecker(fields, "connectCelery()")

/** Arguments and options of a task for a worker of Celery. */
export interface CeleryTask {
  /** Positional arguments. Defaults to none. */
  readonly args?: ReadonlyArray<unknown> | undefined
  /** Keyword arguments. Defaults to none. */
  readonly kwargs?: Readonly<Record<string, unknown>> | undefined
  /** Defaults to the client's `queue`. */
  readonly queue?: string | undefined
  /** Id of the task. Defaults to a new one. */
  readonly id?: string | undefined
  /** How long the worker waits before it starts the task (`countdown`). Defaults to not at all. */
  readonly delay?: DurationInput | undefined
  /** How long the task may wait; one that has not started by then is revoked. Defaults to no limit. */
  readonly expires?: DurationInput | undefined
  /** A whole number from 0 to 9; 9 starts first. Defaults to none. */
  readonly priority?: number | undefined
  /** Celery's `soft_time_limit` and `time_limit`. Default to the limits of the worker. */
  readonly timeLimit?:
    | { readonly soft?: DurationInput | undefined; readonly hard?: DurationInput | undefined }
    | undefined
  /** Headers of the application. A name that Celery's protocol uses is refused. */
  readonly headers?: Readonly<Record<string, unknown>> | undefined
}

/** A link of a chain: the name of a task, and its arguments after the result of the link before. */
export interface CeleryLink extends Pick<CeleryTask, "args" | "kwargs" | "queue"> {
  readonly task: string
}

const LINK = { args: true, kwargs: true, queue: true, task: true } satisfies Record<keyof CeleryLink, true>
const TASK = {
  ...{ args: true, kwargs: true, queue: true, id: true, delay: true, expires: true, priority: true },
  ...{ timeLimit: true, headers: true },
} satisfies Record<keyof CeleryTask, true>
const limits = Schema.Struct({ soft: Schema.optionalKey(Duration), hard: Schema.optionalKey(Duration) })
const parseLimits = parserOf(Schema.Struct({ timeLimit: Schema.optionalKey(limits) }), "submit()", "timeLimit")
const CONTROL = { arguments: true, destination: true, timeout: true } satisfies Record<keyof ControlOptions, true>

/** A handle on a task that was submitted. */
export interface CeleryJob<R = unknown> {
  readonly id: string
  /** The result as it is stored now; `undefined` while there is none (PENDING). Fails with `TransportError`. */
  meta(): Promise<ResultMeta | undefined>
  /**
   * Waits until the task has ended, and resolves with its return value. `timeout` defaults to 30 seconds. Fails with
   * `JobFailed`, whose error has the type and the message of the exception; with `JobCancelled` or `JobExpired` for a
   * revoked task; with `WaitTimeout`; and with `TransportError`.
   */
  result(options?: { readonly timeout?: DurationInput | undefined }): Promise<R>
}

/** Options of a remote control command. */
export interface ControlOptions {
  /** Arguments of the command, such as `task_id`. Defaults to none. */
  readonly arguments?: Readonly<Record<string, unknown>> | undefined
  /** Names of the workers that are to execute the command. Defaults to all. */
  readonly destination?: ReadonlyArray<string> | undefined
  /**
   * How long to wait for replies. The wait ends early when each worker in `destination` has replied. Defaults to 1 second.
   */
  readonly timeout?: DurationInput | undefined
}

/**
 * Connects to the broker and the result back end of a Celery application. Fails with `TransportError`: `unsupported` where
 * the transport of a URL has no counterpart in Celery.
 */
export const connectCelery = async (settings: CeleryConnectSettings): Promise<CeleryClient> => {
  checkSettings(settings)
  const queue = queueOf(settings.queue ?? "celery")
  const name = settings.name ?? `callboard@${hostname()}:${process.pid}`
  const messages = await openCeleryMessages(settings.broker, { name })
  if (messages === undefined) throw new TransportError("unsupported", "broker: this URL is not a Celery broker")
  try {
    return new CeleryClient(messages, await openResults(settings.resultBackend, { name }, messages), queue)
  } catch (cause) {
    await messages.close()
    throw cause
  }
}

const WAIT_MS = 30_000
const ANSWERS_MS = 1_000

/** A client for the workers of a Celery application. Made by {@link connectCelery}; close it when it is no longer needed. */
export class CeleryClient implements AsyncDisposable {
  readonly #messages: CeleryMessages
  readonly #results: CeleryResults
  readonly #queue: string
  readonly #commands: CeleryCommands
  readonly #end = new AbortController()

  constructor(messages: CeleryMessages, results: CeleryResults, queue: string) {
    this.#messages = messages
    this.#results = results
    this.#queue = queue
    this.#commands = new CeleryCommands(messages, this.#end.signal)
  }

  /** Submits a task. Resolves once the broker has it. Fails with `CallboardError` (`invalid-input`) and `TransportError`. */
  async submit<R = unknown>(task: string, options: CeleryTask = {}): Promise<CeleryJob<R>> {
    refuseUnknown(options, TASK, "submit()")
    return this.#submit<R>(task, options, [])
  }

  /**
   * Submits a chain: each link gets the result of the link before as its first argument. Resolves with a handle on the last
   * link. Fails as `submit` does.
   */
  async chain<R = unknown>(first: CeleryLink, ...rest: ReadonlyArray<CeleryLink>): Promise<CeleryJob<R>> {
    for (const link of [first, ...rest]) refuseUnknown(link, LINK, "a link of chain()")
    const replyTo = await this.#results.replyTo?.()
    const links = rest.map((link) => this.#linkOf(link, replyTo))
    const job = await this.#submit<R>(first.task, first, links.toReversed())
    const last = links.at(-1)?.options.task_id
    return typeof last === "string" ? this.job<R>(last) : job
  }

  /** A handle on a task that any client has submitted. Nothing is checked: an id that does not exist is PENDING. */
  job<R = unknown>(id: string): CeleryJob<R> {
    return {
      id,
      meta: () => this.#meta(id),
      // The caller's type says what the task returns.
      result: async ({ timeout } = {}) =>
        valueOf(await this.#ended(id, timeout === undefined ? WAIT_MS : milliseconds("timeout", timeout))) as R,
    }
  }

  /**
   * Sends a command of Celery's remote control (`ping`, `active`, `revoke` …). Resolves with the replies that come in time,
   * perhaps none. Fails with `CallboardError` (`invalid-input`) and `TransportError`.
   */
  async control(method: string, options: ControlOptions = {}): Promise<ReadonlyArray<ControlReply>> {
    refuseUnknown(options, CONTROL, "control()")
    const { timeout } = options
    const waitMs = timeout === undefined ? ANSWERS_MS : milliseconds("timeout", timeout)
    return this.#commands.ask(method, options.arguments ?? {}, options.destination ?? null, waitMs)
  }

  /**
   * Calls the listener with the events of all workers until the signal fires. Resolves once the subscription is made. Fails
   * with `TransportError`.
   */
  listen(listener: (event: ReceivedEvent) => void, signal: AbortSignal): Promise<void> {
    return this.#messages.listen(
      EVENT_EXCHANGE,
      ({ body }) => {
        const events = decodeEvents(body)
        if (Result.isSuccess(events)) for (const event of events.success) listener(event)
      },
      signal,
    )
  }

  /** Closes both connections. A wait for a result that goes on meanwhile does not end before its timeout. */
  async close(): Promise<void> {
    this.#end.abort()
    await this.#results.close()
    await this.#messages.close()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  #linkOf({ task, args = [], kwargs = {}, queue }: CeleryLink, replyTo: string | undefined): Signature {
    const waits = compact({ reply_to: replyTo })
    const options = { task_id: generateId(), queue: queueOf(queue ?? this.#queue), ...waits }
    const signature = Result.getOrElse(parseSignature({ task, args, kwargs }), ({ message }) =>
      refuseInput("chain", message),
    )
    return applySignature(signature, { options })
  }

  async #submit<R>(task: string, options: CeleryTask, chain: ReadonlyArray<Signature>): Promise<CeleryJob<R>> {
    const { args = [], kwargs = {}, id = generateId(), delay, expires, priority, headers = {} } = options
    const { timeLimit } = parseLimits({ timeLimit: options.timeLimit })
    const reserved = Object.keys(headers).find(isReservedHeader)
    if (reserved !== undefined) refuseInput("headers", `${reserved} is reserved by Celery's protocol`)
    if (priority !== undefined) wholeNumber("priority", priority, { min: 0, max: 9 })
    const now = Date.now()
    const at = (name: string, wait: DurationInput | undefined) =>
      wait === undefined ? null : now + milliseconds(name, wait)
    const seconds = (name: string, limit: DurationInput | undefined) =>
      limit === undefined ? null : milliseconds(name, limit) / 1000
    const made = newTask({
      task,
      id,
      rootId: id,
      eta: at("delay", delay),
      expires: at("expires", expires),
      timelimit: { hard: seconds("timeLimit.hard", timeLimit?.hard), soft: seconds("timeLimit.soft", timeLimit?.soft) },
      origin: `callboard@${hostname()}`,
      custom: headers,
    })
    const embed = chain.length === 0 ? NO_EMBED : { ...NO_EMBED, chain }
    const replyTo = await this.#results.replyTo?.()
    const message = composeMessage(made, { args, kwargs, embed }, compact({ priority, replyTo }))
    const composed = Result.getOrElse(message, ({ message: why }) => refuseInput("args", why))
    await this.#messages.submit(queueOf(options.queue ?? this.#queue), composed)
    return this.job<R>(id)
  }

  async #meta(id: string): Promise<ResultMeta | undefined> {
    const [bytes] = await this.#results.read([metaKey(id)])
    return bytes === undefined ? undefined : Result.getOrUndefined(decodeMeta(bytes))
  }

  async #ended(id: string, waitMs: number): Promise<ResultMeta> {
    const stop = new AbortController()
    const { promise, resolve, reject } = deferred<ResultMeta>()
    const received = (meta: ResultMeta | undefined): void => {
      if (meta !== undefined && READY.has(meta.status)) resolve(meta)
    }
    const timer = setTimeout(() => reject(new WaitTimeout(id, waitMs)), waitMs)
    try {
      // The subscription comes before the read: a result that is written in between would be missed otherwise.
      await this.#results.watch(
        [metaKey(id)],
        ({ value }) => received(Result.getOrUndefined(decodeMeta(value))),
        stop.signal,
      )
      received(await this.#meta(id))
      return await promise
    } finally {
      clearTimeout(timer)
      stop.abort()
    }
  }
}

const queueOf = (queue: string): string =>
  Result.getOrElse(checkQueueName(queue), ({ message }) => refuseInput("queue", message))

/** The return value of a task that has succeeded. Throws the error of any other. */
const valueOf = (meta: ResultMeta): unknown => {
  if (meta.status === "SUCCESS") return meta.result
  const error = errorOfMeta(meta)
  if (meta.status !== "REVOKED") throw new JobFailed(meta.task_id, error)
  throw error.message === "expired" ? new JobExpired(meta.task_id) : new JobCancelled(meta.task_id)
}
