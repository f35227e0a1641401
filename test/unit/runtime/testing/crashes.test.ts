/** Durable steps whose worker dies at each of its writes, in virtual time. */
import { actor } from "callboard"
import { crashEverywhere } from "callboard/testing"
import { describe, expect, test } from "vitest"
import { overriding } from "../../../../runtime/testing/observed-transport.ts"
import type { Driver } from "../../../../runtime/transport/driver.ts"
import type { StoreOperation } from "../../../../runtime/transport/store.ts"
import { stepSessions } from "../../../chaos/step-flows.ts"

/** Each test is up to hundreds of runs in virtual time, for which a busy machine needs minutes. */
const MANY = { timeout: 300_000 }

interface More {
  readonly cancelAt?: number
  readonly freeze?: boolean
  readonly wrap?: (driver: Driver) => Driver
}

const crash = async (name: string, more: More = {}) => {
  const log: Array<string> = []
  const act = (what: string) => () => {
    log.push(what)
    return what
  }
  const undo = (what: string) => ({ revert: () => void log.push(`-${what}`) })
  const scene = actor("scene", { methods: { run: (_input: unknown, job) => stepSessions[name]?.run(job, act, undo) } })
  return crashEverywhere(scene, { method: "run", begin: () => log.splice(0), look: () => [...log], ...more })
}

const count = (log: ReadonlyArray<string>, what: string) => log.filter((each) => each === what).length
const reverts = (log: ReadonlyArray<string>) => [...new Set(log.filter((each) => each.startsWith("-")))]

/** The differences of the ends of a flow from the end without a crash, a sentence for each. */
const faults = (ends: Awaited<ReturnType<typeof crash>>) => {
  const [uncut, ...others] = ends
  return others.flatMap(({ crash, job, seen }) => {
    const problems: Array<string> = []
    if (job.state !== uncut?.job.state) problems.push(`ends ${job.state}`)
    let twice = 0
    for (const what of new Set([...(uncut?.seen ?? []), ...seen])) {
      const [wanted, got] = [count(uncut?.seen ?? [], what), count(seen, what)]
      if (got < wanted || got > wanted + 1) problems.push(`${what} ran ${got} times`)
      if (got > wanted) twice++
    }
    // After one death only steps that were under way may run again; at most two run at the same time.
    if (twice > 2) problems.push(`${twice} steps ran twice`)
    if (reverts(seen).join() !== reverts(uncut?.seen ?? []).join()) problems.push(`reverted ${reverts(seen)}`)
    return problems.map((problem) => `${crash}: ${problem}: ${seen.join(" ")}`)
  })
}

const names = ["plain", "parallel", "caught", "saga"]

describe("a worker that dies before and after every write", MANY, () => {
  test.each(names)("%s: ends as without, and no step whose outcome is stored runs again", async (name) => {
    const { state, log } = stepSessions[name] ?? {}
    const ends = await crash(name)
    expect(ends[0]).toMatchObject({ crash: "none", job: { state } })
    expect(ends[0]?.seen.join(" ")).toBe(log)
    expect(ends.length).toBeGreaterThan(8)
    expect(faults(ends)).toEqual([])
  })

  test.each(names)(
    "%s: one that stood still there writes nothing, begins no step and settles nothing",
    async (name) => {
      expect(faults(await crash(name, { freeze: true }))).toEqual([])
    },
  )

  // Every step with a revert is reverted, unless the job had ended before.
  test.each(["saga", "caught"])("%s: the same while it is cancelled at each write", async (name) => {
    for (const cancelAt of [1, 3, 4]) {
      const ends = await crash(name, { cancelAt })
      const left = ends.flatMap(({ crash, job, seen }) => {
        const undone = ["a", "b", "c", "instead"].every(
          (what) => !seen.includes(what) || seen.includes(`-${what}`) || (name === "caught" && what === "c"),
        )
        return job.state === "succeeded" || undone ? [] : [`${cancelAt}, ${crash}: ${job.state}: ${seen.join(" ")}`]
      })
      expect(left).toEqual([])
    }
  })
})

/** A driver whose store, or whose commits, break a rule. */
const broken = (change: (driver: Driver) => Partial<Driver>) => (driver: Driver) => overriding(driver, change(driver))

const writing = (change: (operation: StoreOperation) => StoreOperation | undefined) =>
  broken(({ store }) => ({
    store: overriding(store, {
      write: async (operations) => {
        const changed = operations.flatMap((each) => (each.key.startsWith("flow/") ? (change(each) ?? []) : [each]))
        return changed.length === 0 ? operations.map(() => "1") : store.write(changed)
      },
    }),
  }))

const text = new TextDecoder()

describe("a build is found that", MANY, () => {
  test.each<[fault: string, flow: string, more: More]>([
    ["answers before it has stored a step", "plain", { wrap: writing(() => undefined) }],
    [
      "writes over another writer",
      "plain",
      { freeze: true, wrap: writing(({ expect: _expect, ...operation }) => operation) },
    ],
    [
      "does not open the journal that it takes over",
      "plain",
      {
        freeze: true,
        wrap: writing((each) => (text.decode(each.value ?? undefined).includes('"open"') ? undefined : each)),
      },
    ],
    [
      "does not mark a job that has something to undo",
      "saga",
      {
        wrap: broken((driver) => ({
          commit: (commits) =>
            driver.commit(
              commits.map((commit) => {
                if (commit.record === undefined) return commit
                const json = text.decode(commit.record.bytes).replaceAll(',"reverts":true', "")
                return { ...commit, record: { ...commit.record, bytes: new TextEncoder().encode(json) } }
              }),
            ),
        })),
      },
    ],
  ])("%s", async (_fault, name, more) => {
    const whole = await crash(name)
    const ends = await crash(name, more)
    expect(faults([...whole.slice(0, 1), ...ends])).not.toEqual([])
  })
})
