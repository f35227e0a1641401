/** The store: keyed values with revisions, in byte order. */
import { Buffer } from "node:buffer"
import type { Entry, StoreOperation } from "../../../runtime/transport/lift/transport.ts"
import { type Case, part } from "../case.ts"
import { between, check, equal, refuses } from "../check.ts"
import { type Context, sleep } from "../context.ts"
import { present } from "../peer.ts"

const group = "store"
const needs = [part("store")]

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)
const text = (entry: Pick<Entry, "value"> | undefined): string | undefined =>
  entry && new TextDecoder().decode(entry.value)
const keys = (entries: ReadonlyArray<Entry>): ReadonlyArray<string> => entries.map(({ key }) => key)

const write = async ({ peer, within }: Context, ...operations: ReadonlyArray<StoreOperation>): Promise<string> =>
  within("a write to the store", peer.store.write(operations))

const get = async ({ peer, within }: Context, key: string): Promise<Entry | undefined> =>
  within(`the value of ${key.slice(0, 40)}`, peer.store.get(key))

export const storeCases: ReadonlyArray<Case> = [
  {
    group,
    name: "a value comes back byte for byte, until it is removed",
    needs,
    async run(context) {
      const store = (await context.elsewhere()).store
      equal(await get(context, "a"), undefined, "value of a key that was never written")
      for (const value of [Uint8Array.from({ length: 256 }, (_, at) => at), new Uint8Array(0)]) {
        equal(await write(context, { key: "a", value }), "written", "answer")
        equal((await store.get("a"))?.value, value, "value, from another connection")
      }
      equal(await write(context, { key: "a" }), "written", "answer to removing")
      equal(await get(context, "a"), undefined, "value after removing")
      equal(await write(context, { key: "a" }), "written", "answer to removing what is not there")
    },
  },
  {
    group,
    name: "each write has a revision of its own",
    needs,
    async run(context) {
      const seen = new Set<string>()
      for (let at = 0; at < 5; at++) {
        await write(context, { key: "a", value: bytes("same") })
        seen.add(present(await get(context, "a"), "a value").revision)
        if (at === 2) await write(context, { key: "a" })
      }
      equal(seen.size, 5, "number of revisions of five writes")
      const { revision } = present(await get(context, "a"), "a value")
      equal(present(await get(context, "a"), "a value").revision, revision, "revision when nothing was written")
    },
  },
  {
    group,
    name: "an expectation that does not hold is a conflict and writes nothing",
    needs,
    async run(context) {
      equal(await write(context, { key: "a", value: bytes("1"), expect: "absent" }), "written", "making it")
      equal(await write(context, { key: "a", value: bytes("2"), expect: "absent" }), "conflict", "making it again")
      const old = { revision: present(await get(context, "a"), "a value").revision }
      equal(await write(context, { key: "a", value: bytes("3"), expect: old }), "written", "changing it")
      equal(await write(context, { key: "a", value: bytes("4"), expect: old }), "conflict", "changing what has changed")
      equal(await write(context, { key: "a", expect: old }), "conflict", "removing what has changed")
      equal(text(await get(context, "a")), "3", "value")
      await write(context, { key: "a" })
      equal(await write(context, { key: "a", value: bytes("5"), expect: old }), "conflict", "changing what was removed")
      equal(await write(context, { key: "a", value: bytes("6"), expect: "absent" }), "written", "making it anew")
      equal(
        await write(context, { key: "a", value: bytes("7"), expect: old }),
        "conflict",
        "an old revision, come back",
      )
      equal(text(await get(context, "a")), "6", "value")
    },
  },
  {
    group,
    name: "a write is done as a whole or not at all",
    needs,
    async run(context) {
      await write(context, { key: "b", value: bytes("old") }, { key: "d", value: bytes("old") })
      const answer = await write(
        context,
        { key: "a", value: bytes("new") },
        { key: "b", value: bytes("new") },
        { key: "c", value: bytes("new"), expect: { revision: "never" } },
        { key: "d" },
      )
      equal(answer, "conflict", "answer")
      const entries = await context.within("a list", context.peer.store.list({ prefix: "", limit: 10 }))
      equal(
        entries.map((each) => `${each.key}=${text(each)}`),
        ["b=old", "d=old"],
        "what is stored",
      )
      const all = ["a", "b", "c", "d"].map((key) => ({ key, value: bytes("new") }))
      equal(await write(context, ...all), "written", "answer to a write without expectations")
      equal(await context.within("a count", context.peer.store.count("")), 4, "number of keys")
    },
  },
  {
    group,
    name: "of writes that expect the same, one is written",
    needs,
    async run(context) {
      const { peer, elsewhere } = context
      const stores = [peer.store, (await elsewhere()).store]
      await write(context, { key: "count", value: bytes("0") })
      let written = 0
      const counting = Array.from({ length: 6 }, async (_, at) => {
        const store = present(stores[at % 2], "a store")
        for (let round = 0; round < 8; round++) {
          const { value, revision } = present(await store.get("count"), "a count")
          const next = bytes(String(Number(text({ value })) + 1))
          if ((await store.write([{ key: "count", value: next, expect: { revision } }])) === "written") written++
        }
      })
      await context.within("increments", Promise.all(counting))
      equal(Number(text(await get(context, "count"))), written, "the count, beside the writes that were told written")
      check(written >= 8, `some must be written: ${written}`)
    },
  },
  {
    group,
    name: "a value is gone after its time to live, and not before",
    needs,
    async run(context) {
      const { tolerance, until, peer, slack } = context
      const start = Date.now()
      await write(
        context,
        { key: "brief", value: bytes("x"), ttl: 1_000 },
        { key: "long", value: bytes("x"), ttl: 60_000 },
      )
      await write(context, { key: "renewed", value: bytes("x"), ttl: 1_000 })
      await write(context, { key: "renewed", value: bytes("kept") })
      check((await get(context, "brief")) !== undefined, "a value must be there during its time to live")
      await until("the end of a value", async () => (await get(context, "brief")) === undefined)
      // Brokers that count in whole seconds may take two.
      between(Date.now() - start, 1_000 - tolerance, 2_500 + slack, "milliseconds that a value lived")
      equal(keys(await peer.store.list({ prefix: "", limit: 10 })), ["long", "renewed"], "keys that are left")
      equal(await peer.store.count(""), 2, "number of keys that are left")
      equal(await write(context, { key: "brief", value: bytes("y"), expect: "absent" }), "written", "making it anew")
    },
  },
  {
    group,
    name: "keys are listed in the order of their bytes",
    needs,
    async run(context) {
      const { peer, within } = context
      const names = [
        "A",
        "B",
        "Z",
        "_",
        "a",
        "a ",
        "a.",
        "a.b",
        "a/b",
        "aa",
        "ab",
        "b",
        "é",
        "€",
        "\ue000",
        "ﬀ",
        "😀",
        "🙈",
      ]
      const sorted = [...names].sort((a, b) => Buffer.compare(bytes(a), bytes(b)))
      await write(context, ...[...names].reverse().map((key) => ({ key, value: bytes(key) })))
      const entries = await within("a list", peer.store.list({ prefix: "", limit: 100 }))
      equal(keys(entries), sorted, "order")
      for (const each of entries) equal(text(each), each.key, `value of ${each.key}`)
      const reverse = await within("a list", peer.store.list({ prefix: "", limit: 100, reverse: true }))
      equal(keys(reverse), [...sorted].reverse(), "reverse order")
    },
  },
  {
    group,
    name: "keys and prefixes are taken literally, whatever they hold",
    needs,
    async run(context) {
      const { peer, within } = context
      const prefixes = [
        "*",
        ">",
        ".",
        "..",
        "%",
        "_",
        "\\",
        "[a]",
        "?",
        " ",
        "$",
        "a*",
        "a.",
        "a.*",
        "a.>",
        "a%",
        "a_",
        "'",
        '"',
        "é",
        "\n",
      ]
      const decoys = ["ax", "a", "ab.c", "xyz", "é".normalize("NFD"), "__proto__", "constructor"]
      const all = [...new Set([...prefixes.flatMap((each) => [each, `${each}1`, `${each}/2`]), ...decoys])]
      await write(context, ...all.map((key) => ({ key, value: bytes(key) })))
      for (const prefix of [...prefixes, ...decoys]) {
        const expected = all.filter((key) => key.startsWith(prefix)).sort((a, b) => Buffer.compare(bytes(a), bytes(b)))
        const entries = await within("a list", peer.store.list({ prefix, limit: 200 }))
        equal(keys(entries), expected, `keys under ${JSON.stringify(prefix)}`)
        equal(
          await within("a count", peer.store.count(prefix)),
          expected.length,
          `count under ${JSON.stringify(prefix)}`,
        )
        equal(text(await get(context, prefix)), prefix, `value of ${JSON.stringify(prefix)}`)
      }
    },
  },
  {
    group,
    name: "a list begins after a key and ends at its limit, in either direction",
    needs,
    async run(context) {
      const { peer, within } = context
      const names = ["a", "p.1", "p.2", "p.3", "p.4", "z"]
      await write(context, ...names.map((key) => ({ key, value: bytes(key) })))
      const list = async (options: {
        after?: string
        limit: number
        reverse?: boolean
      }): Promise<ReadonlyArray<string>> => keys(await within("a list", peer.store.list({ prefix: "p.", ...options })))
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
    needs,
    async run(context) {
      const { peer, elsewhere, until, within } = context
      const other = (await elsewhere()).store
      const heard: Array<string> = []
      const late: Array<string> = []
      const stop = new AbortController()
      await write(context, { key: "p.before", value: bytes("0") })
      const note =
        (list: Array<string>) =>
        ({ key, value }: { readonly key: string; readonly value?: Uint8Array }): void =>
          void list.push(`${key}=${value === undefined ? "(none)" : text({ value })}`)
      await within("a watch", peer.store.watch("p.", note(heard), new AbortController().signal))
      await within("a watch", peer.store.watch("p.", note(late), stop.signal))
      stop.abort()
      await sleep(50)
      await other.write([{ key: "p.a", value: bytes("1") }])
      await until("news of a value", async () => heard.includes("p.a=1"))
      await other.write([
        { key: "q.b", value: bytes("2") },
        { key: "px", value: bytes("2") },
      ])
      await peer.store.write([{ key: "p.c", value: bytes("3"), ttl: 1_000 }, { key: "p.a" }])
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
    needs,
    async run(context) {
      const { peer, within } = context
      const longest = "é".repeat(256)
      equal(await write(context, { key: longest, value: bytes("x") }), "written", "answer to a key of 512 bytes")
      equal(text(await get(context, longest)), "x", "its value")
      for (const key of ["", `${longest}x`]) {
        const writing = peer.store.write([{ key, value: bytes("x") }])
        await within("a refusal", refuses(writing, "invalid", `a key of ${bytes(key).length} bytes`))
      }
    },
  },
  {
    group,
    name: "a value that is too large is refused, and others are not",
    needs,
    async run(context) {
      const { peer, within, harness } = context
      const value = new Uint8Array(harness.capabilities.maxRecord + 1)
      await within(
        "a refusal",
        refuses(peer.store.write([{ key: "big", value }]), "too-large", "a value over maxRecord"),
      )
      equal(await write(context, { key: "small", value: bytes("x") }), "written", "answer to a small one")
      equal(keys(await peer.store.list({ prefix: "", limit: 10 })), ["small"], "keys")
    },
  },
  {
    group,
    name: "what the caller changes afterwards does not reach the store",
    needs,
    async run(context) {
      const value = bytes("kept")
      await write(context, { key: "a", value })
      value.fill(0)
      const read = present(await get(context, "a"), "a value")
      equal(text(read), "kept", "value after its writer changed it")
      read.value.fill(0)
      equal(text(await get(context, "a")), "kept", "value after a reader changed it")
    },
  },
  {
    group,
    name: "the clock goes forward, near our own",
    needs,
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
    needs,
    async run(context) {
      const { another, namespace, harness, within } = context
      const other = (await another(`${namespace}-2`)).store
      await write(context, { key: "a", value: bytes("x") })
      equal(await within("a value", other.get("a")), undefined, "value in another namespace")
      equal(await within("a count", other.count("")), 0, "number of keys in another namespace")
      await harness.clean?.(`${namespace}-2`)
    },
  },
]
