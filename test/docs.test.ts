/** The guide for authors shows the code as it is. */
import { existsSync, readFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { expect, test } from "vitest"

const root = fileURLToPath(new URL("..", import.meta.url))
const guide = "docs/writing-a-transport.md"
const text = readFileSync(join(root, guide), "utf8")

const quotes = [...text.matchAll(/^```(?:ts|sql)\n(?:\/\/|--) (plugins\/\S+)\n(.*?)^```$/gms)].map(
  ({ 1: file = "", 2: code = "" }) => ({ file, code }),
)

test.each(quotes)("what the guide quotes of $file is there", ({ file, code }) => {
  expect(readFileSync(join(root, file), "utf8")).toContain(code)
})

test("the guide quotes every file of the example", () => {
  const names = ["mod", "driver", "link", "schema"].map((name) => `plugins/postgres/${name}.ts`)
  expect([...new Set(quotes.map(({ file }) => file))].toSorted()).toEqual(names.toSorted())
})

test("the guide's links lead somewhere", () => {
  const targets = [...text.matchAll(/\]\(([^)#]+)\)/g)].map(([, target = ""]) => target)
  const lost = targets.filter((target) => !/^https?:/.test(target) && !existsSync(join(root, dirname(guide), target)))
  expect(lost).toEqual([])
})
