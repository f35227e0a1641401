import { connect } from "callboard"
import { afterEach, describe, expect, test, vi } from "vitest"
import { actor } from "../../../../../runtime/actor/actor.ts"
import { type Clock, systemClock } from "../../../../../runtime/async/clock.ts"
import { generateId } from "../../../../../runtime/id.ts"
import { makeLog } from "../../../../../runtime/log/log.ts"
import { NO_EMBED } from "../../../../../runtime/protocol/body.ts"
import { newTask } from "../../../../../runtime/protocol/headers.ts"
import { recordOfTask } from "../../../../../runtime/protocol/record.ts"
import type { Jobs, Report } from "../../../../../runtime/transport/job-store/transport.ts"
import { ActiveDelivery, HandlerRun, HeldDeliveries } from "../../../../../runtime/worker/active-delivery.ts"
import { RunWatch } from "../../../../../runtime/worker/run/run-watch.ts"

afterEach(() => {
  vi.useRealTimers()
})

const method = actor("echo", { methods: { run: () => null } }).methods.get("run")

/** A watch, one run with these limits that starts now, and its reports. */
const start = async (limits: { readonly hard?: number; readonly soft?: number; readonly clock?: Clock } = {}) => {
  const client = await connect(`memory://${generateId()}`)
  await client.submit("echo", { id: "job" })
  const [delivery] = await client.connection.jobs.take(
    { queues: ["default"], max: 1, wait: 0 },
    AbortSignal.timeout(1_000),
  )
  if (delivery === undefined || "undecodable" in delivery.message || method === undefined) throw new Error("no task")
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval", "setTimeout", "clearTimeout", "Date", "performance"] })
  const now = Date.now()
  const task = newTask({ task: "echo", id: "job" })
  const posting = { id: "job", run: 1, retries: 0, queue: "default", level: 4, message: delivery.message }
  const held = new HeldDeliveries()
  const runWith = ({ hard = 60_000, soft = Number.POSITIVE_INFINITY, clock }: typeof limits): HandlerRun => {
    const active = new ActiveDelivery(delivery, 0)
    const run = new HandlerRun({
      delivery: active,
      posting,
      task,
      method,
      embed: NO_EMBED,
      record: recordOfTask(posting, task, now),
      claimed: false,
      startedAt: now,
      hardMs: hard,
      softMs: soft,
      ...(clock === undefined ? {} : { clock }),
    })
    active.run = run
    active.phase = "running"
    active.called = true
    held.add(active)
    return run
  }
  const run = runWith(limits)
  const end = (ended = run) => {
    for (const active of held.values()) if (active.run === ended) held.remove(active)
    watch.ended(ended)
  }
  const reports: Array<Report> = []
  const deadlines: Array<number> = []
  const queue: Jobs = { ...client.connection.jobs, report: async (all) => void reports.push(...all) }
  const watch = new RunWatch({
    held,
    jobs: queue,
    leases: { deadline: (at) => deadlines.push(at - run.beganAt), list: () => undefined },
    slots: { runsLong: () => undefined },
    external: undefined,
    clock: systemClock,
    log: makeLog({ level: "none" }),
  })
  watch.began(run)
  return { end, run, runWith, watch, reports, deadlines, now }
}

describe("reports", () => {
  test("a run that is over within a moment is never reported", async () => {
    const { end, reports } = await start()
    await vi.advanceTimersByTimeAsync(100)
    end()
    await vi.advanceTimersByTimeAsync(1_000)
    expect(reports).toEqual([])
    expect(vi.getTimerCount()).toBe(0)
  })

  test("one that lasts is reported once; each progress then, but not more often than four times a second", async () => {
    const { run, reports } = await start()
    await vi.advanceTimersByTimeAsync(2_000)
    expect(reports).toHaveLength(1)
    for (let n = 1; n <= 20; n++) {
      run.progress = { fraction: n / 20, at: Date.now() }
      await vi.advanceTimersByTimeAsync(50)
    }
    await vi.advanceTimersByTimeAsync(1_000)
    expect(reports.length).toBeGreaterThan(3)
    expect(reports.length).toBeLessThanOrEqual(7)
    expect(reports.at(-1)?.record.progress?.fraction).toBe(1)
  })

  test("the last progress is told also when it came in the same millisecond as the report before, or the clock went back", async () => {
    const { run, reports } = await start()
    run.progress = { fraction: 0.1, at: Date.now() }
    await vi.advanceTimersByTimeAsync(200)
    expect(reports.at(-1)?.record.progress?.fraction).toBe(0.1)
    run.progress = { fraction: 0.9, at: Date.now() - 3_600_000 }
    await vi.advanceTimersByTimeAsync(1_000)
    expect(reports.at(-1)?.record.progress?.fraction).toBe(0.9)
  })
})

describe("limits", () => {
  test("the soft one fires the signal, the hard one ends the run", async () => {
    const { run } = await start({ soft: 100, hard: 300 })
    const { signal } = run
    await vi.advanceTimersByTimeAsync(50)
    expect(signal.aborted).toBe(false)
    await vi.advanceTimersByTimeAsync(100)
    expect(signal.aborted).toBe(true)
    expect(run.stop).toBeUndefined()
    await vi.advanceTimersByTimeAsync(200)
    expect(run.stop).toBe("timeout")
  })

  test("are not waited for once the watch has stopped", async () => {
    const { watch, run } = await start({ soft: 30_000 })
    await vi.advanceTimersByTimeAsync(100)
    expect(vi.getTimerCount()).toBe(2)
    watch.stop()
    expect(vi.getTimerCount()).toBe(0)
    expect(run.stop).toBeUndefined()
  })

  test("are told as they were given, whatever the clock says", async () => {
    const { run } = await start({ soft: 200, hard: 300, clock: { ...systemClock, monotonic: () => 1_000.1 } })
    run.warn()
    expect([run.softReason?.message, run.hardMs]).toEqual(["it exceeded its soft time limit of 0.2 s", 300])
  })

  test("the earliest hard limit is told at once, and that there is none any more", async () => {
    const { end, deadlines } = await start({ hard: 1_000 })
    expect(deadlines).toEqual([1_000])
    end()
    expect(deadlines.at(-1)).toBe(Number.POSITIVE_INFINITY)
  })

  test("the limit of a run that begins because another one has reached its own is told", async () => {
    const { end, run, runWith, watch, deadlines } = await start({ hard: 90 })
    end(run)
    // The list has no order: the one that begins later may be the first in it.
    const [later, first] = [runWith({ hard: 1_000 }), runWith({ hard: 90 })]
    first.stopped = () => {
      end(first)
      watch.began(later)
    }
    watch.began(first)
    await vi.advanceTimersByTimeAsync(100)
    expect(first.stop).toBe("timeout")
    expect(deadlines.at(-1)).toBe(1_000)
  })

  test("the limit of a run that has ended does not hold for another that goes on", async () => {
    const { end, runWith, watch, deadlines } = await start({ hard: 1_000 })
    watch.began(runWith({ hard: 30_000 }))
    expect(deadlines).toEqual([1_000])
    end()
    expect(deadlines).toEqual([1_000, 30_000])
  })

  test("the limit of a run that has ended holds for no other that is still prepared", async () => {
    const { end, runWith, deadlines } = await start({ hard: 1_000 })
    runWith({ hard: 60_000 })
    end()
    expect(deadlines.at(-1)).toBe(Number.POSITIVE_INFINITY)
  })
})
