/** The span of an attempt, inside the process of its isolated handler: what the handler traces there belongs to it. */
import * as api from "@opentelemetry/api"
import type { TraceContext } from "../protocol/trace-context.ts"
import type { Trace } from "./context.ts"
import { spanContextOf, traceOf } from "./context.ts"

/** `undefined`: it names no trace. */
export const traceInside = (context: TraceContext): Trace | undefined => {
  const span = spanContextOf(api, context)
  return span === undefined ? undefined : traceOf(api, span, api.trace.setSpanContext(api.ROOT_CONTEXT, span))
}
