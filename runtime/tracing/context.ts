/** Spans of OpenTelemetry: how they cross processes as W3C trace context, and the attributes that describe a job. */
import type { Attributes, Context, SpanContext } from "@opentelemetry/api"
import * as EffectTracer from "effect/Tracer"
import { parseTraceparent, type TraceContext, tracestateBeside } from "../protocol/trace-context.ts"
import type { Trace } from "./trace.ts"

/** The module `@opentelemetry/api`. It is passed along, because it is loaded only where tracing is on. */
export type Api = typeof import("@opentelemetry/api")

/** The span of another process that headers name; `undefined` where they name none, or are malformed. */
export const spanContextOf = (
  api: Api,
  { traceparent, tracestate }: { readonly traceparent: unknown; readonly tracestate?: unknown },
): SpanContext | undefined => {
  const text = typeof traceparent === "string" ? traceparent : undefined
  const parsed = parseTraceparent(text)
  if (parsed === undefined) return undefined
  const { traceId, spanId, flags } = parsed
  const state = tracestateBeside(text, tracestate)
  return {
    ...{ traceId, spanId, traceFlags: flags, isRemote: true },
    ...(state === null ? {} : { traceState: api.createTraceState(state) }),
  }
}

/** The two headers that carry a span to another process. */
export const traceContext = ({ traceId, spanId, traceFlags, traceState }: SpanContext): TraceContext => {
  const traceparent = `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, "0")}`
  const tracestate = tracestateBeside(traceparent, traceState?.serialize())
  return tracestate === null ? { traceparent } : { traceparent, tracestate }
}

/** OpenTelemetry's context with the span that headers name; the root context where they name none. */
export const parentOf = (
  api: Api,
  headers: { readonly traceparent: unknown; readonly tracestate?: unknown },
): Context => {
  const parent = spanContextOf(api, headers)
  return parent === undefined ? api.ROOT_CONTEXT : api.trace.setSpanContext(api.ROOT_CONTEXT, parent)
}

/** The {@link Trace} of a span. `active`: the context in which this span is the active one. */
export const traceOf = (api: Api, span: SpanContext, active: Context): Trace => {
  const { traceId, spanId, traceFlags } = span
  return {
    context: traceContext(span),
    parent: EffectTracer.externalSpan({ traceId, spanId, sampled: (traceFlags & api.TraceFlags.SAMPLED) !== 0 }),
    within: (call) => api.context.with(active, call),
  }
}

/** By OpenTelemetry's conventions for messaging systems. */
export const SYSTEM_ATTRIBUTES = { "messaging.system": "callboard" } as const

/** Attributes of a job: its id, and its queue as the destination. */
export const jobAttributes = (id: string, queue: string): Attributes => ({
  "messaging.message.id": id,
  "messaging.destination.name": queue,
})
