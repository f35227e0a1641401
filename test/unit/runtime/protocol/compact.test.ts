import { expect, test } from "vitest"
import { compact, ifGiven, pick } from "../../../../runtime/protocol/compact.ts"
import { same } from "../../../support/same.ts"

test("a field without a value is absent; null, false, 0 and the empty text are values", () => {
  const fields = { id: "a", due: undefined, limit: null, front: false, run: 0, reason: "" }
  expect(Object.entries(compact(fields))).toEqual([
    ["id", "a"],
    ["limit", null],
    ["front", false],
    ["run", 0],
    ["reason", ""],
  ])
})

test("the type of a field that may be undefined is optional without it, and literals stay literals", () => {
  const due: number | undefined = Number("1") || undefined
  const kept = compact({ state: "queued", due, result: undefined as unknown })
  same<{ [Name in keyof typeof kept]: (typeof kept)[Name] }, { state: "queued"; due?: number; result?: unknown }>(true)
  expect(kept).toEqual({ state: "queued", due: 1 })
})

test("of the named fields those with a value are picked, in the order of the names", () => {
  const fields: { id: string; due?: number; run: number; fence: string } = { id: "a", run: 0, fence: "f" }
  const picked = pick(fields, ["run", "due", "id"])
  expect(Object.entries(picked)).toEqual([
    ["run", 0],
    ["id", "a"],
  ])
  same<{ [Name in keyof typeof picked]: (typeof picked)[Name] }, { run: number; id: string; due?: number }>(true)
})

test("nothing is made of what is not given; of null, false, 0 and the empty text something is", () => {
  expect([undefined, null, false, 0, ""].map((value) => ifGiven(value, JSON.stringify))).toEqual([
    undefined,
    "null",
    "false",
    "0",
    '""',
  ])
})
