/**
 * The span of an attempt in the child process of an isolated handler: spans that the handler makes there become its
 * children.
 */
import type { TraceContext } from "../protocol/trace-context.ts"
import { loadApi } from "./api.ts"
import { spanContextOf, traceOf } from "./context.ts"
import type { Trace } from "./trace.ts"

/** `undefined` where the context names no span. Loads OpenTelemetry. */
export const traceInside = async (context: TraceContext): Promise<Trace | undefined> => {
  const api = await loadApi()
  const span = spanContextOf(api, context)
  return span === undefined ? undefined : traceOf(api, span, api.trace.setSpanContext(api.ROOT_CONTEXT, span))
}
