/**
 * The span of an attempt in the child process of an isolated handler: spans that the handler makes there become its
 * children. A file of its own, because it loads OpenTelemetry: it is imported only where the attempt is traced.
 */
import * as api from "@opentelemetry/api"
import type { TraceContext } from "../protocol/trace-context.ts"
import type { Trace } from "./context.ts"
import { spanContextOf, traceOf } from "./context.ts"

/** `undefined` where the context names no span. */
export const traceInside = (context: TraceContext): Trace | undefined => {
  const span = spanContextOf(api, context)
  return span === undefined ? undefined : traceOf(api, span, api.trace.setSpanContext(api.ROOT_CONTEXT, span))
}
