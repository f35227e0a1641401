/** Conductors: what they refuse, what becomes of a board's job by the end of its flow, and calls of the transport that fail. */
import { actor, type ConductorEvent, connect, serve } from "callboard"
import { TransportError } from "callboard/transport"
import { describe, expect, onTestFinished, test } from "vitest"
import { verdictOf } from "../../../../runtime/client/conductor.ts"
import { generateId } from "../../../../runtime/id.ts"
import type { JobError, JobRecord } from "../../../../runtime/protocol/record.ts"
import { Faults, faultyPlugin } from "../../../support/faults.ts"
import { memory } from "../../../support/memory.ts"
import { eventually } from "../../../support/servers/process.ts"
import { start } from "../../../support/services.ts"

describe("options that are refused, in the call of a client and of a service alike", () => {
  const cases: ReadonlyArray<readonly [given: object, code: string, message: RegExp]> = [
    [{}, "invalid-input", /board: is missing: it a name must be 1 to 64 letters/],
    [{ board: "a b" }, "invalid-input", /board: a name must be 1 to 64 letters/],
    [{ board: 1 }, "invalid-input", /board: a name must be 1 to 64 letters/],
    [{ board: "b", maxSimultaneous: 2 }, "unknown-field", /maxSimultaneous .*did you mean .*maxSimultaneousJobs\?/],
    [{ board: "b", flows: ["a"] }, "invalid-input", /flows: must be/],
    [{ board: "b", flows: { a: 1 } }, "invalid-input", /flows\.a: must be text/],
    [{ board: "b", name: "" }, "invalid-input", /name: must be text of 1 to 255 bytes/],
    [{ board: "b", name: "a\nb" }, "invalid-input", /name: must be text of 1 to 255 bytes/],
    [{ board: "b", name: "ü".repeat(51) }, "invalid-input", /name: must be text .* 300 percent-encoded/],
    [{ board: "b", maxSimultaneousJobs: 1.5 }, "invalid-input", /maxSimultaneousJobs: must be a whole number; 0/],
    [{ board: "b", maxDispatches: 0 }, "invalid-input", /maxDispatches: must be a whole number, 1 or more/],
    [{ board: "b", attempts: 0 }, "invalid-input", /attempts: must be a whole number, 1 or more/],
    [{ board: "b", waitTimeout: -1 }, "invalid-input", /waitTimeout: -1 is not a duration: it is negative/],
    [{ board: "b", waitTimeout: "x" }, "invalid-input", /waitTimeout: "x" is not a duration/],
    [{ board: "b", waitTimeout: 0 }, "invalid-input", /waitTimeout: must be at least 0\.01 seconds/],
    [{ board: "b", lease: 0.5 }, "invalid-input", /lease: must be at least 1 second/],
    [{ board: "b", onEvent: "x" }, "invalid-input", /onEvent: must be a function/],
  ]
  test.each(cases)("S077 %j", async (given, code, message) => {
    const client = await connect(`memory://${generateId()}`)
    onTestFinished(() => client.close())
    const refusal = { code, message: expect.stringMatching(message) }
    // As code without types calls them.
    const conduct = () => Reflect.apply(client.conductor, client, [given])
    expect(conduct).toThrow(expect.objectContaining(refusal))
    const service = async () => Reflect.apply(serve, undefined, [{ conductors: [given], signals: false }])
    await expect(service()).rejects.toMatchObject(refusal)
  })

  test("a service says which of its conductors is meant", async () => {
    const conductors = [{ board: "a" }, { board: "b", attempts: 0 }]
    await expect(serve({ conductors, signals: false })).rejects.toThrow(/^conductors\[1\]\.attempts: /)
  })

  test("a timeout of a wait", async () => {
    const client = await connect(`memory://${generateId()}`)
    onTestFinished(() => client.close())
    const conductor = client.conductor({ board: "b" })
    expect(await conductor.wait()).toBe(true)
    await expect(conductor.wait(-1)).rejects.toMatchObject({ code: "invalid-input", details: { field: "timeout" } })
  })
})

describe("a board's job whose flow ends", () => {
  const error: JobError = { name: "Error", message: "no", reason: "handler" }
  const cases: ReadonlyArray<readonly [end: string, changed: Partial<Pick<JobRecord, "state" | "error" | "run">>]> = [
    ["consume", { state: "succeeded" }],
    ["consume", { state: "cancelled" }],
    ["consume", { state: "expired" }],
    ["consume", {}],
    ["consume", { error }],
    ["consume", { error: { ...error, reason: "timeout" } }],
    ["consume", { error: { ...error, name: "AggregateError", errors: [{ name: "TransportError", message: "" }] } }],
    ["trash", { error: { ...error, reason: "unknown-actor" } }],
    ["trash", { error: { ...error, reason: "invalid-input" } }],
    ["abandon", { error: { ...error, reason: "worker-lost" } }],
    ["abandon", { error: { ...error, reason: "outcome-lost" } }],
    ["abandon", { error: { ...error, name: "TransportError" } }],
    ["abandon", { error: { ...error, cause: { name: "TransportError", message: "" } } }],
    ["abandon", { error: { ...error, reason: "worker-lost" }, run: 2 }],
    ["trash", { error: { ...error, reason: "worker-lost" }, run: 3 }],
  ]
  test.each(cases)("%s: %j", (end, changed) => {
    expect(verdictOf({ id: "board-a", state: "failed", run: 1, ...changed }, 3).end).toBe(end)
  })
})

describe("while the transport is away", () => {
  const cut = () => {
    throw new TransportError("unavailable", "the cable is cut")
  }

  const begin = async () => {
    const faults = new Faults()
    const name = generateId()
    const client = await connect(`faulty://${name}`, { transports: { faulty: faultyPlugin(faults) } })
    // Not under the faults.
    const other = await connect(`memory://${name}`, { transports: { memory } })
    onTestFinished(async () => {
      faults.heal()
      await client.close()
      await other.close()
    })
    const told: Array<ConductorEvent["event"]> = []
    const conductor = client.conductor({ board: "flows", lease: 1, onEvent: ({ event }) => told.push(event) })
    const end = async (id: string) => {
      await other.job(id).cancel()
    }
    return { faults, name, conductor, other, board: other.board("flows"), told, end }
  }

  test("it waits, and goes on", async () => {
    const { faults, conductor, board, told, end } = await begin()
    faults.before = cut
    const ended = conductor.run()
    const job = await board.post("a", { details: { flow: "flow" } })
    await eventually(() => (faults.calls.get("store.write") ?? 0) >= 2, { message: "it tries again" })
    const heal = () => {
      faults.heal()
      faults.status("connected")
    }
    heal()
    await eventually(() => told.length === 1, { message: "it takes the job" })
    await end(`board-${job.id}`)
    await eventually(async () => (await board.count()) === 0, { message: "it is consumed" })
    // Also while it waits for a job.
    let looks = 0
    faults.before = (call) => {
      if (call !== "store.write") looks++
      cut()
    }
    await eventually(() => looks >= 2, { message: "it tries again" })
    heal()
    const next = await board.post("b", { details: { flow: "flow" } })
    await eventually(() => told.length === 3, { message: "it takes the next job" })
    await end(`board-${next.id}`)
    await eventually(() => told.length === 4, { message: "it is consumed" })
    conductor.stop()
    await ended
    expect(told).toEqual(["running_start", "job_consumed", "running_start", "job_consumed"])
  })

  test("a job is neither trashed nor abandoned because it cannot be submitted", async () => {
    const { faults, conductor, board, told, end } = await begin()
    let tries = 0
    faults.before = (call) => {
      if (call === "jobs.publish" && ++tries <= 2) cut()
    }
    const ended = conductor.run()
    const job = await board.post("a", { details: { flow: "flow" } })
    await eventually(() => told.length === 1, { message: "it is submitted" })
    expect(tries).toBe(3)
    await end(`board-${job.id}`)
    await eventually(() => told.length === 2, { message: "it is consumed" })
    conductor.stop()
    await ended
    expect(told).toEqual(["running_start", "job_consumed"])
  })

  test("a claim that is lost is given up, and the job is consumed once by the conductor that takes it next", async () => {
    const { faults, conductor, board, told, end, other } = await begin()
    const ended = conductor.run()
    const job = await board.post("a", { details: { flow: "flow" } })
    await eventually(() => told.length === 1, { message: "it is submitted" })
    faults.before = (call) => (call === "store.write" ? cut() : undefined)
    const heard: Array<ConductorEvent["event"]> = []
    const next = other.conductor({ board: "flows", onEvent: ({ event }) => heard.push(event) })
    const nextEnded = next.run()
    await eventually(() => heard.length === 1, { deadline: 10_000, message: "another one takes the job over" })
    faults.heal()
    const second = await board.post("b", { details: { flow: "flow" } })
    await eventually(() => told.length === 2, { message: "the first one takes the next job" })
    await end(`board-${job.id}`)
    await end(`board-${second.id}`)
    await eventually(async () => (await board.count()) === 0, { message: "both are consumed" })
    conductor.stop()
    next.stop()
    await Promise.all([ended, nextEnded])
    expect([told, heard]).toEqual([
      ["running_start", "running_start", "job_consumed"],
      ["running_start", "job_consumed"],
    ])
  })

  test("a job that has ended is consumed once the transport is back, and not run or awaited again", async () => {
    const { faults, conductor, board, told, end } = await begin()
    const ended = conductor.run()
    const job = await board.post("a", { details: { flow: "flow" } })
    await eventually(() => told.length === 1, { message: "it is submitted" })
    let failures = 0
    faults.before = (call) => {
      if (call === "store.write" && ++failures <= 2) cut()
    }
    await end(`board-${job.id}`)
    await eventually(() => told.length === 2, { message: "it is consumed" })
    conductor.stop()
    await ended
    expect([failures > 2, await board.count(), told]).toEqual([true, 0, ["running_start", "job_consumed"]])
  })

  test("a job whose end cannot be stored is not kept claimed for ever", async () => {
    const { faults, conductor, board, told, end } = await begin()
    const ended = conductor.run()
    const job = await board.post("a", { details: { flow: "flow" } })
    await eventually(() => told.length === 1, { message: "it is submitted" })
    let failures = 0
    // A fault of the store that does not pass: the claim is not renewed, so that it expires.
    faults.before = (call) => {
      if (call !== "store.write") return
      failures++
      throw new TransportError("internal", "the store has a bug")
    }
    await end(`board-${job.id}`)
    await eventually(() => failures >= 2, { message: "it cannot be consumed" })
    faults.heal()
    await eventually(async () => (await board.count()) === 0, { deadline: 10_000, message: "it is taken again" })
    conductor.stop()
    await ended
    expect(told).toEqual(["running_start", "running_start", "job_consumed"])
  })

  test.each([true, false])(
    "a job that another conductor has had run again is not run a third time: %s",
    async (fails) => {
      const { faults, conductor, board, told, other, name } = await begin()
      let runs = 0
      const run = () => {
        if (++runs === 1) throw new TransportError("unavailable", "the storage is away")
        if (fails) throw new Error("no")
      }
      await start([actor("flow", { methods: { run } })], { transport: `memory://${name}` })
      // The conductor is held up between the end of the job and its next run, which another one begins.
      const held = Promise.withResolvers<void>()
      faults.before = (call) => (call === "jobs.decide" ? held.promise : undefined)
      const ended = conductor.run()
      const job = await board.post("a", { details: { flow: "flow" } })
      await eventually(() => (faults.calls.get("jobs.decide") ?? 0) > 0, { message: "it is about to run it again" })
      await other.job(`board-${job.id}`).retry()
      await eventually(() => runs === 2, { message: "it runs again" })
      await other.job(`board-${job.id}`).outcome()
      held.resolve()
      await eventually(() => told.includes("job_consumed"), { message: "it is consumed" })
      conductor.stop()
      await ended
      expect(runs).toBe(2)
      const ends = fails ? ["job_consumed"] : ["running_end", "job_consumed"]
      expect(told).toEqual(["running_start", "job_abandoned", "running_start", ...ends])
    },
  )
})
