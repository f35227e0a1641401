/** What each published entry point exports is written down: a name is neither lost nor added without being meant. */

import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { describe, expect, test } from "vitest"
import { type Exports, exportsOf } from "./support/tools/exports.ts"

const root = fileURLToPath(new URL("..", import.meta.url))
const read = (path: string) => readFileSync(join(root, path), "utf8")
const record = "test/fixtures/entry-points.json"

/** The source of each entry point of package.json. */
const entryPoints = (): Map<string, string> => {
  const { name: own, exports: published } = JSON.parse(read("package.json"))
  return new Map(
    Object.entries<{ default?: string }>(published).flatMap(([name, { default: target }]) => {
      if (target === undefined) return []
      const entry = name.replace(/^\./, own)
      const source = target.replace(/^\.\/dist\//, "").replace(/\.js$/, ".ts")
      return [[entry, source] as const]
    }),
  )
}

test("the entry points export what is written down, and nothing else", () => {
  const found: Record<string, Exports> = {}
  for (const [name, source] of entryPoints()) found[name] = exportsOf(source, read)
  expect(found, `if the change is meant, change ${record} too, and say why in the commit`).toEqual(
    JSON.parse(read(record)),
  )
})

test("each plugin has an entry point", () => {
  const folders = readdirSync(join(root, "plugins"), { withFileTypes: true }).filter((entry) => entry.isDirectory())
  const named = [...entryPoints().keys()].filter((name) => name.startsWith("callboard/plugins/"))
  expect(named.toSorted()).toEqual(folders.map(({ name }) => `callboard/plugins/${name}`).toSorted())
})

test("CONTRIBUTING.md names each entry point under What is public", () => {
  const [, section = ""] = /^## What is public\n(.*?)^## /ms.exec(read("CONTRIBUTING.md")) ?? []
  const named = new Set([...section.matchAll(/`(callboard\/[\w./-]+)`/g)].map(([, name]) => name))
  const entries = Object.keys(JSON.parse(read("package.json")).exports).flatMap((entry) => {
    const path = entry.replace(/^\./, "callboard")
    return path === "callboard" ? [] : path
  })
  expect([...named].toSorted()).toEqual(entries.toSorted())
})

test("what is loaded has the values that were read from the source", async () => {
  for (const [name, source] of entryPoints()) {
    const module = await import(join(root, source))
    expect(Object.keys(module).toSorted(), name).toEqual(exportsOf(source, read).values)
  }
})

describe("the reader of exports finds", () => {
  const cases: readonly [code: string, values: readonly string[], types: readonly string[]][] = [
    [`export { a, type B, c as d } from "./x.ts"`, ["a", "d"], ["B"]],
    [`export type { A, B as C } from "./x.ts"`, [], ["A", "C"]],
    [`export {\n  a,\n  type B,\n} from "./x.ts"`, ["a"], ["B"]],
    [`export interface A {}\nexport type B = A`, [], ["A", "B"]],
    [`export const a = 1\nexport async function b() {}\nexport abstract class C {}`, ["C", "a", "b"], []],
    [`export default a`, ["default"], []],
    [`export * from "./other.ts"`, ["x"], ["Y"]],
    [`export type * from "./other.ts"`, [], ["Y", "x"]],
    [`export * as all from "./other.ts"`, ["all"], []],
    [`/*\nexport const a = 1\n*/\nconst b = 2`, [], []],
  ]
  test.each(cases)("%s", (code, values, types) => {
    const other = "export const x = 1\nexport interface Y {}\nexport default x"
    const files: Record<string, string> = { "folder/a.ts": code, "folder/other.ts": other }
    expect(exportsOf("folder/a.ts", (path) => files[path] ?? "")).toEqual({ values, types })
  })
})
