/** The rules of the journal without I/O, and the journal over the memory store with writes that are cut, lost or late. */
import { describe, expect, test } from "vitest"
import { MemoryStore } from "../../../../plugins/memory/store.ts"
import { fold, keptEntries, outcomeFor, toRevert, unreverted } from "../../../../runtime/steps/fold.ts"
import { Journal } from "../../../../runtime/steps/journal.ts"
import {
  decodePage,
  EMPTY,
  type Entry,
  encodePage,
  endedPage,
  entriesText,
  fill,
  journalPrefix,
  LARGE,
  type Page,
  pageKey,
  waiting,
  writeOutcome,
} from "../../../../runtime/steps/page.ts"
import { type KeptRuns, keepAll, readJournal } from "../../../../runtime/steps/pages.ts"
import { TransportError } from "../../../../runtime/transport/errors.ts"
import type { Store } from "../../../../runtime/transport/store.ts"

const noted = { at: 1, took: 2, tries: 1 }
const ok = (step: string, more: object = {}): Entry => ({ kind: "ok", step, ...noted, value: step, ...more })
const failure = { names: ["Declined", "Error"], message: "no" }
const err = (step: string, retries = 0): Entry => ({ kind: "err", step, ...noted, failure, retries, revert: true })
const rev = (step: string): Entry => ({ kind: "reverted", step, ...noted })
const rer = (step: string): Entry => ({ kind: "revert-failed", step, ...noted, failure })
const open = (fence: string, claims = 1): Entry => ({ kind: "open", fence, at: 1, claims })
const to: Entry = { kind: "reverting", at: 1, ending: { why: "cancelled" } }
const reverting = { revert: true } as const

describe("what entries say", () => {
  test.each<[what: string, entries: ReadonlyArray<Entry>, name: string, retries: number, state: string | undefined]>([
    ["nothing", [], "a", 0, undefined],
    ["done", [ok("a")], "a", 0, "done"],
    ["done at an earlier try of the job", [ok("a")], "a", 3, "done"],
    ["failed", [err("a")], "a", 0, "failed"],
    ["failed at an earlier try of the job", [err("a", 0)], "a", 1, undefined],
    ["failed, then done", [err("a"), ok("a")], "a", 1, "done"],
    ["failed, and the flow is reverted at a later retry", [err("a"), to], "a", 1, "failed"],
    ["reverted", [ok("a", reverting), to, rev("a")], "a", 0, "reverted"],
    ["reverted, and it may have run", [to, rev("a")], "a", 0, undefined],
    ["no result", [ok("a", { value: undefined })], "a", 0, "done"],
  ])("%s", (_what, entries, name, retries, state) => {
    expect(outcomeFor(fold(entries), name, retries)?.state).toBe(state)
  })

  test.each<[entries: ReadonlyArray<Entry>, reached: ReadonlyArray<string>, order: ReadonlyArray<string>]>([
    [
      [ok("a"), ok("b"), err("c")],
      ["a", "b", "c"],
      ["c", "b", "a"],
    ],
    // The order of completion counts, not that of the code.
    [
      [ok("b"), ok("a")],
      ["a", "b"],
      ["a", "b"],
    ],
    // A step without an outcome may have run after all others; of two such the later one in the code is first.
    [[ok("a")], ["a", "x", "y"], ["y", "x", "a"]],
    [[ok("a"), ok("b"), to, rev("b")], ["a", "b"], ["a"]],
    [[ok("a"), to, rev("x")], ["x", "a"], ["a"]],
  ])("reverts %j", (entries, reached, order) => {
    expect(toRevert(fold(entries), reached)).toEqual(order)
  })

  test("what is left done, and the last claim that got on", () => {
    expect(unreverted(fold([ok("a", reverting), ok("b"), ok("c", reverting), to, rev("c")]))).toEqual(["a"])
    expect(fold([open("1", 4), ok("a"), open("2", 5), open("3", 6)])).toMatchObject({ claims: 4, opened: "3" })
  })

  test.each<[what: string, entries: ReadonlyArray<Entry>, left: ReadonlyArray<string>]>([
    ["that failed goes on with what is done", [open("1"), ok("a"), err("b")], ["ok"]],
    ["that was reverted begins anew", [ok("a", reverting), to, rev("a")], []],
    [
      "whose reverting was ended goes on reverting",
      [ok("a", reverting), ok("b", reverting), to, rev("b")],
      ["ok", "ok", "reverting", "reverted"],
    ],
    [
      "whose revert failed goes on reverting",
      [ok("a", reverting), ok("b", reverting), to, rev("b"), rer("a")],
      ["ok", "ok", "reverting", "reverted"],
    ],
  ])("a flow %s", (_what, entries, left) => {
    expect(keptEntries(entries).map(({ kind }) => kind)).toEqual(left)
  })

  test.each<[fromStep: string, left: ReadonlyArray<string>]>([
    // Its try has reverted it since, so that its result does not count.
    ["s#1/b", ["ok a"]],
    ["s#2/x", ["ok a", "ok s#1/x", "err s#1/b", "tried s#1", "reverted s#1/x"]],
    ["c", ["ok a", "ok s#1/x", "err s#1/b", "tried s#1", "reverted s#1/x", "ok s#2/x"]],
  ])("a flow from step %s, with a scope that was tried twice", (fromStep, left) => {
    const tried: Entry = { kind: "tried", step: "s#1", ...noted, failure, retries: 0 }
    const first = [ok("a"), ok("s#1/x", reverting), err("s#1/b"), tried, rev("s#1/x")]
    const kept = keptEntries([...first, ok("s#2/x", reverting), err("c")], fromStep)
    expect(kept.map((entry) => `${entry.kind} ${"step" in entry ? entry.step : ""}`)).toEqual(left)
  })
})

describe("pages", () => {
  const page = (by: string, n: number): Page => ({ v: 2, by, n, entries: [] })
  test.each<[found: Page | undefined, revision: string, judgement: string]>([
    [undefined, "", "again"],
    [undefined, "7", "superseded"],
    [page("me", 3), "7", "written"],
    [page("me", 2), "7", "again"],
    [page("other", 3), "7", "superseded"],
    [page("other", 1), "", "superseded"],
  ])("%j after a write over %j: %s", (found, revision, judgement) => {
    expect(writeOutcome(found, { by: "me", n: 3, revision })).toBe(judgement)
  })

  test("is sealed at 32 entries, or at 8 KiB", () => {
    const small = Array.from({ length: 40 }, (_, at) => waiting(ok(`s${at}`)))
    expect(fill(EMPTY, small)).toMatchObject({ taken: 32, sealed: true })
    expect(fill(EMPTY, small.slice(0, 31))).toMatchObject({ taken: 31, sealed: false })
    const large = [1, 2, 3, 4].map((each) => waiting(ok(`l${each}`, { value: "x".repeat(4_000) })))
    expect(fill(EMPTY, large)).toMatchObject({ taken: 3, sealed: true })
    expect(fill(fill(EMPTY, small.slice(0, 31)), large)).toMatchObject({ taken: 1, sealed: true })
  })

  test("has the version of those that know waits and scopes if it has one", () => {
    const noted = { step: "a", at: 1, took: 0, tries: 1 }
    const versionOf = (entry: Entry) => decodePage(encodePage({ by: "w", n: 1 }, entriesText([entry]))).v
    expect(versionOf({ kind: "ok", ...noted })).toBe(2)
    expect(versionOf({ kind: "wait", step: "a", at: 1 })).toBe(3)
    expect(versionOf({ kind: "tried", ...noted, failure: { names: ["Error"], message: "no" }, retries: 0 })).toBe(3)
  })

  test("is read as it was written, with any name, and another version is refused", () => {
    const entries = [ok('\u0001"\\\ud800'), open("ä"), ok("last")]
    const { text } = fill(EMPTY, entries.map(waiting))
    expect(text).toBe(entriesText(entries))
    expect(decodePage(encodePage({ by: "me", n: 1, sealed: true }, text))).toMatchObject({ sealed: true, entries })
    for (const v of [1, 4]) {
      const other = new TextEncoder().encode(`{"v":${v},"by":"x","entries":[]}`)
      expect(() => decodePage(other)).toThrow("does not have version 2 or 3")
      expect(() => endedPage(other)).toThrow("does not have version 2 or 3")
    }
  })
})

/** The memory store, whose writes can be cut: before (not stored), or after (stored, and the answer is lost). */
const cutStore = () => {
  const memory = new MemoryStore()
  let writes = 0
  let missed = 0
  let cut: { readonly at: number; readonly mode: "before" | "after"; readonly times: number } | undefined
  const store: Store = {
    get: async (keys) => {
      if (missed-- > 0) throw new TransportError("unavailable", "cut")
      return memory.get(keys)
    },
    list: async (range) => memory.list(range),
    now: async () => Date.now(),
    write: async (operations) => {
      const at = writes++
      const isCut = cut !== undefined && at >= cut.at && at < cut.at + cut.times
      const lost = new TransportError("unavailable", "cut", { outcome: "unknown" })
      if (isCut && cut?.mode === "before") throw lost
      const written = memory.write(operations)
      if (isCut) throw lost
      return written
    },
  }
  return {
    store,
    writes: () => writes,
    cut: (at: number, mode: "before" | "after", times = 1) => {
      cut = { at, mode, times }
    },
    /** The next reads fail. */
    miss: (times: number) => {
      missed = times
    },
  }
}

const journalOf = (
  store: Store,
  by: string,
  more: { readonly kept?: KeptRuns; readonly run?: number } = {},
  isEnded: (waits: number) => boolean = () => false,
) => {
  const closed: Array<string> = []
  let waits = 0
  const untilReachable = async () => {
    await new Promise((resolve) => setImmediate(resolve))
    return !isEnded(++waits)
  }
  const onClosed = (why: string) => closed.push(why)
  return Object.assign(new Journal({ store, id: "job/1", run: 1, by, fence: by, untilReachable, onClosed, ...more }), {
    why: closed,
  })
}
const stepsIn = async (store: Store, run = 1) =>
  (await readJournal(store, journalPrefix("job/1", run))).entries.flatMap((each) =>
    each.kind === "ok" ? [each.step] : [],
  )
const names = (from: number, to: number) => Array.from({ length: to - from }, (_, at) => `s${from + at}`)

describe("the journal", () => {
  test("notes what completes together in few writes, and reads it in order", async () => {
    const { store, writes } = cutStore()
    const journal = journalOf(store, "w1")
    await Promise.all(names(0, 100).map((name) => journal.append(ok(name))))
    expect(writes()).toBeLessThanOrEqual(6)
    for (const name of names(100, 140)) await journal.append(ok(name))
    expect(await stepsIn(store)).toEqual(names(0, 140))
  })

  test.each([
    [0, "before"],
    [0, "after"],
    [1, "before"],
    [1, "after"],
    [31, "after"],
    [32, "before"],
    [32, "after"],
  ] as const)("settles a lost answer of write %i (%s) by what is stored", async (at, mode) => {
    const { store, cut } = cutStore()
    cut(at, mode)
    const journal = journalOf(store, "w1")
    for (const name of names(0, 35)) await journal.append(ok(name))
    expect(await stepsIn(store)).toEqual(names(0, 35))
    expect(journal.why).toEqual([])
  })

  test.each(["before", "after"] as const)("waits for a store that stays away (%s)", async (mode) => {
    const { store, cut, miss } = cutStore()
    cut(1, mode, 50)
    miss(30)
    const journal = journalOf(store, "w1")
    for (const name of ["a", "b", "c"]) await journal.append(ok(name))
    expect(journal.why).toEqual([])
    expect(await stepsIn(store)).toEqual(["a", "b", "c"])
  })

  test("opens once the store is back", async () => {
    const { store, cut, miss } = cutStore()
    await journalOf(store, "w1").append(ok("a"))
    miss(30)
    cut(1, "after", 30)
    const journal = journalOf(store, "w2")
    await journal.open(1, 1)
    expect(journal.why).toEqual([])
    expect(journal.folded.steps.size).toBe(1)
  })

  test("is given up when its delivery is ended while the store is away", async () => {
    const { store, cut, miss } = cutStore()
    cut(1, "before", 50)
    const journal = journalOf(store, "w1", {}, (waits) => waits === 20)
    await journal.append(ok("a"))
    void journal.append(ok("b")).then(() => expect.unreachable())
    await expect.poll(() => journal.why).toEqual(["lost"])
    expect(await stepsIn(store)).toEqual(["a"])
    miss(50)
    const late = journalOf(store, "w2", {}, (waits) => waits === 20)
    await late.open(1, 1)
    expect(late.why).toEqual(["lost"])
  })

  test.each(["before", "after"] as const)("tries a large result again (%s), and reading it", async (mode) => {
    const { store, cut, miss } = cutStore()
    cut(0, mode, 2)
    const journal = journalOf(store, "w1")
    const value = "x".repeat(LARGE + 1)
    await journal.append(ok("large", { value }))
    const { large = "" } = journal.folded.steps.get("large") ?? {}
    miss(2)
    expect(JSON.parse(await journal.value(large))).toBe(value)
    expect(journal.why).toEqual([])
    miss(30)
    expect(JSON.parse(await journal.value(large))).toBe(value)
    const ended = journalOf(store, "w1", {}, () => true)
    miss(1)
    void ended.value(large).then(() => expect.unreachable())
    await expect.poll(() => ended.why).toEqual(["lost"])
  })

  test("is given up when its delivery is ended before a large result is stored", async () => {
    const { store, cut } = cutStore()
    cut(0, "before", 50)
    const journal = journalOf(store, "w1", {}, (waits) => waits === 20)
    void journal.append(ok("large", { value: "x".repeat(LARGE + 1) })).then(() => expect.unreachable())
    await expect.poll(() => journal.why).toEqual(["lost"])
    expect(await stepsIn(store)).toEqual([])
  })

  // The first writer freezes after some writes; the second one opens; the first wakes and writes.
  test.each([0, 1, 5, 31, 32, 33, 64])("a writer that was followed after %i writes is refused", async (count) => {
    const { store } = cutStore()
    const first = journalOf(store, "w1")
    for (const name of names(0, count)) await first.append(ok(name))
    const second = journalOf(store, "w2")
    await second.open(1, 1)
    expect(second.folded.steps.size).toBe(count)
    void first.append(ok("late")).then(() => expect.unreachable())
    await expect.poll(() => first.why).toEqual(["superseded"])
    await second.append(ok("next"))
    expect(await stepsIn(store)).toEqual([...names(0, count), "next"])
  })

  test("a lower fence that opens later gives up", async () => {
    const { store } = cutStore()
    await journalOf(store, "w2").open(1, 1)
    const first = journalOf(store, "w1")
    await first.open(1, 1)
    expect(first.why).toEqual(["superseded"])
  })

  test.each([
    [undefined, 80],
    ["bad", 80],
    ["s40", 40],
    ["large", undefined],
  ])("the next run copies what is kept, also where a copy was cut short, from step %s", async (step, until) => {
    const kept = { from: [1], fromStep: step === undefined ? undefined : { run: 1, step } }
    const counted = cutStore()
    const fillFirst = async ({ store }: ReturnType<typeof cutStore>) => {
      const first = journalOf(store, "w1")
      await first.append(ok("large", { value: "x".repeat(LARGE) }))
      for (const name of names(0, 80)) await first.append(ok(name))
      await first.append(err("bad"))
    }
    await fillFirst(counted)
    const before = counted.writes()
    await journalOf(counted.store, "w2", { run: 2, kept }).open(1, 1)
    for (let at = before; at < counted.writes(); at++) {
      const cut = cutStore()
      await fillFirst(cut)
      cut.cut(at, "before", 100)
      await journalOf(cut.store, "w2", { run: 2, kept }, (waits) => waits === 3).open(1, 1)
      cut.cut(0, "before", 0)
      const third = journalOf(cut.store, "w3", { run: 2, kept })
      await third.open(1, 1)
      expect(await stepsIn(cut.store, 2), `cut at ${at}`).toEqual(
        until === undefined ? [] : ["large", ...names(0, until)],
      )
      if (until === undefined) continue
      expect(await third.value(third.folded.steps.get("large")?.large ?? "")).toBe(JSON.stringify("x".repeat(LARGE)))
    }
  })

  test("gets a time to live once, and its first page stays for an hour at least", async () => {
    const { store, writes } = cutStore()
    const ttls: Array<number | undefined> = []
    const watched: Store = {
      ...store,
      write: async (operations) => {
        ttls.push(...operations.map(({ ttl }) => ttl))
        return store.write(operations)
      },
    }
    const small = journalOf(watched, "w1")
    await small.append(ok("a"))
    await small.keep(5_000)
    expect(ttls).toEqual([undefined, 3_600_000])
    for (let each = 0; each < 40; each++) await journalOf(watched, "w2", { run: 2 }).open(1, 1)
    const count = writes()
    await keepAll(watched, journalPrefix("job/1", 2), 7_200_000)
    await keepAll(watched, journalPrefix("job/1", 2), 7_200_000)
    expect(ttls.slice(count)).toEqual([7_200_000, 7_200_000])
    const [page] = await store.get([pageKey(journalPrefix("job/1", 2), 0)])
    expect(page && decodePage(page.value)).toMatchObject({ ended: true, sealed: true })
  })

  test.each([
    [63, 3],
    [70, 4],
  ])("of %i steps and a large one gets it for all %i keys, without a list", async (count, keys) => {
    const { store } = cutStore()
    const kept: Array<string> = []
    const watched: Store = {
      ...store,
      list: () => expect.unreachable(),
      write: async (operations) => {
        kept.push(...operations.filter(({ ttl }) => ttl !== undefined).map(({ key }) => key))
        return store.write(operations)
      },
    }
    const journal = journalOf(watched, "w1")
    for (const name of names(0, count)) await journal.append(ok(name))
    await journal.append(ok("large", { value: "x".repeat(LARGE) }))
    await journal.keep(5_000)
    const all = await store.list({ prefix: journalPrefix("job/1", 1), limit: 100 })
    expect(all).toHaveLength(keys)
    expect(kept).toEqual(all.map(({ key }) => key))
    expect((await readJournal(store, journalPrefix("job/1", 1))).entries).toHaveLength(count + 1)
  })
})
