/**
 * A client of Celery: submits tasks to its workers, and reads their results, answers and events. Nothing of it is a job of
 * Callboard's: what becomes of a task is known by its result alone.
 */
import { hostname } from "node:os"
import * as Result from "effect/Result"
import { openCeleryMessages, openCeleryResults } from "../connection/celery.ts"
import { JobCancelled, JobExpired, JobFailed, WaitTimeout } from "../errors.ts"
import { generateId } from "../id.ts"
import { type DurationInput, milliseconds } from "../options/duration.ts"
import { refuseInput } from "../options/refuse.ts"
import { NO_EMBED } from "../protocol/body.ts"
import { decodeEvents, type ReceivedEvent } from "../protocol/celery/event.ts"
import { applySignature, parseSignature, type Signature } from "../protocol/celery/signature.ts"
import {
  type ControlReply,
  controlMessage,
  PIDBOX,
  parseReply,
  REPLY_PIDBOX,
  replyQueue,
} from "../protocol/celery-control.ts"
import { decodeMeta, errorOfMeta, metaKey, READY, type ResultMeta } from "../protocol/celery-result.ts"
import { composeMessage } from "../protocol/compose.ts"
import { isReservedHeader, newTask } from "../protocol/headers.ts"
import { checkQueueName } from "../protocol/name.ts"
import type { CeleryMessages, CeleryResults } from "../transport/celery.ts"
import { TransportError } from "../transport/mod.ts"
import { EVENT_EXCHANGE } from "./events.ts"

export interface CeleryConnectSettings {
  /** URL of the broker (`broker_url`). */
  readonly broker: string
  /** URL of the result back end (`result_backend`). */
  readonly resultBackend: string
  /** Queue of tasks that name none (`task_default_queue`). Defaults to `celery`. */
  readonly queue?: string
  /** Name of the connections, which brokers show. Defaults to `callboard@<host>:<pid>`. */
  readonly name?: string
}

/** A task for a worker of Celery. */
export interface CeleryTask {
  readonly args?: ReadonlyArray<unknown>
  readonly kwargs?: Readonly<Record<string, unknown>>
  readonly queue?: string
  /** Defaults to a new one. */
  readonly id?: string
  /** How long to wait before it begins (`countdown`). */
  readonly delay?: DurationInput
  /** How long it may wait before it begins. */
  readonly expires?: DurationInput
  /** 0–9, 9 first. */
  readonly priority?: number
  readonly timeLimit?: { readonly soft?: DurationInput; readonly hard?: DurationInput }
  /** Headers of the application's own. */
  readonly headers?: Readonly<Record<string, unknown>>
}

/** A link of a chain: a task by its name, with what it is given beside the result of the one before. */
export interface CeleryLink extends Pick<CeleryTask, "args" | "kwargs" | "queue"> {
  readonly task: string
}

/** A task that was submitted. */
export interface CeleryJob<R = unknown> {
  readonly id: string
  /** What is kept about it now; `undefined` while nothing is (PENDING). */
  meta(): Promise<ResultMeta | undefined>
  /**
   * Waits for its result: 30 seconds unless said otherwise. Fails with `JobFailed`, whose error has type and message of the
   * exception, with `JobCancelled` and `JobExpired` for a revoked task, and with `WaitTimeout`.
   */
  result(options?: { readonly timeout?: DurationInput }): Promise<R>
}

/** A task that is sent to its workers by remote control. */
export interface ControlOptions {
  readonly arguments?: Readonly<Record<string, unknown>>
  /** Names of the workers that are asked. Defaults to all. */
  readonly destination?: ReadonlyArray<string>
  /** How long to wait for answers; one of each worker that is named ends the wait. Defaults to 1 second. */
  readonly timeout?: DurationInput
}

/** Connects to the broker and the result back end of an application of Celery. Fails with `TransportError`. */
export const connectCelery = async (settings: CeleryConnectSettings): Promise<CeleryClient> => {
  const name = settings.name ?? `callboard@${hostname()}:${process.pid}`
  const messages = await openCeleryMessages(settings.broker, { name })
  if (messages === undefined) throw new TransportError("unsupported", "broker: no broker of Celery has this URL")
  try {
    return new CeleryClient(messages, await openCeleryResults(settings.resultBackend, { name }), settings)
  } catch (cause) {
    await messages.close()
    throw cause
  }
}

const WAIT_MS = 30_000
const ANSWERS_MS = 1_000

export class CeleryClient implements AsyncDisposable {
  readonly #messages: CeleryMessages
  readonly #results: CeleryResults
  readonly #queue: string
  /** Where answers come: one queue for as long as the client lives. */
  readonly #oid = crypto.randomUUID()
  readonly #asked = new Map<string, (reply: ControlReply) => void>()
  readonly #end = new AbortController()
  #receiving: Promise<void> | undefined
  #clock = 0

  constructor(messages: CeleryMessages, results: CeleryResults, { queue = "celery" }: CeleryConnectSettings) {
    this.#messages = messages
    this.#results = results
    this.#queue = queueOf(queue)
  }

  /** Submits a task. Resolves once the broker has it. Fails with `CallboardError` `invalid-input`, and `TransportError`. */
  async submit<R = unknown>(task: string, options: CeleryTask = {}): Promise<CeleryJob<R>> {
    return this.#submit<R>(task, options, [])
  }

  /** Submits a chain: each link gets the result of the one before as its first argument. Returns the last one. */
  async chain<R = unknown>(first: CeleryLink, ...rest: ReadonlyArray<CeleryLink>): Promise<CeleryJob<R>> {
    const links = rest.map((link) => this.#linkOf(link))
    const job = await this.#submit<R>(first.task, first, links.toReversed())
    const last = links.at(-1)?.options.task_id
    return typeof last === "string" ? this.job<R>(last) : job
  }

  /** A task that was submitted before, by any client. */
  job<R = unknown>(id: string): CeleryJob<R> {
    return {
      id,
      meta: () => this.#meta(id),
      // The caller's type says what the task returns.
      result: async ({ timeout } = {}) =>
        valueOf(await this.#ended(id, timeout === undefined ? WAIT_MS : milliseconds("timeout", timeout))) as R,
    }
  }

  /** Sends a command of Celery's remote control (`ping`, `active`, `revoke` …), and resolves with what its workers answer. */
  async control(method: string, options: ControlOptions = {}): Promise<ReadonlyArray<ControlReply>> {
    const { destination = null, timeout } = options
    const waitMs = timeout === undefined ? ANSWERS_MS : milliseconds("timeout", timeout)
    this.#receiving ??= this.#messages.receive(
      { exchange: REPLY_PIDBOX, routingKey: this.#oid, queue: replyQueue(this.#oid) },
      (message) => {
        const parsed = parseReply(message)
        if (Result.isFailure(parsed)) return
        const told = this.#asked.get(parsed.success.ticket ?? "")
        for (const reply of parsed.success.replies) told?.(reply)
      },
      this.#end.signal,
    )
    await this.#receiving
    const ticket = crypto.randomUUID()
    const replies: Array<ControlReply> = []
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, waitMs)
    this.#asked.set(ticket, (reply) => {
      replies.push(reply)
      if (destination !== null && replies.length >= destination.length) resolve()
    })
    try {
      const reply = { exchange: REPLY_PIDBOX, routingKey: this.#oid, ticket }
      const given = options.arguments ?? {}
      const clock = ++this.#clock
      const asked = { method, arguments: given, destination, pattern: null, matcher: null, reply, clock }
      const message = Result.getOrElse(controlMessage(asked), ({ message: why }) => refuseInput("arguments", why))
      await this.#messages.broadcast(PIDBOX, "", message)
      await promise
      return replies
    } finally {
      clearTimeout(timer)
      this.#asked.delete(ticket)
    }
  }

  /** Calls the listener with the events of all workers until the signal fires; resolves once it listens. */
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

  async close(): Promise<void> {
    this.#end.abort()
    await Promise.all([this.#messages.close(), this.#results.close()])
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  #linkOf({ task, args = [], kwargs = {}, queue }: CeleryLink): Signature {
    const options = { task_id: generateId(), queue: queueOf(queue ?? this.#queue) }
    const signature = Result.getOrElse(parseSignature({ task, args, kwargs }), ({ message }) =>
      refuseInput("chain", message),
    )
    return applySignature(signature, { options })
  }

  async #submit<R>(task: string, options: CeleryTask, chain: ReadonlyArray<Signature>): Promise<CeleryJob<R>> {
    const { args = [], kwargs = {}, id = generateId(), delay, expires, priority, timeLimit, headers = {} } = options
    const reserved = Object.keys(headers).find(isReservedHeader)
    if (reserved !== undefined) refuseInput("headers", `${reserved} has a meaning in Celery's protocol`)
    if (priority !== undefined && !(Number.isInteger(priority) && priority >= 0 && priority <= 9))
      refuseInput("priority", "must be a whole number from 0 to 9")
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
    const message = composeMessage(made, { args, kwargs, embed }, priority === undefined ? {} : { priority })
    const composed = Result.getOrElse(message, ({ message: why }) => refuseInput("args", why))
    await this.#messages.send("", queueOf(options.queue ?? this.#queue), composed)
    return this.job<R>(id)
  }

  async #meta(id: string): Promise<ResultMeta | undefined> {
    const [bytes] = await this.#results.read([metaKey(id)])
    return bytes === undefined ? undefined : Result.getOrUndefined(decodeMeta(bytes))
  }

  async #ended(id: string, waitMs: number): Promise<ResultMeta> {
    const stop = new AbortController()
    const { promise, resolve, reject } = Promise.withResolvers<ResultMeta>()
    const told = (meta: ResultMeta | undefined): void => {
      if (meta !== undefined && READY.has(meta.status)) resolve(meta)
    }
    const timer = setTimeout(() => reject(new WaitTimeout(id, waitMs)), waitMs)
    try {
      // It listens first, so that no result comes between the look and the wait.
      await this.#results.watch(
        [metaKey(id)],
        ({ value }) => told(Result.getOrUndefined(decodeMeta(value))),
        stop.signal,
      )
      told(await this.#meta(id))
      return await promise
    } finally {
      clearTimeout(timer)
      stop.abort()
    }
  }
}

const queueOf = (queue: string): string =>
  Result.getOrElse(checkQueueName(queue), ({ message }) => refuseInput("queue", message))

/** The value of a task that has succeeded. Throws for any other. */
const valueOf = (meta: ResultMeta): unknown => {
  if (meta.status === "SUCCESS") return meta.result
  const error = errorOfMeta(meta)
  if (meta.status !== "REVOKED") throw new JobFailed(meta.task_id, error)
  throw error.message === "expired" ? new JobExpired(meta.task_id) : new JobCancelled(meta.task_id)
}
