/** A jump of the wall clock changes nothing for a worker. */
import { actor, connect } from "callboard"
import { expect, onTestFinished, test } from "vitest"
import { systemClock } from "../../../../runtime/async/clock.ts"
import { generateId } from "../../../../runtime/id.ts"
import { makeLog } from "../../../../runtime/log/log.ts"
import { settingsOf } from "../../../../runtime/service/settings.ts"
import { startWorker } from "../../../../runtime/worker/worker.ts"
import { gate, withJobs } from "../../../support/faulty-board.ts"
import { eventually } from "../../../support/servers/process.ts"

const HOUR = 3_600_000

test.each([
  ["forward", HOUR],
  ["back", -HOUR],
])(
  "an hour %s: no job fails by its limit, none runs twice, leases are extended, what is scheduled runs",
  async (_, turned) => {
    let shift = 0
    let extended = 0
    const transports = withJobs((jobs) => ({
      extend: (tokens) => {
        extended++
        return jobs.extend(tokens)
      },
    }))
    const client = await connect(`faulty://${generateId()}?lease=1`, { transports })
    onTestFinished(() => client.close())
    const { open, opened } = gate()
    const runs: Array<string> = []
    const told = Promise.withResolvers<(fraction: number) => void>()
    const deadlines: Array<number> = []
    /** When each attempt of the flaky job began, by the monotonic clock. */
    const attempts: Array<number> = []
    const actors = [
      actor("timed", {
        methods: {
          run: async (_input, job) => {
            runs.push(job.id)
            told.resolve(job.progress)
            deadlines.push(job.deadline)
            await opened
            return job.signal.aborted
          },
          soon: () => "ran",
          flaky: {
            run: (_input, job) => {
              attempts.push(performance.now())
              if (job.attempt === 1) throw new Error("once more")
              return "ran"
            },
            retry: { max: 1, interval: [2] },
          },
          endless: () => new Promise(() => undefined),
        },
      }),
    ]
    const worker = await startWorker({
      ...settingsOf({ actors }),
      connection: client.connection,
      client,
      actors,
      name: "turned",
      leaseMs: 1_000,
      log: makeLog({ level: "none" }),
      observers: [],
      clock: { ...systemClock, now: () => systemClock.now() + shift },
    })
    onTestFinished(async () => void (await worker.stop({ now: true })))
    const submit = () => client.submit("timed", { timeLimit: 60 })
    const before = await submit()
    const scheduled = await client.submit("timed.soon", { delay: 2 })
    // A time limit still ends its run, after the time that it says.
    const limited = await client.submit("timed.endless", { timeLimit: 2 })
    const report = await told.promise
    await eventually(async () => (await limited.find()).state === "started", { message: "it runs" })
    shift = turned
    const after = await submit()
    // Due and expired are by the clock of the transport, which was not set.
    const flaky = await client.submit("timed.flaky")
    const expiring = await client.submit("timed.soon", { expires: 1_800 })
    await eventually(() => runs.length === 2, { message: "both run, begun before the jump and after it" })
    report(0.5)
    await eventually(async () => (await before.find()).progress?.fraction === 0.5, { message: "progress is told" })
    const asked = extended
    // More than two leases: a lease that was not extended would have expired.
    await eventually(() => extended >= asked + 8, { message: "leases are extended" })
    expect(await limited.outcome({ timeout: 60 })).toMatchObject({ error: { name: "TimeLimitExceeded" } })
    expect(await scheduled.result({ timeout: 60 })).toBe("ran")
    expect(await expiring.result({ timeout: 60 })).toBe("ran")
    expect(await flaky.result({ timeout: 60 })).toBe("ran")
    const [tried = 0, retried = 0] = attempts
    expect(retried - tried).toBeGreaterThan(1_900)
    open()
    for (const job of [before, after]) {
      expect(await job.result({ timeout: 60 })).toBe(false)
      expect(await job.find()).toMatchObject({ attempts: 1, retries: 0 })
    }
    expect(runs).toEqual([before.id, after.id])
    // Times of day are those of the clock as it was set when each run began.
    const [first = 0, second = 0] = deadlines
    expect(Math.abs(second - first - turned)).toBeLessThan(60_000)
  },
)
