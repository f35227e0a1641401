/** A span for each attempt of a worker: child of the submission, linked to the attempt before it. */
import type { Attributes, Context, Link, Span, Tracer } from "@opentelemetry/api"
import { isUndecodable } from "../../protocol/message.ts"
import type { JobRecord } from "../../protocol/record.ts"
import { type Api, jobAttributes, parentOf, SYSTEM_ATTRIBUTES, spanContextOf, traceOf } from "../../tracing/context.ts"
import type { AttemptEnd } from "../../transport/lift/transport.ts"
import type { Held, Running } from "../delivery/delivery.ts"
import { settledAs, type WorkerObserver } from "./observer.ts"
import type { TaskNames } from "./task-names.ts"

export class AttemptSpans implements WorkerObserver {
  readonly #api: Api
  readonly #tracer: Tracer
  readonly #names: TaskNames
  readonly #open = new WeakMap<Held, Span>()

  constructor(api: Api, tracer: Tracer, names: TaskNames) {
    this.#api = api
    this.#tracer = tracer
    this.#names = names
  }

  started(held: Held, run: Running): void {
    const api = this.#api
    const parent = parentOf(api, run.task)
    const span = this.#start(held, run.record, parent)
    this.#open.set(held, span)
    const context = span.spanContext()
    // A provider that is not set up makes spans of no trace.
    if (!api.isSpanContextValid(context)) return
    run.trace = traceOf(api, context, api.trace.setSpan(parent, span))
  }

  settled(held: Held, settlement: AttemptEnd): void {
    const outcome = settledAs(held, settlement)
    const { record } = settlement
    if (outcome !== undefined) this.#end(held, outcome, record)
    else this.#open.get(held)?.end()
  }

  handedBack(held: Held): void {
    this.#end(held, "handed-back", undefined)
  }

  refused(held: Held): void {
    this.#end(held, "superseded", undefined)
  }

  unsettled(held: Held): void {
    this.#end(held, "unsettled", undefined)
  }

  /** `record`: what was stored. A task that ended without a run has a span without a length. */
  #end(held: Held, outcome: string, record: JobRecord | undefined): void {
    let span = this.#open.get(held)
    if (span === undefined) {
      const { message } = held.delivery
      if (record === undefined || isUndecodable(message)) return
      const { traceparent, tracestate } = message.headers
      span = this.#start(held, record, parentOf(this.#api, { traceparent, tracestate }))
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

  #start(held: Held, record: JobRecord, parent: Context): Span {
    const name = this.#names.of(held, record)
    const attributes: Attributes = {
      ...SYSTEM_ATTRIBUTES,
      ...jobAttributes(record.id, held.delivery.queue),
      "messaging.operation.name": "process",
      "messaging.operation.type": "process",
      "callboard.task": name ?? record.name,
      "callboard.attempt": record.attempt,
      "callboard.run": record.run,
      "callboard.retries": record.retries,
    }
    const options = { kind: this.#api.SpanKind.CONSUMER, attributes, links: this.#linksOf(held) }
    return this.#tracer.startSpan(name === undefined ? "process" : `process ${name}`, options, parent)
  }

  /** The attempt before this one, which left its context in the task. */
  #linksOf({ run }: Held): Array<Link> {
    const context = spanContextOf(this.#api, { traceparent: run?.task.own.attempted })
    return context === undefined ? [] : [{ context, attributes: { "callboard.link": "previous-attempt" } }]
  }
}
