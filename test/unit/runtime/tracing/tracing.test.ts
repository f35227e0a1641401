/** Traces, as OpenTelemetry's SDK exports them, on every transport. */
import { context as api, SpanKind, SpanStatusCode, trace } from "@opentelemetry/api"
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks"
import {
  AlwaysOffSampler,
  BasicTracerProvider,
  InMemorySpanExporter,
  ParentBasedSampler,
  type ReadableSpan,
  SimpleSpanProcessor,
} from "@opentelemetry/sdk-trace-base"
import { actor, connect } from "callboard"
import { Effect } from "effect"
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest"
import { onEveryBoard } from "../../../scenarios/boards.ts"
import { eventually } from "../../../support/servers/process.ts"
import { start } from "../../../support/services.ts"
import { apart } from "./isolated-actor.ts"

const exporter = new InMemorySpanExporter()
const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] })
const tracer = provider.getTracer("test")
const contexts = new AsyncLocalStorageContextManager()

beforeAll(() => {
  api.setGlobalContextManager(contexts.enable())
})
afterAll(async () => {
  api.disable()
  await provider.shutdown()
})
beforeEach(() => exporter.reset())

const TRACE = "0af7651916cd43dd8448eb211c80319c"
const CALLER = "b7ad6b7169203331"
const WAIT = { timeout: 60 } as const

/** The span of each attempt of a job, as its handlers noted the active span. */
const traced = actor("traced", {
  methods: {
    flaky: {
      retry: { max: 1, interval: [0] },
      run: async (_input: unknown, job) => {
        await Promise.resolve()
        tracer.startSpan(`inside ${job.attempt}`).end()
        if (job.attempt === 1) throw new TypeError("not yet")
        await job.submit("traced.child")
        return job.attempt
      },
      onSuccess: () => tracer.startSpan("hook").end(),
    },
    steps: async (_input: unknown, job) => {
      await job.step("pay", () => "paid", { revert: () => undefined })
      await job.step("ship", () => Promise.reject(new TypeError("no van")))
    },
    child: () => "child",
    after: () => "after",
    effect: () => Effect.map(Effect.currentParentSpan, ({ traceId, spanId }) => ({ traceId, spanId })),
  },
})

const spans = (): ReadonlyArray<ReadableSpan> => exporter.getFinishedSpans()

/** Waits for spans with these names, which may repeat, and returns them in that order. */
const spansOf = (...names: ReadonlyArray<string>) =>
  eventually(() => {
    const left = [...spans()].sort((a, b) => a.startTime[0] - b.startTime[0] || a.startTime[1] - b.startTime[1])
    return names.map((name) => {
      const at = left.findIndex((span) => span.name === name)
      const [found] = at < 0 ? [] : left.splice(at, 1)
      if (found === undefined) throw new Error(`no span ${name} among ${spans().map((each) => each.name)}`)
      return found
    })
  })

const idOf = (span: ReadableSpan | undefined) => span?.spanContext().spanId

onEveryBoard((newBoard) => {
  test("durable steps are spans within the one of their attempt", async () => {
    const { client } = await start([traced], { transport: newBoard(), tracing: tracer })
    await (await client.submit("traced.steps")).outcome(WAIT)
    const [failed, undoing] = await spansOf("process traced.steps", "process traced.steps")
    const [pay, ship, revert] = await spansOf("step pay", "step ship", "revert pay")
    expect([pay, ship, revert].map((span) => span?.parentSpanContext?.spanId)).toEqual([
      idOf(failed),
      idOf(failed),
      idOf(undoing),
    ])
    expect(pay?.attributes).toMatchObject({
      "callboard.step": "pay",
      "callboard.outcome": "done",
      "callboard.tries": 1,
    })
    expect(ship).toMatchObject({
      status: { code: SpanStatusCode.ERROR, message: "no van" },
      attributes: { "callboard.outcome": "failed", "error.type": "TypeError" },
    })
  })

  test("one trace from an HTTP request over a failed attempt and its retry to callback and child", async () => {
    const { url, client } = await start([traced], { transport: newBoard(), http: { port: 0 }, tracing: tracer })
    const response = await fetch(`${url}/v1/jobs`, {
      method: "POST",
      headers: { "content-type": "application/json", traceparent: `00-${TRACE}-${CALLER}-01` },
      body: JSON.stringify({
        task: "traced.flaky",
        callbacks: [{ task: "traced.after", immutable: true }],
      }),
    })
    const { id }: { readonly id: string } = JSON.parse(await response.text())
    expect(await client.job(id).result(WAIT)).toBe(2)
    const [submit, first, second, inside1, inside2, hook, submitChild, child, after] = await spansOf(
      "submit traced.flaky",
      "process traced.flaky",
      "process traced.flaky",
      "inside 1",
      "inside 2",
      "hook",
      "submit traced.child",
      "process traced.child",
      "process traced.after",
    )
    expect(spans()).toHaveLength(9)
    expect(new Set(spans().map((span) => span.spanContext().traceId))).toEqual(new Set([TRACE]))
    expect(
      [submit, first, second, inside1, inside2, hook, submitChild, child, after].map(
        (span) => span?.parentSpanContext?.spanId,
      ),
    ).toEqual([
      CALLER,
      idOf(submit),
      idOf(submit),
      idOf(first),
      idOf(second),
      idOf(second),
      idOf(second),
      idOf(submitChild),
      idOf(second),
    ])
    expect(submit).toMatchObject({
      kind: SpanKind.PRODUCER,
      status: { code: SpanStatusCode.UNSET },
      attributes: {
        "messaging.system": "callboard",
        "messaging.operation.type": "send",
        "messaging.destination.name": "default",
        "messaging.message.id": id,
        "callboard.task": "traced.flaky",
      },
    })
    expect(first).toMatchObject({
      kind: SpanKind.CONSUMER,
      status: { code: SpanStatusCode.ERROR, message: "TypeError: not yet" },
      links: [],
      attributes: {
        "messaging.system": "callboard",
        "messaging.operation.type": "process",
        "messaging.destination.name": "default",
        "messaging.message.id": id,
        "callboard.task": "traced.flaky",
        "callboard.attempt": 1,
        "callboard.run": 1,
        "callboard.retries": 0,
        "callboard.outcome": "retried",
        "error.type": "TypeError",
      },
      events: [{ name: "exception", attributes: { "exception.message": "not yet" } }],
    })
    expect(second).toMatchObject({
      status: { code: SpanStatusCode.UNSET },
      attributes: { "callboard.attempt": 2, "callboard.retries": 1, "callboard.outcome": "succeeded" },
      links: [{ context: { traceId: TRACE, spanId: idOf(first) } }],
    })
  })

  test("a client of another process submits within its active span; a batch is one span", async () => {
    const board = newBoard()
    const service = await start([traced], { transport: board, tracing: tracer })
    await using client = await connect(board, { tracing: tracer })
    const root = tracer.startSpan("root")
    const receipts = await api.with(trace.setSpan(api.active(), root), () =>
      client.submitMany([{ task: "traced.after" }, { task: "traced.child" }]),
    )
    root.end()
    const [submit, after, child] = await spansOf("submit", "process traced.after", "process traced.child")
    expect(receipts).toHaveLength(2)
    expect(submit?.attributes).toMatchObject({ "messaging.batch.message_count": 2 })
    expect(submit?.parentSpanContext?.spanId).toBe(root.spanContext().spanId)
    for (const span of [after, child]) expect(span?.parentSpanContext?.spanId).toBe(idOf(submit))
    expect(service.worker?.listening).toBe(true)
  })
})

describe("tracestate", () => {
  const STATE = "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7"

  test("goes along from an HTTP request over attempts to everything that follows", async () => {
    const { url, client } = await start([traced], { http: { port: 0 }, tracing: tracer })
    const response = await fetch(`${url}/v1/jobs`, {
      method: "POST",
      headers: { "content-type": "application/json", traceparent: `00-${TRACE}-${CALLER}-01`, tracestate: STATE },
      body: JSON.stringify({ task: "traced.flaky", callbacks: [{ task: "traced.after", immutable: true }] }),
    })
    const { id }: { readonly id: string } = JSON.parse(await response.text())
    expect(await client.job(id).result(WAIT)).toBe(2)
    await spansOf("process traced.child", "process traced.after")
    expect(spans()).toHaveLength(9)
    expect(new Set(spans().map((span) => span.spanContext().traceState?.serialize()))).toEqual(new Set([STATE]))
  })

  test.each([false, tracer])(
    "is carried with tracing %s: submissions from code, retries, children, follow-ups",
    async (tracing) => {
      const seen: Array<unknown> = []
      const carries = actor("carries", {
        methods: {
          first: {
            retry: { max: 1, interval: [0] },
            run: async (_input: unknown, job) => {
              seen.push(job.headers["tracestate"])
              if (job.attempt === 1) throw new Error("not yet")
              await (await job.submit("carries.next")).outcome(WAIT)
            },
          },
          next: (_input: unknown, job) => void seen.push(job.headers["tracestate"]),
          fails: (_input: unknown, job) => {
            seen.push(job.headers["tracestate"])
            throw new Error("no")
          },
        },
      })
      const { client } = await start([carries], { tracing })
      const caller = { traceparent: `00-${TRACE}-${CALLER}-01`, tracestate: STATE }
      const follow = { task: "carries.next", immutable: true }
      await client.submit("carries.first", { callbacks: [follow], chain: [follow] }, caller)
      await client.submit("carries.fails", { errbacks: [follow] }, caller)
      await eventually(() => expect(seen).toEqual(Array(7).fill(STATE)))
    },
  )

  test("stands beside its own traceparent only", async () => {
    const { client } = await start([traced], { tracing: tracer })
    const root = tracer.startSpan("root")
    const caller = { traceparent: `00-${TRACE}-${CALLER}-01`, tracestate: STATE }
    // The job waits in a queue without a worker, since the task of a succeeded job is not kept.
    const submit = () => client.submit("traced.after", { queue: "unserved" }, caller)
    const job = await api.with(trace.setSpan(api.active(), root), submit)
    const headers = (await client.connection.jobs.find(job.id))?.record.message?.headers
    expect(headers?.["traceparent"]).toContain(root.spanContext().traceId)
    expect(headers).not.toHaveProperty("tracestate")
  })
})

describe("in processes of their own", { timeout: 60_000 }, () => {
  interface Inside {
    readonly name?: string
    readonly trace?: string
    readonly parent?: string
    readonly state?: string
  }

  test("what a handler traces there, its hooks and its Effects belong to the attempt", async () => {
    const { client } = await start([apart, traced], { tracing: tracer, concurrency: 1 })
    const caller = { traceparent: `00-${TRACE}-${CALLER}-01`, tracestate: "congo=1" }
    const works = await (await client.submit("apart.works", {}, caller)).result({ timeout: 60 })
    const hook = await (await client.submit("apart.left", {}, caller)).result(WAIT)
    const [attempt] = await spansOf("process apart.works")
    const parent = idOf(attempt)
    expect(works).toEqual([{ name: "inside", trace: TRACE, parent, state: "congo=1" }])
    expect(hook).toEqual([{ name: "hook", trace: TRACE, parent, state: "congo=1" }])

    const effect = (await (await client.submit("apart.effect", {}, caller)).result(WAIT)) as Inside
    const [second] = await spansOf("process apart.effect")
    expect(effect).toEqual({ trace: TRACE, parent: idOf(second), active: idOf(second) })

    await (await client.submit("apart.submits", {}, caller)).result(WAIT)
    const [third, child] = await spansOf("process apart.submits", "submit traced.after")
    expect(child?.parentSpanContext?.spanId).toBe(idOf(third))
  })

  test("without tracing a handler's spans are their own", async () => {
    const { client } = await start([apart], { concurrency: 1 })
    const caller = { traceparent: `00-${TRACE}-${CALLER}-01` }
    const works = (await (await client.submit("apart.works", {}, caller)).result({ timeout: 60 })) as [Inside]
    expect(works).toEqual([{ name: "inside", trace: expect.not.stringContaining(TRACE) }])
    expect(await (await client.submit("apart.effect", {}, caller)).result(WAIT)).toEqual({})
  })
})

describe("on memory", () => {
  test("an Effect finds the attempt as the parent of its spans", async () => {
    const { client } = await start([traced], { tracing: tracer })
    const job = await client.submit("traced.effect")
    const seen = await job.result(WAIT)
    const [attempt] = await spansOf("process traced.effect")
    const { traceId, spanId } = attempt?.spanContext() ?? {}
    expect(seen).toEqual({ traceId, spanId })
  })

  test("what ends without a run has a span all the same, and what no worker serves is not named", async () => {
    const { client } = await start([traced], { tracing: tracer, unknownGrace: 0 })
    await (await client.submit("no.such")).outcome(WAIT)
    const [submit, ended] = await spansOf("submit no.such", "process")
    expect(ended?.parentSpanContext?.spanId).toBe(idOf(submit))
    expect(ended).toMatchObject({
      status: { code: SpanStatusCode.ERROR },
      attributes: { "callboard.outcome": "failed", "error.type": "NotRegistered", "callboard.task": "no.such" },
    })
  })

  test("a refused submission is an error of its span", async () => {
    const { client } = await start([traced], { tracing: tracer })
    await client.submit("traced.after", { id: "one" })
    await expect(client.submit("traced.child", { id: "one" })).rejects.toMatchObject({ code: "job-exists" })
    const [refused] = await spansOf("submit traced.child")
    expect(refused?.status.code).toBe(SpanStatusCode.ERROR)
  })

  test("what the caller does not sample is not sampled further on", async () => {
    const quiet = new BasicTracerProvider({
      sampler: new ParentBasedSampler({ root: new AlwaysOffSampler() }),
      spanProcessors: [new SimpleSpanProcessor(exporter)],
    })
    const { client } = await start([traced], { tracing: quiet.getTracer("quiet") })
    const job = await client.submit("traced.after")
    await job.result(WAIT)
    expect((await client.connection.jobs.find(job.id))?.record.state).toBe("succeeded")
    expect(spans()).toEqual([])
  })

  test("off, a task carries what its caller sent and no more; so does one of a provider that is not there", async () => {
    for (const tracing of [false, true]) {
      const { client } = await start([], { tracing })
      const traceparent = `00-${TRACE}-${CALLER}-01`
      const carried = await client.submit("traced.after", {}, { traceparent })
      const alone = await client.submit("traced.after")
      const headersOf = async (id: string) => (await client.connection.jobs.find(id))?.record.message?.headers
      expect((await headersOf(carried.id))?.["traceparent"]).toBe(traceparent)
      expect(await headersOf(alone.id)).not.toHaveProperty("traceparent")
    }
    expect(spans()).toEqual([])
  })

  test("hostile trace contexts are no trace", async () => {
    const { client } = await start([traced], { tracing: tracer })
    const zero = `00-${"0".repeat(32)}-${CALLER}-01`
    for (const traceparent of [
      "",
      "x".repeat(9_000),
      zero,
      `ff-${TRACE}-${CALLER}-01`,
      `00-${TRACE.toUpperCase()}-${CALLER}-01`,
    ]) {
      const job = await client.submit("traced.after", {}, { traceparent })
      expect(await job.result(WAIT)).toBe("after")
    }
    const attempts = await eventually(() => spans().length === 10 && spans())
    expect(attempts.some((span) => span.spanContext().traceId === TRACE)).toBe(false)
  })
})
