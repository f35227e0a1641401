import type { Tracer } from "effect"
import type { TraceContext } from "../protocol/trace-context.ts"

/** The span of an attempt, for what runs in it. */
export interface Trace {
  /** The span as W3C trace context: the parent of what the attempt submits, and of what follows from it. */
  readonly context: TraceContext
  /** The span as the parent of an Effect's own spans. */
  readonly parent: Tracer.ExternalSpan
  /** Calls with the span as the active one. */
  within<A>(call: () => A): A
}
