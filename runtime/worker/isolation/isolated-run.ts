/**
 * One run inside the handler's process: reads and validates the input, makes the attempt, and turns its outcome into a
 * message.
 */

import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Result from "effect/Result"
import type { ActorDefinition } from "../../actor/actor.ts"
import { Ignore, Reject, Retry } from "../../actor/job.ts"
import { jobError, KnownFailure, readable, softLimitError } from "../../jobs/outcome/job-error.ts"
import type { InvalidValue } from "../../options/json-schema.ts"
import { parseJson } from "../../protocol/codec/json.ts"
import { isMap } from "../../protocol/guards.ts"
import type { Headers } from "../../protocol/message.ts"
import type { JobError } from "../../protocol/record.ts"
import { traceInside } from "../../tracing/inside.ts"
import type { Trace } from "../../tracing/trace.ts"
import { validate } from "../run/call.ts"
import { type AttemptedRun, afterHandler, callHandler } from "../run/handler.ts"
import { JobContext, type JobPort } from "../run/job-context.ts"
import { ChannelPort, type WorkerChannel } from "./channel-port.ts"
import { MAX_PAYLOAD, type ProcessMessage, type ProcessRequest } from "./messages.ts"

type Ended = Extract<ProcessMessage, { readonly kind: "succeeded" | "failed" }>

export class IsolatedRun {
  readonly #order: Extract<ProcessRequest, { readonly kind: "run" }>
  readonly #abort = new AbortController()
  #isOver = false
  /** The fiber of the handler, and then of what follows it. */
  #fiber: Fiber.Fiber<unknown, unknown> | undefined
  #softReason: DOMException | undefined

  constructor(request: Extract<ProcessRequest, { readonly kind: "run" }>) {
    this.#order = request
  }

  get number(): number {
    return this.#order.run
  }

  /** Fires the handler's signal. `over` also interrupts an Effect, and keeps hooks from being called. */
  abort(reason: { readonly name: string; readonly message: string }, over: boolean): void {
    const exception = new DOMException(reason.message, reason.name)
    // Of the two time limits only the soft one fires while the outcome still counts.
    if (!over && reason.name === "TimeoutError") this.#softReason ??= exception
    this.#abort.abort(exception)
    if (!over) return
    this.#isOver = true
    this.#fiber?.interruptUnsafe()
  }

  /** Resolves when the handler has really ended. Never rejects. */
  async perform(actor: ActorDefinition, use: unknown, channel: WorkerChannel): Promise<Ended> {
    try {
      return await this.#perform(actor, use, channel)
    } catch (fault) {
      return this.#failed("failed", jobError(fault))
    }
  }

  async #perform(actor: ActorDefinition, use: unknown, channel: WorkerChannel): Promise<Ended> {
    const request = this.#order
    const method = actor.methods.get(request.job.method)
    if (method === undefined) {
      const message = `${actor.module} exports actor ${actor.name}, but without method ${request.job.method}`
      return this.#failed("final", { name: "NotRegistered", message, reason: "unknown-actor" })
    }
    const given = payloadOf(request.payload)
    if (given === undefined) {
      const message = "the input cannot be sent to an isolated process"
      return this.#failed("final", { name: "InvalidInput", message, reason: "invalid-input" })
    }
    const input =
      method.input === undefined
        ? Result.succeed(given.input)
        : await Effect.runPromise(validate(method.input, given.input))
    if (Result.isFailure(input)) return this.#failed("final", invalid("InvalidInput", "invalid-input", input.failure))

    let handler: Fiber.Fiber<unknown, unknown> | undefined
    const isOver = () => this.#isOver
    const attempted: AttemptedRun & JobPort["attempt"] = {
      method,
      trace: await traceOf(request),
      pending: undefined,
      isEffect: false,
      handsOn: request.job.handsOn === true,
      signal: this.#abort.signal,
      get isOver() {
        return isOver()
      },
      leave: () => {
        handler?.interruptUnsafe()
        // A promise that goes on keeps this run from ending, so the worker is told not to wait for it.
        void channel.ask({ run: request.run, object: "steps", method: "returned", args: "[]" }).catch(() => undefined)
      },
    }
    const job = new JobContext(new ChannelPort(request, given, attempted, channel), actor.name, use)
    if (request.job.reverting) await job.useSteps().open()
    handler = Effect.runFork(callHandler(attempted, input.success, job))
    this.#fiber = handler
    // The run may have been ended before its fiber was known.
    if (this.#isOver) handler.interruptUnsafe()
    const called = await Effect.runPromise(Fiber.await(handler))
    // Of what follows, the hooks alone can be interrupted.
    this.#fiber = Effect.runFork(Effect.uninterruptible(afterHandler(attempted, called, job)))
    const exit = await Effect.runPromise(Fiber.await(this.#fiber))
    // A promise that is not awaited any more still runs. The process is free only when it has settled.
    await attempted.pending?.then(nothing, nothing)
    job.port.finish()
    if (Exit.isFailure(exit)) return this.#thrown(readable(Cause.squash(exit.cause)))
    if (exit.value === undefined) return { kind: "succeeded", run: request.run }
    const value = JSON.stringify(exit.value)
    if (value.length <= MAX_PAYLOAD) return { kind: "succeeded", run: request.run, value }
    const message = `the result has ${value.length} characters; an isolated process can return at most ${MAX_PAYLOAD}. Store large results elsewhere and return their address`
    return this.#failed("final", { name: "ResultTooLarge", message, reason: "result-too-large" })
  }

  #thrown(thrown: unknown): Ended {
    if (thrown instanceof Ignore) return this.#failed("ignore", jobError(thrown))
    if (thrown instanceof Reject) return this.#failed("reject", jobError(thrown, "rejected"))
    if (thrown instanceof KnownFailure) return this.#failed(thrown.final ? "final" : "failed", thrown.error)
    if (!(thrown instanceof Retry)) return this.#failed("failed", this.#errorOf(thrown))
    const error = this.#failed("retry", this.#errorOf(thrown.cause ?? thrown))
    return thrown.after === undefined ? error : { ...error, after: thrown.after }
  }

  #errorOf(thrown: unknown): JobError {
    return softLimitError(thrown, this.#softReason) ?? jobError(thrown)
  }

  #failed(how: Extract<Ended, { kind: "failed" }>["how"], error: JobError): Extract<Ended, { kind: "failed" }> {
    return { kind: "failed", run: this.#order.run, how, error }
  }
}

const nothing = () => undefined

/** OpenTelemetry is loaded only where the worker traces. */
const traceOf = async ({ trace }: Extract<ProcessRequest, { readonly kind: "run" }>): Promise<Trace | undefined> =>
  trace === undefined ? undefined : traceInside(trace)

interface Payload {
  readonly input: unknown
  readonly headers: Headers
  readonly meta: Readonly<Record<string, unknown>>
}

/** Parses the payload of a run. That fails where the input looks like a typed value and is none. */
const payloadOf = (text: string): Payload | undefined => {
  const parsed = parseJson(text)
  if (Result.isFailure(parsed) || !isMap(parsed.success)) return undefined
  const { input, headers, meta } = parsed.success
  return { input, headers: isMap(headers) ? headers : {}, meta: isMap(meta) ? meta : {} }
}

const invalid = (name: string, reason: string, { message, field }: InvalidValue): JobError => ({
  name,
  message,
  reason,
  ...(field === "" ? {} : { field }),
})
