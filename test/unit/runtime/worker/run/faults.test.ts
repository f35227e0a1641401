/** Faults between the end of a handler and its settlement: the handler runs once, and the job says what failed. */
import { actor, type Job, type ServeOptions } from "callboard"
import { TransportError } from "callboard/transport"
import { afterEach, describe, expect, test, vi } from "vitest"
import { Turn } from "../../../../../runtime/async/batcher.ts"
import { generateId } from "../../../../../runtime/id.ts"
import { StepEngine } from "../../../../../runtime/steps/engine.ts"
import { DeliveryBuffer } from "../../../../../runtime/worker/fetch/delivery-buffer.ts"
import { Dependents } from "../../../../../runtime/worker/maintenance/dependents.ts"
import { OutcomeDecider } from "../../../../../runtime/worker/run/decide.ts"
import { EarlyAcks } from "../../../../../runtime/worker/run/early-acks.ts"
import { MethodSettingsCache } from "../../../../../runtime/worker/run/method-settings.ts"
import { RunWatch } from "../../../../../runtime/worker/run/run-watch.ts"
import { DeliveryEnder } from "../../../../../runtime/worker/run/settle.ts"
import { SettlementStore } from "../../../../../runtime/worker/run/settlement-store.ts"
import { Observers } from "../../../../../runtime/worker/telemetry/observer.ts"
import { withJobs } from "../../../../support/faulty-board.ts"
import { start } from "../../../../support/services.ts"

afterEach(() => {
  vi.restoreAllMocks()
})

const WAIT = { timeout: "10 seconds" } as const
const BROKEN = "this part is broken"
const broken = (): never => {
  throw new Error(BROKEN)
}

/** Cause.pretty of Effect fails on it. */
const brokenUnreadably = (): never => {
  throw Object.defineProperty(new Error(BROKEN), "name", { get: broken })
}

const followed = { callbacks: [{ task: "after" }], errbacks: [{ task: "after" }] }

/** Runs one job, whose handler breaks something before it answers or throws. */
type Method = "fine" | "fails" | "early" | "steps"

const runOne = async (breaks: () => void, method: Method = "fine", options: ServeOptions = {}) => {
  let runs = 0
  const run = () => {
    runs++
    breaks()
    if (method === "fails") throw new RangeError("too far")
    return "done"
  }
  const steps = async (_: unknown, { step }: Job) => {
    await step("one", () => 1)
    return run()
  }
  const work = actor("work", { methods: { fine: run, fails: run, early: { acks: { when: "early" }, run }, steps } })
  const after = actor("after", { methods: { run: () => null } })
  const service = await start([work, after], options)
  const job = await service.client.submit(`work.${method}`, { input: {}, ...followed })
  const outcome = await job.outcome(WAIT)
  const view = await job.find()
  // A redelivered job would run in a moment, so another job goes through the same worker behind it.
  vi.restoreAllMocks()
  await (await service.client.submit("after")).outcome(WAIT)
  return { runs, outcome, dead: view.dead, attempts: view.attempts }
}

describe("a part that throws after the handler", () => {
  test.each<readonly [string, () => void]>([
    ["judging", () => vi.spyOn(OutcomeDecider.prototype, "decide").mockImplementationOnce(broken)],
    [
      "judging, unreadably",
      () => vi.spyOn(OutcomeDecider.prototype, "decide").mockImplementationOnce(brokenUnreadably),
    ],
    ["what is known of the attempt", () => vi.spyOn(OutcomeDecider.prototype, "attempt").mockImplementation(broken)],
    ["how long it is kept", () => vi.spyOn(MethodSettingsCache.prototype, "of").mockImplementation(broken)],
    ["settling", () => vi.spyOn(SettlementStore.prototype, "add").mockImplementationOnce(broken)],
    ["the batch", () => vi.spyOn(Turn.prototype, "add").mockImplementationOnce(broken)],
  ])("makes the job fail with the reason, once: %s", async (_name, breaks) => {
    expect(await runOne(breaks)).toMatchObject({
      runs: 1,
      attempts: 1,
      outcome: { state: "failed", error: { message: expect.stringContaining(BROKEN) } },
      dead: expect.stringMatching(/^(outcome-lost|follow-ups-refused|errbacks-refused)$/),
    })
  })

  test.each<readonly [string, () => void]>([
    ["at once", () => vi.spyOn(StepEngine.prototype, "finish").mockImplementationOnce(broken)],
    ["later", () => vi.spyOn(StepEngine.prototype, "finish").mockRejectedValueOnce(new Error(BROKEN))],
  ])("while its steps end makes the job fail with the reason, once: %s", async (_name, breaks) => {
    expect(await runOne(breaks, "steps")).toMatchObject({
      runs: 1,
      attempts: 1,
      outcome: { state: "failed", error: { message: expect.stringContaining(BROKEN) } },
      dead: "outcome-lost",
    })
  })

  test.each<readonly [string, () => void]>([
    ["the watch over the runs", () => vi.spyOn(RunWatch.prototype, "ended").mockImplementationOnce(broken)],
    ["the count of hands", () => vi.spyOn(DeliveryBuffer.prototype, "handlerEnded").mockImplementationOnce(broken)],
    ["those who watch", () => vi.spyOn(Observers.prototype, "settled").mockImplementationOnce(broken)],
    ["those who wait for it", () => vi.spyOn(Dependents.prototype, "stored").mockImplementationOnce(broken)],
  ])("and decides nothing leaves the outcome as it is: %s", async (_name, breaks) => {
    expect(await runOne(breaks)).toMatchObject({ runs: 1, outcome: { state: "succeeded", result: "done" } })
  })

  test("once it was told the settlement leaves the delivery to it: nothing is settled twice", async () => {
    const { end } = DeliveryEnder.prototype
    const told: Array<string | undefined> = []
    const breaks = () =>
      vi.spyOn(DeliveryEnder.prototype, "end").mockImplementation(function (this: DeliveryEnder, active, settlement) {
        told.push(settlement.record?.state)
        end.call(this, active, settlement)
        if (told.length === 1) throw new Error(BROKEN)
      })
    expect(await runOne(breaks)).toMatchObject({ runs: 1, outcome: { state: "succeeded", result: "done" } })
    // The second one is the job's callback.
    expect(told.filter((state) => state !== "succeeded")).toEqual([])
    expect(told.length).toBeLessThanOrEqual(2)
  })

  test("leaves the list of jobs without a lease to others", async () => {
    const breaks = () => vi.spyOn(EarlyAcks.prototype, "done").mockImplementationOnce(broken)
    expect(await runOne(breaks, "early")).toMatchObject({ runs: 1, outcome: { state: "succeeded" } })
  })

  test("adds to the error of a handler that has failed", async () => {
    const breaks = () => vi.spyOn(JSON, "stringify").mockImplementationOnce(broken)
    expect(await runOne(breaks, "fails")).toMatchObject({
      runs: 1,
      outcome: {
        state: "failed",
        error: {
          name: "RangeError",
          message: expect.stringMatching(`^too far \\(and its errbacks cannot be submitted: .*${BROKEN}`),
        },
      },
      dead: "errbacks-refused",
    })
  })
})

describe("a transport that fails at an outcome", () => {
  test.each<readonly [string, () => unknown]>([
    ["throws", broken],
    ["rejects", () => Promise.reject(new Error(BROKEN))],
    ["says so", () => Promise.resolve([{ status: "failed", error: new TransportError("internal", BROKEN) }])],
  ])("each time it is asked (%s) makes the job fail with the reason, and no other", async (_name, fail) => {
    const transports = withJobs((jobs) => ({
      settle: (settlements) =>
        settlements.some(({ record }) => record?.state === "succeeded" && record.task.startsWith("work"))
          ? (fail() as ReturnType<typeof jobs.settle>)
          : jobs.settle(settlements),
    }))
    const options = { transport: `faulty://${generateId()}`, transports }
    expect(await runOne(() => undefined, "fine", options)).toMatchObject({
      runs: 1,
      outcome: { state: "failed", error: { name: "OutcomeLost", message: expect.stringContaining(BROKEN) } },
      dead: "outcome-lost",
    })
  })

  test("once is asked again", async () => {
    let asked = 0
    const transports = withJobs((jobs) => ({
      settle: (settlements) => (++asked === 1 ? broken() : jobs.settle(settlements)),
    }))
    const options = { transport: `faulty://${generateId()}`, transports }
    expect(await runOne(() => undefined, "fine", options)).toMatchObject({ runs: 1, outcome: { state: "succeeded" } })
  })
})

describe("a result that lies too deep for what follows", () => {
  test("makes the job a dead letter that says so, with its errbacks, after one run", async () => {
    let runs = 0
    const errors: Array<unknown> = []
    const deep = actor("deep", {
      methods: {
        run: () => {
          runs++
          return JSON.parse(`${"[".repeat(600)}1${"]".repeat(600)}`) as unknown
        },
      },
    })
    const apologise = actor("apologise", {
      methods: { run: (input: unknown) => void errors.push(input) },
    })
    const service = await start([deep, apologise])
    const job = await service.client.submit("deep", {
      callbacks: [{ task: "apologise" }],
      errbacks: [{ task: "apologise" }],
      retry: { max: 3 },
    })
    expect(await job.outcome(WAIT)).toMatchObject({
      state: "failed",
      error: { name: "UnserialisableResult", message: expect.stringMatching(/more than 500 deep/) },
    })
    await expect.poll(() => errors).toHaveLength(1)
    expect(await job.find()).toMatchObject({ attempts: 1 })
    expect(runs).toBe(1)
  })
})
