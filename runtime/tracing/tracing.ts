/**
 * OpenTelemetry traces of submissions and attempts. A submission's span travels with the task (`traceparent`) and is the
 * parent of each of its attempts, wherever they run. Nothing of OpenTelemetry is loaded unless tracing is asked for.
 */
import type { Tracer } from "@opentelemetry/api"
import { VERSION } from "../version.ts"
import type { Api } from "./context.ts"
import { submissionSpan, type TracedPublish } from "./submission-span.ts"

export interface TracingSettings {
  /**
   * Traces submissions and attempts: with this tracer of OpenTelemetry, or, if true, with a tracer of the provider that
   * the application has registered. Defaults to false.
   */
  readonly tracing?: Tracer | boolean
}

export class Tracing {
  readonly api: Api
  readonly tracer: Tracer

  constructor(api: Api, tracer: Tracer) {
    this.api = api
    this.tracer = tracer
  }

  /** Publishes tasks within a new span, whose context the tasks carry. */
  readonly submission: TracedPublish = (postings, publish) => submissionSpan(this.api, this.tracer, postings, publish)
}

/** Loads OpenTelemetry. `undefined` where tracing is off. */
export const openTracing = async ({ tracing = false }: TracingSettings): Promise<Tracing | undefined> => {
  if (tracing === false) return undefined
  const api = await import("@opentelemetry/api")
  return new Tracing(api, tracing === true ? api.trace.getTracer("callboard", VERSION) : tracing)
}
