/** Actors whose jobs cause every type of event, in the worker's process and in a child process. */
import { actor, CallboardError, Reject } from "callboard"
import { block } from "../../../support/block.ts"

const methods = {
  works: { params: ["x", "y"], run: async () => ({ answer: 42 }) },
  fails: async () => {
    throw new RangeError("out of luck")
  },
  flaky: {
    // Long enough for the events of the first attempt to be sent before the second one is received.
    retry: { max: 1, interval: 0.25 },
    run: async (_input: unknown, job: { readonly retries: number }) => {
      if (job.retries === 0) throw new TypeError("not yet")
      return "now"
    },
  },
  rejects: async () => {
    throw new Reject("not for me")
  },
  endless: (_input: unknown, job: { readonly signal: AbortSignal }) =>
    new Promise((resolve) => job.signal.addEventListener("abort", resolve)),
  spins: async () => {
    block()
  },
  secret: { redact: true, run: async () => "the answer" },
  partly: { redact: ["password"], params: ["user", "password"], run: async (input: unknown) => input },
  large: async () => "x".repeat(9 * 1024 * 1024),
  empty: async () => undefined,
  tells: async (_input: unknown, job: { event(type: string, fields?: Record<string, unknown>): void }) => {
    job.event("order-shipped", { items: [1, { two: null }] })
    job.event("order-paid")
  },
  tellsWrongly: async (
    { type, fields }: { readonly type: string; readonly fields: Record<string, unknown> },
    job: { event(type: string, fields?: Record<string, unknown>): void },
  ) => {
    try {
      job.event(type, fields)
      return "told"
    } catch (cause) {
      return cause instanceof CallboardError ? [cause.code, cause.details.field] : String(cause)
    }
  },
} as const

export const telling = actor("telling", { methods })
export const tellingApart = actor("apart", { isolation: "process", module: import.meta.url, methods })
