/** The store: values under keys, with revisions; a write does all of its operations or none. */
import { Buffer } from "node:buffer"
import type { Entry, StoreOperation } from "../../../../runtime/transport/store.ts"
import { between, check, equal, refuses } from "../../check.ts"
import { present } from "../../peer.ts"
import { type DriverCase, part } from "../case.ts"
import { size, sleep } from "../context.ts"
import { bytes, text } from "../task.ts"

const group = "store"

const keys = (entries: ReadonlyArray<Entry>): ReadonlyArray<string> => entries.map(({ key }) => key)
const value = (key: string): StoreOperation => ({ key, value: bytes(key) })
const byBytes = (a: string, b: string): number => Buffer.compare(bytes(a), bytes(b))

/** Whether the first revision is lower: by length, then as text. */
const rises = (first: string, second: string): boolean =>
  first.length < second.length || (first.length === second.length && first < second)

export const storeCases: ReadonlyArray<DriverCase> = [
  {
    group,
    name: "a value comes back byte for byte, until it is removed",
    async run({ peer, elsewhere }) {
      const other = await elsewhere()
      equal(await peer.get("a"), undefined, "value of a key that was never written")
      for (const value of [Uint8Array.from({ length: 256 }, (_, at) => at), new Uint8Array(0)]) {
        const [revision] = await peer.written({ key: "a", value })
        equal(await other.get("a"), { key: "a", value, revision }, "entry, from another connection")
      }
      equal(await peer.written({ key: "a", value: null }), [""], "revisions of removing")
      equal(await peer.get("a"), undefined, "value after removing")
      equal(await peer.written({ key: "a", value: null }), [""], "revisions of removing what is not there")
    },
  },
  {
    group,
    name: "several keys are answered in the order in which they were asked for, also absent ones",
    async run({ peer, within }) {
      await peer.written(value("b"), value("a"))
      const found = await within("values", peer.store.get(["a", "none", "b", "a"]))
      equal(
        found.map((entry) => text(entry?.value)),
        ["a", undefined, "b", "a"],
        "values",
      )
      equal(await within("values", peer.store.get([])), [], "values when nothing is asked for")
    },
  },
  {
    group,
    name: "each write has a revision of its own, told in the answer",
    async run({ peer }) {
      const seen = new Set<string>()
      for (let at = 0; at < 5; at++) {
        const [revision = ""] = await peer.written({ key: "a", value: bytes("same") })
        equal((await peer.get("a"))?.revision, revision, "revision that is read")
        equal((await peer.get("a"))?.revision, revision, "revision when nothing was written")
        seen.add(revision)
        if (at === 2) await peer.written({ key: "a", value: null })
      }
      equal(seen.size, 5, "number of revisions of five writes")
    },
  },
  {
    group,
    name: "what was written later has the higher revision, whatever the key and connection",
    async run({ peer, elsewhere }) {
      const other = await elsewhere()
      let last = ""
      // Enough writes for the revision to get one more digit.
      for (let at = 0; at < 120; at++) {
        const [revision = ""] = await (at % 2 === 0 ? peer : other).written(value(`key ${at % 7}`))
        check(rises(last, revision), `revision ${at + 1} must be above "${last}": "${revision}"`)
        last = revision
      }
    },
  },
  {
    group,
    name: "an expectation that does not hold is a conflict and writes nothing",
    async run({ peer }) {
      const write = (text: string, expect: string) => peer.write({ key: "a", value: bytes(text), expect })
      const [first = ""] = await peer.written({ key: "a", value: bytes("1"), expect: "" })
      equal(await write("2", ""), "conflict", "making it again")
      await peer.written({ key: "a", value: bytes("3"), expect: first })
      equal(await write("4", first), "conflict", "changing what has changed")
      equal(await peer.write({ key: "a", value: null, expect: first }), "conflict", "removing what has changed")
      equal(text((await peer.get("a"))?.value), "3", "value")
      await peer.written({ key: "a", value: null })
      equal(await write("5", first), "conflict", "changing what was removed")
      await peer.written({ key: "a", value: bytes("6"), expect: "" })
      equal(await write("7", first), "conflict", "an old revision, come back")
      equal(text((await peer.get("a"))?.value), "6", "value")
    },
  },
  {
    group,
    name: "an operation without a value only checks: it writes nothing, and stops the others if it does not hold",
    async run({ peer }) {
      const [revision = ""] = await peer.written(value("checked"))
      const answer = await peer.written(
        { key: "checked", expect: revision },
        { key: "absent", expect: "" },
        value("written"),
      )
      equal([answer[0], answer[1], answer[2] !== ""], ["", "", true], "revisions: only of what was written")
      equal(await peer.get("checked"), { key: "checked", value: bytes("checked"), revision }, "entry that was checked")
      equal(await peer.get("absent"), undefined, "value of the key that had to be absent")
      for (const check of [
        { key: "checked", expect: `${revision}0` },
        { key: "checked", expect: "" },
        { key: "absent", expect: revision },
      ]) {
        equal(
          await peer.write({ key: "written", value: bytes("late") }, check),
          "conflict",
          "a check that does not hold",
        )
      }
      equal(text((await peer.get("written"))?.value), "written", "value beside the checks that did not hold")
    },
  },
  {
    group,
    name: "a write is done as a whole or not at all",
    async run({ peer }) {
      await peer.written({ key: "b", value: bytes("old") }, { key: "d", value: bytes("old") })
      const answer = await peer.write(
        { key: "a", value: bytes("new") },
        { key: "b", value: bytes("new") },
        { key: "c", value: bytes("new"), expect: "9" },
        { key: "d", value: null },
      )
      equal(answer, "conflict", "answer")
      const entries = await peer.list()
      equal(
        entries.map((each) => `${each.key}=${text(each.value)}`),
        ["b=old", "d=old"],
        "what is stored",
      )
      await peer.written(...["a", "b", "c", "d"].map(value))
      equal(keys(await peer.list()), ["a", "b", "c", "d"], "keys")
    },
  },
  {
    group,
    name: "a write does as many operations as it is given, and compares as many expectations",
    async run({ peer }) {
      const many = size(200, 1_000)
      const operations = Array.from({ length: many }, (_, at) => ({ ...value(`many/${at}`), expect: "" }))
      await peer.written(...operations)
      equal((await peer.list({ prefix: "many/", limit: 2 * many })).length, many, "values that are there")
      const again = operations.slice(1).map(({ key }) => value(`other/${key}`))
      equal(await peer.write(...again, ...operations.slice(-1)), "conflict", "a write whose last expectation fails")
      equal(await peer.list({ prefix: "other/" }), [], "values of the write that was a conflict")
    },
  },
  {
    group,
    name: "of two operations on one key the later one counts, and both expect what was there before",
    async run({ peer }) {
      const revisions = await peer.written(
        { key: "a", value: bytes("1"), expect: "" },
        value("b"),
        { key: "a", value: bytes("2"), expect: "" },
        { key: "b", value: null },
      )
      equal(await peer.get("a"), { key: "a", value: bytes("2"), revision: revisions[2] }, "entry")
      equal(await peer.get("b"), undefined, "value that was written and removed")
    },
  },
  {
    group,
    name: "of writes that expect the same, one is written",
    async run({ peer, elsewhere, within }) {
      const stores = [peer.store, (await elsewhere()).store]
      await peer.written({ key: "count", value: bytes("0") })
      let written = 0
      const counting = Array.from({ length: 6 }, async (_, at) => {
        const store = present(stores[at % 2], "a store")
        for (let round = 0; round < 8; round++) {
          const [entry] = await store.get(["count"])
          const { value, revision: expect } = present(entry, "a count")
          const next = bytes(String(Number(text(value)) + 1))
          if ((await store.write([{ key: "count", value: next, expect }])) !== "conflict") written++
        }
      })
      await within("increments", Promise.all(counting))
      equal(Number(text((await peer.get("count"))?.value)), written, "the count, beside the writes that were answered")
      check(written >= 8, `some must be written: ${written}`)
    },
  },
  {
    group,
    name: "a value is gone after its time to live, and not before; a write without one keeps it",
    async run({ peer, tolerance, until, slack, inTime, timed }) {
      const start = Date.now()
      const took = timed()
      const of = (key: string, ttl?: number) => ({ ...value(key), ...(ttl === undefined ? {} : { ttl }) })
      await peer.written(of("brief", 1_000), of("long", 60_000), of("renewed", 1_000))
      await inTime(start + 1_000 - tolerance, async () => {
        await peer.written(of("renewed"))
        check((await peer.get("brief")) !== undefined, "a value must be there during its time to live")
      })
      await until("the end of a value", async () => (await peer.get("brief")) === undefined)
      // A broker that counts in whole seconds may be two seconds late.
      took(1_000 - tolerance, 2_500 + slack, "milliseconds that a value lived")
      equal(keys(await peer.list()), ["long", "renewed"], "keys that are left")
      await peer.written({ ...value("brief"), expect: "" })
    },
  },
  {
    group,
    name: "keys are listed in the order of their bytes",
    async run({ peer }) {
      const names = ["A", "B", "Z", "_", "a", "a ", "a.", "a.b", "a/b", "aa", "ab", "b", "é", "€", "\ue000", "ﬀ", "😀"]
      const sorted = [...names].sort(byBytes)
      await peer.written(...[...names].reverse().map(value))
      const entries = await peer.list()
      equal(keys(entries), sorted, "order")
      for (const each of entries) equal(text(each.value), each.key, `value of ${each.key}`)
      equal(keys(await peer.list({ reverse: true })), [...sorted].reverse(), "reverse order")
    },
  },
  {
    group,
    name: "keys and prefixes are taken literally, whatever they hold",
    async run({ peer }) {
      const prefixes = ["*", ">", ".", "..", "%", "_", "\\", "[a]", "?", " ", "$", "a*", "a.", "a.*", "a.>", "a%", "a_"]
      prefixes.push("'", '"', "é", "\n")
      const decoys = ["ax", "a", "ab.c", "xyz", "é".normalize("NFD"), "__proto__", "constructor"]
      const all = [...new Set([...prefixes.flatMap((each) => [each, `${each}1`, `${each}/2`]), ...decoys])]
      await peer.written(...all.map(value))
      for (const prefix of [...prefixes, ...decoys]) {
        const expected = all.filter((key) => key.startsWith(prefix)).sort(byBytes)
        equal(keys(await peer.list({ prefix, limit: 200 })), expected, `keys under ${JSON.stringify(prefix)}`)
        equal(text((await peer.get(prefix))?.value), prefix, `value of ${JSON.stringify(prefix)}`)
      }
    },
  },
  {
    group,
    name: "a list begins after a key and ends at its limit, in either direction",
    async run({ peer }) {
      await peer.written(...["a", "p.1", "p.2", "p.3", "p.4", "z"].map(value))
      const list = async (options: { after?: string; limit: number; reverse?: boolean }) =>
        keys(await peer.list({ prefix: "p.", ...options }))
      equal(await list({ limit: 2 }), ["p.1", "p.2"], "the first two")
      equal(await list({ limit: 2, after: "p.2" }), ["p.3", "p.4"], "two after p.2")
      equal(await list({ limit: 9, after: "p.25" }), ["p.3", "p.4"], "after a key that is not there")
      equal(await list({ limit: 9, after: "p.4" }), [], "after the last")
      equal(await list({ limit: 9, after: "a" }), ["p.1", "p.2", "p.3", "p.4"], "after a key before the prefix")
      equal(await list({ limit: 2, reverse: true }), ["p.4", "p.3"], "the last two")
      equal(await list({ limit: 2, after: "p.3", reverse: true }), ["p.2", "p.1"], "two before p.3")
      equal(await list({ limit: 9, after: "p.1", reverse: true }), [], "before the first")
    },
  },
  {
    group,
    name: "changes under a prefix reach those who watch it, from any connection, until they stop",
    needs: [part("watch")],
    async run({ peer, elsewhere, until, within }) {
      const other = await elsewhere()
      const heard: Array<string> = []
      const late: Array<string> = []
      const stop = new AbortController()
      await peer.written({ key: "p.before", value: bytes("0") })
      const note =
        (list: Array<string>) =>
        ({ key, value }: { readonly key: string; readonly value?: Uint8Array }): void =>
          void list.push(`${key}=${text(value) ?? "(none)"}`)
      const watch = async (list: Array<string>, signal: AbortSignal) =>
        within("a watch", peer.store.watch?.("p.", note(list), signal) ?? Promise.resolve())
      await watch(heard, new AbortController().signal)
      await watch(late, stop.signal)
      stop.abort()
      await other.written({ key: "p.a", value: bytes("1") })
      await until("news of a value", async () => heard.includes("p.a=1"))
      await other.written(value("q.b"), value("px"))
      await peer.written({ key: "p.c", value: bytes("3"), ttl: 1_000 }, { key: "p.a", value: null })
      await until("news of a removal", async () => heard.includes("p.a=(none)") && heard.includes("p.c=3"))
      await until("news of the end of a value", async () => heard.includes("p.c=(none)"))
      check(
        heard.every((each) => each.startsWith("p.")),
        `nothing else may be heard: ${heard.join(" ")}`,
      )
      check(!heard.includes("p.before=0"), "what was written before must not be heard")
      equal(late, [], "what was heard after the signal")
    },
  },
  {
    group,
    name: "keys have 1 to 512 bytes",
    async run({ peer, within }) {
      const longest = "é".repeat(256)
      await peer.written(value(longest))
      equal(text((await peer.get(longest))?.value), longest, "value of a key of 512 bytes")
      for (const key of ["", `${longest}x`]) {
        const writing = peer.write({ key, value: bytes("x") })
        await within("a refusal", refuses(writing, "invalid", `a key of ${bytes(key).length} bytes`))
      }
    },
  },
  {
    group,
    name: "a value that is too large is refused with all that is written beside it, and others are not",
    async run({ peer, within, harness }) {
      const big = { key: "big", value: new Uint8Array(harness.capabilities.maxRecord + 1) }
      const writing = peer.write(value("beside"), big)
      await within("a refusal", refuses(writing, "too-large", "a value over maxRecord"))
      await peer.written(value("small"))
      equal(keys(await peer.list()), ["small"], "keys")
    },
  },
  {
    group,
    name: "what the caller changes afterwards does not reach the store",
    async run({ peer }) {
      const kept = bytes("kept")
      await peer.written({ key: "a", value: kept })
      kept.fill(0)
      const read = present(await peer.get("a"), "a value")
      equal(text(read.value), "kept", "value after its writer changed it")
      read.value.fill(0)
      equal(text((await peer.get("a"))?.value), "kept", "value after a reader changed it")
    },
  },
  {
    group,
    name: "a read sees every write that was answered before it began, by any connection",
    async run({ peer, elsewhere }) {
      const other = await elsewhere()
      for (let round = 0; round < 40; round++) {
        const [writer, reader] = round % 2 === 0 ? [peer, other] : [other, peer]
        await writer.written({ key: "a", value: bytes(String(round)) })
        const entry = round % 4 < 2 ? await reader.get("a") : (await reader.list({ prefix: "a" }))[0]
        equal(text(entry?.value), String(round), `value in round ${round}`)
      }
    },
  },
  {
    group,
    name: "the clock goes forward, near our own",
    async run({ peer, within }) {
      let last = 0
      for (let at = 0; at < 5; at++) {
        const now = await within("the time", peer.store.now())
        check(now >= last, `the clock must not go back: ${last}, then ${now}`)
        last = now
        await sleep(5)
      }
      between(last - Date.now(), -600_000, 600_000, "milliseconds that the clocks are apart")
    },
  },
  {
    group,
    name: "namespaces are apart",
    async run({ peer, another, namespace, harness }) {
      const other = await another(`${namespace}-2`)
      await peer.written(value("a"))
      equal(await other.get("a"), undefined, "value in another namespace")
      equal(keys(await other.list()), [], "keys in another namespace")
      await harness.clean?.(`${namespace}-2`)
    },
  },
]
