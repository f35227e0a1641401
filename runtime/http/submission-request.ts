/**
 * Submits the tasks of one request, once per `Idempotency-Key` and within a deadline. Each task gets its id first, so that an
 * error can name the ids, and a client that submits them again adds none twice. Under a key the ids are settled only once they
 * are stored there: until then an error names the key instead.
 */

import type { Prepared } from "../client/submitting/submitter.ts"
import type { Scope } from "../config/scopes.ts"
import { CallboardError } from "../errors.ts"
import { generateId } from "../id.ts"
import { compact } from "../protocol/compact.ts"
import { isObject } from "../protocol/guards.ts"
import { TransportError } from "../transport/mod.ts"
import { within } from "../transport/timers.ts"
import type { EarlierRequest, IdempotentRequest, SubmitResults } from "./idempotency.ts"
import { SUBMIT_DEADLINE_MS } from "./limits.ts"
import type { HttpContext } from "./route.ts"

/** The id that a task names. An id that is no text is refused when the task is checked. */
const givenId = (task: unknown): string | undefined =>
  isObject(task) && "id" in task && typeof task.id === "string" ? task.id : undefined

const withId = (task: unknown, id: string | undefined): unknown =>
  isObject(task) && id !== undefined ? { ...task, id } : task

/**
 * The result of a task that an earlier request may have submitted. An error of this request does not mean that the task
 * was refused then.
 */
const inDoubt = (result: SubmitResults[number]): SubmitResults[number] =>
  result instanceof CallboardError && result.details.outcome === "none"
    ? new CallboardError(result.code, result.message, { ...result.details, outcome: "unknown" })
    : result

export interface SubmitOptions {
  readonly strict: boolean
  readonly lenient: boolean
  readonly traceparent?: string
  readonly tracestate?: string
  readonly parentNeeds?: Scope
  /** Whether all tasks are stored, or none. */
  readonly atomic: boolean
  /** Whether an array was sent: then errors name the element, also in an array of one. */
  readonly isArray: boolean
}

export class SubmissionRequest {
  readonly #context: HttpContext
  readonly #tasks: ReadonlyArray<unknown>
  readonly #options: SubmitOptions
  /** One id per task; replaced by those of an earlier request under the same key. */
  #ids: ReadonlyArray<string>
  /** Whether these are the ids under the key of the request: then it is safe to submit the tasks again by id. */
  #idsAreSettled = true
  /** Whether something may have been accepted. */
  #outcome: "none" | "unknown" = "none"
  /**
   * The deadline has passed, and the caller has `#outcome` as its answer: tasks that were not posted by then must not
   * be posted later.
   */
  #answered = false

  constructor(context: HttpContext, tasks: ReadonlyArray<unknown>, options: SubmitOptions) {
    this.#context = context
    this.#tasks = tasks
    this.#options = options
    this.#ids = tasks.map((task) => givenId(task) ?? generateId())
  }

  /**
   * Submits the tasks. Where the transport fails or does not answer in time, each task's result is the error
   * `transport-unavailable` with its id and whether it may have been accepted. Fails with what is wrong with the request.
   */
  async run(request: IdempotentRequest | undefined): Promise<SubmitResults> {
    const late = () => {
      this.#answered = true
      return new TransportError("unavailable", "the transport did not answer in time")
    }
    try {
      return await within(SUBMIT_DEADLINE_MS, this.#run(request), late)
    } catch (cause) {
      if (!(cause instanceof TransportError)) throw cause
      return this.#tasks.map((task, at) => {
        const id = this.#idsAreSettled ? this.#ids[at] : givenId(task)
        const again = this.#idsAreSettled ? `id ${id}` : "the same Idempotency-Key"
        const message = `the task was not confirmed (${cause.message}); it is safe to submit it again with ${again}`
        const details = { ...compact({ id }), outcome: this.#outcome, cause }
        return new CallboardError("transport-unavailable", message, details)
      })
    }
  }

  async #run(request: IdempotentRequest | undefined): Promise<SubmitResults> {
    if (request === undefined) return this.#post(await this.#prepare(this.#tasks))
    this.#idsAreSettled = false
    // The key is looked up before the tasks are checked: a task that was valid then (its `expires`) may not be valid
    // any more.
    const earlier = (await request.earlier()) ?? (await this.#reserve(request))
    if (earlier.status === "done") return earlier.results
    const results = await this.#post(
      earlier.status === "reserved" ? earlier.prepared : await this.#withEarlierIds(earlier.ids),
    )
    await this.#recordResults(request, results)
    return results
  }

  /**
   * Checks the tasks, then reserves the key, so that an invalid request reserves none. Another request may have
   * reserved it.
   */
  async #reserve(
    request: IdempotentRequest,
  ): Promise<EarlierRequest | { readonly status: "reserved"; readonly prepared: Prepared }> {
    const prepared = await this.#prepare(this.#tasks)
    const outcome = await request.reserve(this.#ids)
    if (outcome !== "reserved") return outcome
    this.#idsAreSettled = true
    return { status: "reserved", prepared }
  }

  /**
   * Prepares the tasks under the ids of an earlier request, as if the caller had named them: so existing jobs are
   * looked up.
   */
  #withEarlierIds(ids: ReadonlyArray<string>): Promise<Prepared> {
    this.#ids = ids
    this.#idsAreSettled = true
    // The earlier request may have had them accepted, or may be about to.
    this.#outcome = "unknown"
    return this.#prepare(this.#tasks.map((task, at) => withId(task, ids[at])))
  }

  async #prepare(tasks: ReadonlyArray<unknown>): Promise<Prepared> {
    const { client, maxBody } = this.#context
    const { isArray, ...submitContext } = this.#options
    try {
      return await client.prepare(tasks, { ...submitContext, ids: this.#ids, maxBody })
    } catch (cause) {
      if (!(isArray && cause instanceof CallboardError)) throw cause
      throw new CallboardError(cause.code, cause.message, { index: 0, ...cause.details })
    }
  }

  async #post(prepared: Prepared): Promise<SubmitResults> {
    if (this.#answered)
      throw new TransportError("unavailable", "the caller has already received an error for this submission")
    const mayBePosted = this.#outcome === "unknown"
    this.#outcome = "unknown"
    const results = await this.#context.client.post(prepared)
    return mayBePosted ? results.map(inDoubt) : results
  }

  async #recordResults(request: IdempotentRequest, results: SubmitResults): Promise<void> {
    const errors = results.filter((each) => each instanceof CallboardError)
    const unconfirmed = errors.filter((error) => error.code === "transport-unavailable")
    try {
      if (errors.length < results.length) {
        if (unconfirmed.length === 0) await request.done(results)
      } else if (unconfirmed.every((error) => error.details.outcome === "none")) await request.failed()
    } catch (cause) {
      // Not needed for correctness: a repeated request finds the ids under the key and submits them again, which adds
      // nothing.
      this.#context.log.debug("the entry of an Idempotency-Key could not be updated", { cause: String(cause) })
    }
  }
}
