/** W3C trace context, as OpenTelemetry has it. */
import type { Attributes, Context, SpanContext } from "@opentelemetry/api"
import { Tracer as EffectTracer } from "effect"
import { parseTraceparent, type TraceContext, tracestateBeside } from "../protocol/trace-context.ts"

/** The span of an attempt, for what runs in it. */
export interface Trace {
  /** The span as W3C trace context: the parent of what the attempt submits, and of what follows from it. */
  readonly context: TraceContext
  /** The span as the parent of an Effect's own spans. */
  readonly parent: EffectTracer.ExternalSpan
  /** Calls with the span as the active one. */
  within<A>(call: () => A): A
}

/** The library, where it is loaded. */
export type Api = typeof import("@opentelemetry/api")

/** The span of another process; `undefined` for what names none, which is no trace. */
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

/** A span in the form in which it crosses processes. */
export const traceContext = ({ traceId, spanId, traceFlags, traceState }: SpanContext): TraceContext => {
  const traceparent = `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, "0")}`
  const tracestate = tracestateBeside(traceparent, traceState?.serialize())
  return tracestate === null ? { traceparent } : { traceparent, tracestate }
}

/** The context in which headers were sent: the root one where they name no trace. */
export const parentOf = (
  api: Api,
  headers: { readonly traceparent: unknown; readonly tracestate?: unknown },
): Context => {
  const parent = spanContextOf(api, headers)
  return parent === undefined ? api.ROOT_CONTEXT : api.trace.setSpanContext(api.ROOT_CONTEXT, parent)
}

/** A span as the one that a handler runs in. `active`: the context in which it is the active one. */
export const traceOf = (api: Api, span: SpanContext, active: Context): Trace => {
  const { traceId, spanId, traceFlags } = span
  return {
    context: traceContext(span),
    parent: EffectTracer.externalSpan({ traceId, spanId, sampled: (traceFlags & api.TraceFlags.SAMPLED) !== 0 }),
    within: (call) => api.context.with(active, call),
  }
}

export const SYSTEM_ATTRIBUTES = { "messaging.system": "callboard" } as const

/** The job and where its task waits. */
export const jobAttributes = (id: string, queue: string): Attributes => ({
  "messaging.message.id": id,
  "messaging.destination.name": queue,
})
