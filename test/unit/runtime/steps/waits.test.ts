/** Which waits of a job have ended, and waits through many deaths and a long outage, in virtual time. */
import { actor, connect, serve } from "callboard"
import { virtualClock } from "callboard/testing"
import { describe, expect, test } from "vitest"
import { builtin } from "../../../../runtime/connection/builtin.ts"
import { generateId } from "../../../../runtime/id.ts"
import type { Signal } from "../../../../runtime/protocol/waits.ts"
import type { WaitEntry } from "../../../../runtime/steps/page.ts"
import { endedWaits, waitsOf } from "../../../../runtime/steps/waits.ts"
import { overriding } from "../../../../runtime/testing/observed-transport.ts"
import type { Driver, Plugin } from "../../../../runtime/transport/driver.ts"
import { TransportError } from "../../../../runtime/transport/errors.ts"

const DAY = 86_400_000

const wait = (step: string, more: Omit<WaitEntry, "kind" | "step" | "at"> = {}): WaitEntry => ({
  ...{ kind: "wait", step, at: 10 },
  ...more,
})

const signal = (n: number, name: string, at: number): Signal => ({ n, name, at, value: n })

const ended = (
  waits: ReadonlyArray<WaitEntry>,
  { now = 100, signals = [], taken = [] }: { now?: number; signals?: ReadonlyArray<Signal>; taken?: Array<number> },
) => {
  const folded = { waits: new Map(waits.map((each) => [each.step, each])), taken: new Set(taken) }
  return endedWaits(folded, { now, retries: 0, signals, jobs: new Map() }).map((entry) =>
    entry.kind === "ok" ? [entry.step, entry.signal ?? "time"] : entry.kind,
  )
}

describe("waits that have ended", () => {
  test("come in the order in which they ended, whichever the handler began first", () => {
    const race = [wait("sleep", { until: 50 }), wait("one", { signal: "go" }), wait("two", { signal: "go" })]
    expect(ended(race, { signals: [signal(1, "go", 40), signal(2, "go", 60)] })).toEqual([
      ["one", 1],
      ["sleep", "time"],
      ["two", 2],
    ])
    expect(ended(race, { signals: [signal(1, "go", 60)] })).toEqual([
      ["sleep", "time"],
      ["one", 1],
    ])
  })

  test("take each signal once, also if it came after their time", () => {
    const late = [wait("late", { signal: "go", until: 50 })]
    expect(ended(late, { signals: [signal(1, "go", 70)] })).toEqual([["late", 1]])
    expect(ended(late, { signals: [signal(1, "go", 70)], taken: [1] })).toEqual([["late", "time"]])
    expect(ended(late, { now: 49, signals: [signal(1, "go", 40)], taken: [1] })).toEqual([])
    expect(ended(late, { now: 49, signals: [signal(2, "other", 40)] })).toEqual([])
  })

  test("leave others, for which the job looks at the earliest time, and once a day", () => {
    const sleeps = [wait("one", { until: 5 * DAY }), wait("two", { until: 4 * DAY })]
    expect(waitsOf(sleeps, 0)).toEqual({ until: 4 * DAY })
    expect(waitsOf([...sleeps, wait("three", { signal: "go" })], 0)).toEqual({ until: DAY, signals: ["go"] })
    expect(waitsOf([wait("four", { job: "called" })], 0)).toEqual({ until: DAY, jobs: ["called"] })
  })
})

/** A board in memory, and connections to it whose driver is changed. */
const board = () => {
  const url = `hooked://${generateId()}?lease=1`
  const plugin = (change: (driver: Driver) => Driver): Plugin => ({
    schemes: ["hooked"],
    connect: async (given, settings) => {
      const memory = await builtin.memory()
      const driver = await memory.connect(new URL(given.href.replace(/^hooked/, "memory")), settings)
      if (!("commit" in driver)) throw new Error("memory has no driver")
      return change(driver)
    },
  })
  const on = (change: (driver: Driver) => Driver) => ({ transport: url, transports: { hooked: plugin(change) } })
  const { transports } = on((driver) => driver)
  return { on, connect: () => connect(url, { transports }) }
}

const never = () => new Promise<never>(() => undefined)
const text = new TextDecoder()
const isWaiting = (bytes: Uint8Array | undefined) => text.decode(bytes).includes('"waits":')

const QUIET = { grace: 0, signals: false, logLevel: "none" } as const

test("a wait whose turn dies nine times ends at its first time", async () => {
  const { on, connect } = board()
  let turns = 0
  const waits = actor("waits", {
    methods: {
      run: async (_input: unknown, job) => {
        turns++
        await job.step(`turn ${turns}`, () => turns)
        return (await job.waitFor("never", { timeout: "10 minutes" })) ?? "over"
      },
    },
  })
  /** Answers nothing from the commit on that would suspend a job. */
  const mortal = (died: () => void) => (driver: Driver) => {
    let isDead = false
    const alive =
      <Args extends ReadonlyArray<unknown>, T>(call: (...args: Args) => Promise<T>) =>
      (...args: Args) =>
        isDead ? never() : call(...args)
    return overriding(driver, {
      take: alive((request, signal) => driver.take(request, signal)),
      extend: alive((tokens) => driver.extend(tokens)),
      commit: alive((commits) => {
        isDead = commits.some(({ record }) => isWaiting(record?.bytes))
        if (!isDead) return driver.commit(commits)
        died()
        return never()
      }),
      store: overriding(driver.store, { write: alive((operations) => driver.store.write(operations)) }),
    })
  }
  // Modules that load lazily are loaded first, since a virtual clock does not wait for them.
  await (await connect()).close()
  using clock = virtualClock()
  const client = await clock.until(connect())
  const job = await clock.until(client.submit("waits"))
  for (let deaths = 0; deaths < 9; deaths++) {
    const death = Promise.withResolvers<void>()
    const worker = await clock.until(
      serve({ ...on(mortal(death.resolve)), ...QUIET, name: `w${deaths}`, actors: [waits] }),
    )
    await clock.until(death.promise)
    void worker.stop({ now: true }).catch(() => undefined)
  }
  const last = await clock.until(serve({ ...on((driver) => driver), ...QUIET, name: "last", actors: [waits] }))
  expect(await clock.until(job.result())).toBe("over")
  const { times } = await clock.until(job.find())
  expect(turns).toBeGreaterThan(9)
  const took = Date.parse(times.ended ?? "") - Date.parse(times.submitted)
  expect(took).toBeGreaterThanOrEqual(600_000)
  expect(took).toBeLessThan(601_000)
  void last.stop({ now: true }).catch(() => undefined)
  await clock.advance("1 minute")
})

test("jobs that sleep while the transport is away for an hour continue once", async () => {
  const { on, connect } = board()
  const ran: Array<number> = []
  const waits = actor("waits", {
    methods: {
      run: async (n: number, job) => {
        await job.sleep("nap", 600 + 10 * n)
        await job.step("after", () => void ran.push(n))
        return n
      },
    },
  })
  let isAway = false
  const outage = (driver: Driver) => {
    const reach = async () => {
      if (isAway) throw new TransportError("unavailable", "it is away")
    }
    const { store } = driver
    return overriding(driver, {
      take: (request, signal) => reach().then(() => driver.take(request, signal)),
      read: (ids, what) => reach().then(() => driver.read(ids, what)),
      commit: (commits) => reach().then(() => driver.commit(commits)),
      extend: (tokens) => reach().then(() => driver.extend(tokens)),
      store: overriding(store, {
        get: (keys) => reach().then(() => store.get(keys)),
        list: (range) => reach().then(() => store.list(range)),
        write: (operations) => reach().then(() => store.write(operations)),
      }),
    })
  }
  // Modules that load lazily are loaded first, since a virtual clock does not wait for them.
  await (await connect()).close()
  using clock = virtualClock()
  const client = await clock.until(connect())
  const all = Array.from({ length: 200 }, (_, n) => n)
  await clock.until(client.submitMany(all.map((n) => ({ task: "waits", id: `n-${n}`, input: n }))))
  const service = await clock.until(
    serve({ ...on(outage), ...QUIET, actors: [waits], concurrency: 50, reconnect: { maxTries: 0 } }),
  )
  await clock.advance("1 minute")
  const views = () => clock.until(Promise.all(all.map((n) => client.job(`n-${n}`).find())))
  expect((await views()).every(({ waits }) => waits !== undefined)).toBe(true)
  isAway = true
  await clock.advance("1 hour")
  expect(ran).toEqual([])
  isAway = false
  await clock.advance("5 minutes")
  expect(new Set(await clock.until(Promise.all(all.map((n) => client.job(`n-${n}`).result()))))).toEqual(new Set(all))
  expect(ran).toHaveLength(200)
  expect((await views()).every(({ attempts, waits }) => attempts === 1 && waits === undefined)).toBe(true)
  void service.stop({ now: true }).catch(() => undefined)
  await clock.advance("1 minute")
})
