/** W3C trace context: the one line of text in which a trace crosses processes. */
import type { Context, SpanContext } from "@opentelemetry/api"

/** The library, where it is loaded. */
export type Api = typeof import("@opentelemetry/api")

/** Versions after 00 may say more behind the flags; ff is none. */
const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-|$)/

/** What a `traceparent` says; `undefined` for text that is none, which is no trace. */
export const parseTraceparent = (text: string | null | undefined): SpanContext | undefined => {
  const [, traceId, spanId, flags] = TRACEPARENT.exec(text ?? "") ?? []
  if (traceId === undefined || spanId === undefined || flags === undefined) return undefined
  if (/^0+$/.test(traceId) || /^0+$/.test(spanId)) return undefined
  return { traceId, spanId, traceFlags: Number.parseInt(flags, 16), isRemote: true }
}

export const formatTraceparent = ({ traceId, spanId, traceFlags }: SpanContext): string =>
  `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, "0")}`

/** The context that a `traceparent` names: the root one where it names none. */
export const parentOf = (api: Api, traceparent: unknown): Context => {
  const parent = parseTraceparent(typeof traceparent === "string" ? traceparent : undefined)
  return parent === undefined ? api.ROOT_CONTEXT : api.trace.setSpanContext(api.ROOT_CONTEXT, parent)
}
