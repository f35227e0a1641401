import { describe, expect, test } from "vitest"
import { cancelJob } from "../../../../../runtime/jobs/commands/cancel.ts"
import { patchMeta } from "../../../../../runtime/jobs/commands/meta.ts"
import { start, stored } from "./board.ts"

describe("meta", () => {
  const ended = async (meta: Readonly<Record<string, unknown>>) => {
    const client = await start()
    const { id } = await client.submit("echo", { meta, delay: 60 })
    await cancelJob(client.connection, id)
    return { client, id }
  }

  test("is changed by a merge patch: null removes, maps merge, everything else replaces", async () => {
    const { client, id } = await ended({ a: { b: 1, c: 2 }, d: [1, 2], e: "x" })
    await patchMeta(client.connection, id, { a: { b: null, f: { g: 3, h: null } }, d: [3], e: { i: 1 }, j: null })
    expect((await stored(client, id)).meta).toEqual({ a: { c: 2, f: { g: 3 } }, d: [3], e: { i: 1 } })
  })

  test("keys that JavaScript knows are keys", async () => {
    const { client, id } = await ended({})
    await patchMeta(client.connection, id, { constructor: { x: 1 } })
    await expect(patchMeta(client.connection, id, JSON.parse('{"__proto__": {"admin": true}}'))).rejects.toMatchObject({
      code: "invalid-input",
      message: expect.stringContaining("the key __proto__ is refused"),
    })
    expect((await stored(client, id)).meta).toHaveProperty(["constructor"], { x: 1 })
  })

  test("of a job that waits is changed, as often as one likes", async () => {
    const client = await start()
    const { id } = await client.submit("echo", { meta: { a: { b: 1 }, c: 1 }, delay: 60 })
    await patchMeta(client.connection, id, { a: { d: 2 } })
    await patchMeta(client.connection, id, { a: { b: null }, c: null })
    const record = await stored(client, id)
    expect(record).toMatchObject({ state: "scheduled", meta: { a: { d: 2 } } })
    expect(record.metaChange).toEqual({ about: "", patch: { a: { d: 2, b: null }, c: null } })
  })

  test("of a job that waits is refused where all changes together are too large, also if they only remove", async () => {
    const client = await start()
    const { id } = await client.submit("echo", { meta: { a: 1 }, delay: 60 })
    const removing = (from: number) =>
      Object.fromEntries(Array.from({ length: 4_000 }, (_, n) => [`key-${from + n}`, null]))
    await patchMeta(client.connection, id, removing(0))
    await expect(patchMeta(client.connection, id, removing(4_000))).rejects.toMatchObject({
      code: "invalid-input",
      message: expect.stringContaining("65536 are allowed"),
      details: { field: "meta", id },
    })
    expect(Object.keys((await stored(client, id)).metaChange?.patch ?? {})).toHaveLength(4_000)
    await patchMeta(client.connection, id, { a: 2 })
    expect((await stored(client, id)).meta).toEqual({ a: 2 })
  })

  test.each([
    [{ ["k".repeat(65_537)]: null }],
    [null],
    [[1]],
    ["text"],
    [new Date()],
    [{ big: 1n }],
    [{ large: "x".repeat(65_537) }],
  ])("%o is no change", async (patch) => {
    const { client, id } = await ended({ a: 1 })
    const refused = { code: "invalid-input", details: { field: "meta", id } }
    await expect(patchMeta(client.connection, id, patch)).rejects.toMatchObject(refused)
    expect((await stored(client, id)).meta).toEqual({ a: 1 })
  })
})
