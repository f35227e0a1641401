/**
 * An actor whose handlers run in child processes and make spans there, with a provider as an application sets it up.
 */
import { context, trace } from "@opentelemetry/api"
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks"
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base"
import { actor } from "callboard"
import { Effect } from "effect"

const exporter = new InMemorySpanExporter()

/** Spans that were exported since the last call. */
const exported = () => {
  const spans = exporter.getFinishedSpans().map((span) => ({
    name: span.name,
    trace: span.spanContext().traceId,
    parent: span.parentSpanContext?.spanId,
    state: span.spanContext().traceState?.serialize(),
  }))
  exporter.reset()
  return spans
}

const tracer = () => trace.getTracer("inside")

export const apart = actor("apart", {
  module: import.meta.url,
  isolation: "process",
  start: () => {
    context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
    trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }))
  },
  methods: {
    works: {
      run: async () => {
        await Promise.resolve()
        tracer().startSpan("inside").end()
        return exported()
      },
      onSuccess: () => tracer().startSpan("hook").end(),
    },
    effect: () =>
      Effect.map(
        Effect.orElseSucceed(Effect.currentParentSpan, () => undefined),
        (span) => ({
          trace: span?.traceId,
          parent: span?.spanId,
          active: trace.getActiveSpan()?.spanContext().spanId,
        }),
      ),
    /** Returns the spans of the run before this one, and makes none. */
    left: () => exported(),
    submits: async (_input: unknown, job) => (await job.submit("traced.after")).id,
  },
})
