/** Records a span for each attempt: a child of the submission's span, linked to the attempt before it. */
import type { Attributes, Context, Link, Span, Tracer } from "@opentelemetry/api"
import { isUndecodable } from "../../protocol/message.ts"
import type { JobRecord } from "../../protocol/record.ts"
import { type Api, jobAttributes, parentOf, SYSTEM_ATTRIBUTES, spanContextOf, traceOf } from "../../tracing/context.ts"
import type { Settlement } from "../../transport/job-store/transport.ts"
import type { ActiveDelivery, HandlerRun, StepChange } from "../active-delivery.ts"
import { outcomeNameOf, type TaskNames, type WorkerObserver } from "./observer.ts"

export class AttemptSpans implements WorkerObserver {
  readonly #api: Api
  readonly #tracer: Tracer
  readonly #names: TaskNames
  readonly #open = new WeakMap<ActiveDelivery, Span>()

  constructor(api: Api, tracer: Tracer, names: TaskNames) {
    this.#api = api
    this.#tracer = tracer
    this.#names = names
  }

  started(active: ActiveDelivery, run: HandlerRun): void {
    const api = this.#api
    const parent = parentOf(api, run.task)
    const span = this.#start(active, run.record, parent)
    this.#open.set(active, span)
    const context = span.spanContext()
    // Without a configured provider a span has no valid context.
    if (!api.isSpanContextValid(context)) return
    run.trace = traceOf(api, context, api.trace.setSpan(parent, span))
  }

  /** A span for each step that has ended here, within that of the attempt. */
  step(active: ActiveDelivery, change: StepChange): void {
    const attempt = this.#open.get(active)
    if (attempt === undefined || !("took" in change)) return
    const { name, state, at, took, tries, failure } = change
    const api = this.#api
    const attributes = { "callboard.step": name, "callboard.outcome": state, "callboard.tries": tries }
    const parent = api.trace.setSpan(api.ROOT_CONTEXT, attempt)
    const title = state.startsWith("revert") ? `revert ${name}` : `step ${name}`
    const span = this.#tracer.startSpan(title, { attributes, startTime: at - took }, parent)
    if (failure !== undefined) {
      span.setAttribute("error.type", failure.names[0] ?? "Error")
      span.setStatus({ code: api.SpanStatusCode.ERROR, message: failure.message })
    }
    span.end(at)
  }

  settled(active: ActiveDelivery, settlement: Settlement): void {
    const outcome = outcomeNameOf(active, settlement)
    const { record } = settlement
    if (outcome !== undefined) this.#end(active, outcome, record)
    else this.#open.get(active)?.end()
  }

  handedBack(active: ActiveDelivery): void {
    this.#end(active, "handed-back", undefined)
  }

  refused(active: ActiveDelivery): void {
    this.#end(active, "superseded", undefined)
  }

  unsettled(active: ActiveDelivery): void {
    this.#end(active, "unsettled", undefined)
  }

  /**
   * Ends the span of a delivery. `record`: the stored record. A task that ended without a run gets a span of zero
   * length.
   */
  #end(active: ActiveDelivery, outcome: string, record: JobRecord | undefined): void {
    let span = this.#open.get(active)
    if (span === undefined) {
      const { message } = active.delivery
      if (record === undefined || isUndecodable(message)) return
      const { traceparent, tracestate } = message.headers
      span = this.#start(active, record, parentOf(this.#api, { traceparent, tracestate }))
    }
    span.setAttribute("callboard.outcome", outcome)
    if (record?.error !== undefined) {
      const { name, message, traceback } = record.error
      span.setAttribute("error.type", name)
      span.recordException({ name, message, ...(traceback === undefined ? {} : { stack: traceback }) })
      span.setStatus({ code: this.#api.SpanStatusCode.ERROR, message: `${name}: ${message}` })
    }
    span.end()
  }

  #start(active: ActiveDelivery, record: JobRecord, parent: Context): Span {
    const name = this.#names.of(active, record)
    const attributes: Attributes = {
      ...SYSTEM_ATTRIBUTES,
      ...jobAttributes(record.id, active.delivery.queue),
      "messaging.operation.name": "process",
      "messaging.operation.type": "process",
      "callboard.task": name ?? record.name,
      "callboard.attempt": record.attempt,
      "callboard.run": record.run,
      "callboard.retries": record.retries,
    }
    const options = { kind: this.#api.SpanKind.CONSUMER, attributes, links: this.#linksOf(active) }
    return this.#tracer.startSpan(name === undefined ? "process" : `process ${name}`, options, parent)
  }

  /** Link to the previous attempt, whose context is in the task. */
  #linksOf({ run }: ActiveDelivery): Array<Link> {
    const context = spanContextOf(this.#api, { traceparent: run?.task.own.attempted })
    return context === undefined ? [] : [{ context, attributes: { "callboard.link": "previous-attempt" } }]
  }
}
