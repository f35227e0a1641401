/** What the package consists of: its manifest, its files, and the links of its pages. */
import { spawnSync } from "node:child_process"
import { readdirSync, readFileSync } from "node:fs"
import { dirname, join, normalize, relative } from "node:path"
import { fileURLToPath } from "node:url"
import { publint } from "publint"
import { afterAll, expect, inject, test } from "vitest"
import { spawnProcess, temporaryFolder } from "../support/servers/process.ts"

const root = fileURLToPath(new URL("../..", import.meta.url))
const tarball = inject("tarball")

const folder = temporaryFolder()
afterAll(() => folder.remove())
const unpacked = join(folder.path, "package")
spawnSync("tar", ["-xzf", tarball, "-C", folder.path], { stdio: "inherit" })
/** The files of the package, from its root. */
const files = readdirSync(unpacked, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile())
  .map((entry) => relative(unpacked, join(entry.parentPath, entry.name)))

test("publint has no complaint", async () => {
  const bytes = new Uint8Array(readFileSync(tarball))
  const { messages } = await publint({ pack: { tarball: bytes.buffer }, strict: true })
  expect(messages).toEqual([])
})

test("each entry point has its types for Node and for bundlers", async () => {
  const program = join(root, "node_modules/@arethetypeswrong/cli/dist/index.js")
  await using attw = spawnProcess("node", [program, tarball, "--profile", "esm-only", "--no-color", "-f", "json"])
  const { code } = await attw.closed
  expect(code, attw.output).toBe(0)
  const { exports: published } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"))
  expect(Object.keys(JSON.parse(attw.stdout).analysis.entrypoints)).toEqual(Object.keys(published))
})

test("relative links of the pages lead to files of the package", () => {
  const pages = files.filter((path) => path.endsWith(".md"))
  expect(pages).toEqual(expect.arrayContaining(["README.md", "CHANGELOG.md", "SECURITY.md", "docs/actors.md"]))
  const lost = pages.flatMap((page) => {
    const text = readFileSync(join(unpacked, page), "utf8")
    return [...text.matchAll(/\]\(([^)\s#]+)[^)]*\)/g)].flatMap(([, target = ""]) => {
      if (/^https?:/.test(target)) return []
      const path = normalize(join(dirname(page), target))
      return files.some((file) => file === path || file.startsWith(`${path}/`)) ? [] : [`${page}: ${target}`]
    })
  })
  expect(lost).toEqual([])
})

test("the package has the actors to copy, and neither tests, sources nor maps", () => {
  expect(files).toContain("actors/webhook.ts")
  const folders = new Set(files.map((path) => path.split("/").slice(0, -1)[0] ?? ""))
  expect([...folders].toSorted()).toEqual(["", "actors", "dist", "docs"])
  const isSource = (path: string) => /\.tsx?$/.test(path) && !path.endsWith(".d.ts") && !path.includes("/templates/")
  expect(
    files.filter((path) => path.startsWith("dist/") && (isSource(path) || /\.(map|test\.js)$/.test(path))),
  ).toEqual([])
})
