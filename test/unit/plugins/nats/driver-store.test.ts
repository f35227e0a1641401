/** The nats driver by itself: the values of its store. */
import { connect as dial, headers } from "nats"
import { describe, expect, test } from "vitest"
import { Names } from "../../../../plugins/nats/mod.ts"
import type { Driver } from "../../../../runtime/transport/driver.ts"
import { bytesOf, closing, driversOnNats, textOf } from "./drivers.ts"

const nats = driversOnNats()
const { direct } = nats

describe("the store", () => {
  test("checks what it does not write, and tells the revisions of what it writes", async () => {
    const { store: values } = await direct()
    const [one] = await written(values.write([{ key: "a", value: bytesOf("1"), expect: "" }]))
    const revisions = await written(
      values.write([
        { key: "b", value: bytesOf("2") },
        { key: "a", expect: one ?? "" },
        { key: "c", expect: "" },
      ]),
    )
    expect(revisions).toEqual([expect.stringMatching(/^\d+$/), "", ""])
    const [a, b, c] = await values.get(["a", "b", "c"])
    expect([a?.revision, b?.revision, c]).toEqual([one, revisions[0], undefined])
    expect(Number(b?.revision)).toBeGreaterThan(Number(one))
    expect(
      await values.write([
        { key: "b", value: null },
        { key: "a", expect: "7" },
      ]),
    ).toBe("conflict")
    expect(
      await values.write([
        { key: "b", value: null },
        { key: "c", expect: one ?? "" },
      ]),
    ).toBe("conflict")
    expect(await values.write([{ key: "a", expect: one ?? "" }])).toEqual([""])
    expect(await values.write([{ key: "a", expect: "" }])).toBe("conflict")
    expect(await values.write([{ key: "b", value: null, expect: b?.revision ?? "" }])).toEqual([""])
    expect((await values.list({ prefix: "", limit: 10 })).map(({ key }) => key)).toEqual(["a"])
  })

  test("lists the same in one answer, in pages, and where there is more than one answer may hold", async () => {
    const { store: values } = await direct()
    const put = (keys: ReadonlyArray<string>) => values.write(keys.map((key) => ({ key, value: bytesOf(key) })))
    const few = ["p/", "p/b", "p/a", "p/\u{1f600}", "p/\uffee", "p/a/1", "p/é"]
    await put([...few, "p", "pa", "q/a"])
    await values.write([{ key: "p/b", value: null }])
    const many = Array.from({ length: 1_100 }, (_, at) => `m/${at}`)
    for (let from = 0; from < many.length; from += 550) await put(many.slice(from, from + 550))
    const inBytes = (a: string, b: string) => Buffer.compare(Buffer.from(a), Buffer.from(b))
    for (const [prefix, expected] of [
      ["p/", few.filter((key) => key !== "p/b")],
      ["p/a", ["p/a", "p/a/1"]],
      ["m/", many],
      ["none/", []],
    ] as const) {
      const keys = [...expected].sort(inBytes)
      for (const limit of [100, 256, 2_000]) {
        const listed = await values.list({ prefix, limit })
        expect(listed.map(({ key }) => key)).toEqual(keys.slice(0, limit))
        expect(listed.map(({ value }) => textOf(value))).toEqual(keys.slice(0, limit))
        const last = await values.list({ prefix, limit, reverse: true })
        expect(last.map(({ key }) => key)).toEqual(keys.toReversed().slice(0, limit))
      }
    }
  })

  const written = async (writing: ReturnType<Driver["store"]["write"]>): Promise<ReadonlyArray<string>> => {
    const answer = await writing
    if (answer === "conflict") throw new Error("it must be written")
    return answer
  }
})

test("values that expired long ago, and that the server has kept, are swept", async () => {
  const driver = await direct()
  await using client = closing(await dial({ servers: nats.server.url }))
  const names = new Names(nats.namespace)
  const put = async (key: string, until: number | undefined): Promise<void> => {
    const header = headers()
    if (until !== undefined) header.set("Callboard-Until", String(until))
    await client.jetstream().publish(names.value(key), bytesOf(key), { headers: header })
  }
  const now = await driver.store.now()
  // The values have no time to live on the server, as if the server had forgotten it.
  for (let count = 0; count < 300; count++) await put(`old/${count}`, now - 3_600_000)
  await put("just-expired", now - 1_000)
  await put("alive", now + 3_600_000)
  await put("for-ever", undefined)
  const kept = async () => {
    const { state } = await (await client.jetstreamManager()).streams.info(names.storeStream, { subjects_filter: ">" })
    return Object.keys(state.subjects ?? {}).map((subject) => names.key(subject))
  }
  for (let round = 0; round < 2; round++) await driver.orphans?.(0, 10)
  expect((await kept()).sort()).toEqual(["alive", "for-ever", "just-expired"])
  expect((await driver.store.list({ prefix: "", limit: 10 })).map(({ key }) => key)).toEqual(["alive", "for-ever"])
})
