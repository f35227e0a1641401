/**
 * Traces as the rest of the runtime knows them. No type of OpenTelemetry is named here, since the declarations of the
 * package must also be read where that package is not installed.
 */
import type { ExternalSpan } from "effect/Tracer"
import type { CallboardError } from "../errors.ts"
import type { JobPosting } from "../protocol/message.ts"
import type { TraceContext } from "../protocol/trace-context.ts"

/** A tracer of OpenTelemetry: `Tracer` of `@opentelemetry/api` is one. */
export interface OpenTelemetryTracer {
  startSpan(name: string): { end(): void }
}

export interface TracingSettings {
  /**
   * Traces submissions and attempts: with this tracer of OpenTelemetry, or, if true, with a tracer of the provider that
   * the application has registered. Defaults to false.
   */
  readonly tracing?: OpenTelemetryTracer | boolean
}

/** The span of an attempt, as the handler that runs in it needs it. */
export interface Trace {
  /** The span as W3C trace context: parent of the jobs that the handler submits, and of the callbacks and retries. */
  readonly context: TraceContext
  /** The span as the parent of spans that an Effect of the handler makes. */
  readonly parent: ExternalSpan
  /** Calls the function with this span as OpenTelemetry's active span. */
  within<A>(call: () => A): A
}

export interface SubmissionTracing {
  /**
   * Publishes tasks within a new span, whose context the tasks carry. The answers are in the order of the tasks; a
   * refused task has an error as its answer. Fails as `publish` does.
   */
  submission<A>(
    postings: ReadonlyArray<JobPosting>,
    publish: (postings: ReadonlyArray<JobPosting>) => Promise<ReadonlyArray<A | CallboardError>>,
  ): Promise<ReadonlyArray<A | CallboardError>>
}
