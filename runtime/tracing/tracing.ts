/**
 * OpenTelemetry traces of submissions and attempts. A submission's span travels with the task (`traceparent`) and is the
 * parent of each of its attempts, wherever they run. Nothing of OpenTelemetry is loaded unless tracing is asked for.
 */

import type { Attributes, Tracer } from "@opentelemetry/api"
import { CallboardError } from "../errors.ts"
import type { JobPosting } from "../protocol/message.ts"
import type { TraceContext } from "../protocol/trace-context.ts"
import { VERSION } from "../version.ts"
import { loadApi } from "./api.ts"
import { type Api, jobAttributes, parentOf, SYSTEM_ATTRIBUTES, traceContext } from "./context.ts"
import type { OpenTelemetryTracer, SubmissionTracing, TracingSettings } from "./trace.ts"

export class Tracing implements SubmissionTracing {
  readonly api: Api
  readonly tracer: Tracer

  constructor(api: Api, tracer: Tracer) {
    this.api = api
    this.tracer = tracer
  }

  readonly submission: SubmissionTracing["submission"] = (postings, publish) =>
    submissionSpan(this.api, this.tracer, postings, publish)
}

/** The runtime calls no other method of a tracer. */
const isTracer = (value: OpenTelemetryTracer): value is Tracer => typeof value.startSpan === "function"

/** Loads OpenTelemetry. `undefined` where tracing is off. */
export const openTracing = async ({ tracing = false }: TracingSettings): Promise<Tracing | undefined> => {
  if (tracing === false) return undefined
  const api = await loadApi()
  return new Tracing(api, tracing !== true && isTracer(tracing) ? tracing : api.trace.getTracer("callboard", VERSION))
}

/** Publishes within a new span, whose context the tasks carry. Fails as `publish` does. */
const submissionSpan = async <A>(
  api: Api,
  tracer: Tracer,
  postings: ReadonlyArray<JobPosting>,
  publish: (postings: ReadonlyArray<JobPosting>) => Promise<ReadonlyArray<A | CallboardError>>,
): Promise<ReadonlyArray<A | CallboardError>> => {
  const [first] = postings
  if (first === undefined) return publish(postings)
  // A span that is active in this process is nearer than one that the headers name.
  const active = api.context.active()
  const { traceparent, tracestate } = first.message.headers
  const parent = api.trace.getSpan(active) === undefined ? parentOf(api, { traceparent, tracestate }) : active
  const options = { kind: api.SpanKind.PRODUCER, attributes: attributesOf(first, postings.length) }
  const span = tracer.startSpan(postings.length === 1 ? `submit ${nameOf(first)}` : "submit", options, parent)
  const fail = (message: string) => span.setStatus({ code: api.SpanStatusCode.ERROR, message })
  const context = span.spanContext()
  // Without a provider OpenTelemetry makes invalid spans: then the caller's headers travel on unchanged.
  const own = api.isSpanContextValid(context) ? traceContext(context) : undefined
  try {
    const answers = await publish(own === undefined ? postings : postings.map((each) => carrying(each, own)))
    const refused = answers.find((answer) => answer instanceof CallboardError)
    if (refused !== undefined) fail(refused.message)
    return answers
  } catch (cause) {
    fail(cause instanceof Error ? cause.message : String(cause))
    throw cause
  } finally {
    span.end()
  }
}

const carrying = (posting: JobPosting, context: TraceContext): JobPosting => {
  // The caller's `tracestate` belongs to another span than the one that is set here.
  const { tracestate: _tracestate, ...headers } = posting.message.headers
  return { ...posting, message: { ...posting.message, headers: { ...headers, ...context } } }
}

const nameOf = ({ message: { headers } }: JobPosting): string => {
  const { task, meth } = headers
  return typeof meth === "string" ? `${String(task)}.${meth}` : String(task)
}

const attributesOf = (first: JobPosting, count: number): Attributes => ({
  ...SYSTEM_ATTRIBUTES,
  "messaging.operation.name": "submit",
  "messaging.operation.type": "send",
  ...(count === 1
    ? { ...jobAttributes(first.id, first.queue), "callboard.task": nameOf(first) }
    : { "messaging.batch.message_count": count }),
})
