/** The fields of the `callboard` header: those of the code are those of the page, and unknown ones travel on. */
import { readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { describe, expect, test } from "vitest"
import { HeaderProblem } from "../../../../runtime/protocol/header-field.ts"
import { FIELDS, notUnderstoodIn, ownOf } from "../../../../runtime/protocol/own-headers.ts"

const page = readFileSync(fileURLToPath(new URL("../../../../docs/protocol.md", import.meta.url)), "utf8")

const own = (value: unknown) => {
  const read = ownOf(value)
  if (read instanceof HeaderProblem) throw new Error(`${read.field} ${read.why}`)
  return read
}

test("docs/protocol.md has every field in order, who writes and who reads it, and what becomes of it where it is not known", () => {
  const [, table = ""] = page.split("| `callboard.` |")
  const rows = table
    .split("\n")
    .slice(2)
    .map((line) => line.split("|").map((cell) => cell.trim()))
    .filter(({ length }) => length > 1)
  const fields = rows.flatMap(([, names = "", meaning, writer, reader, unknown]) =>
    names.split(", ").map((name) => ({ name: name.replaceAll("`", ""), meaning, writer, reader, unknown })),
  )
  expect(fields.map(({ name, unknown }) => [name, unknown])).toEqual(
    Object.entries(FIELDS).map(([name, { unknown }]) => [name, unknown]),
  )
  for (const { meaning, writer, reader } of fields)
    for (const cell of [meaning, writer, reader]) expect(cell).toBeTruthy()
  const unsupported = fields.filter(({ reader }) => reader === "no program yet").map(({ name }) => name)
  expect(unsupported).toEqual(Object.keys(FIELDS).filter((name) => notUnderstoodIn({ must: [name] }) === name))
})

describe("a field that must be understood", () => {
  test.each([
    [{}, undefined],
    [{ later: 1 }, undefined],
    [{ must: [] }, undefined],
    [{ must: ["run", "retry"], run: 2 }, undefined],
    [{ key: "a" }, "key"],
    [{ peek: "a" }, "peek"],
    [{ key: null, peek: undefined }, undefined],
    [{ must: ["key"] }, "key"],
    [{ must: ["run", "later"], later: 1 }, "later"],
    // Also where it has no value, or a name that every object has.
    [{ must: ["later"] }, "later"],
    [{ must: ["constructor"] }, "constructor"],
    [{ must: ["__proto__"] }, "__proto__"],
  ])("of %j is %s", (header, name) => {
    expect(notUnderstoodIn(own(header))).toBe(name)
  })

  test.each([{ must: "key" }, { must: [1] }, { must: {} }])("%j is malformed", (header) => {
    expect(ownOf(header)).toMatchObject({ field: "callboard.must" })
  })
})

test("a field that is not known stays, and none reaches into prototypes", () => {
  const read = own(
    JSON.parse('{"run": 2, "later": {"a": 1}, "none": null, "constructor": 1, "__proto__": {"key": "k"}}'),
  )
  expect(read).toEqual({ run: 2, later: { a: 1 }, constructor: 1 })
  expect(Object.getPrototypeOf(read)).toBe(Object.prototype)
})

test.each([
  [["card"], ["card"]],
  [true, true],
  [false, undefined],
  ["card", true],
  [{ card: true }, true],
])("redact %j hides %j: what cannot be read hides all", (redact, hides) => {
  expect(own({ redact }).redact).toEqual(hides)
})
