/** `callboard/client` stays small: what its import loads, counted by following the imports of the sources. */
import { existsSync, readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { expect, test } from "vitest"
import { importsOf } from "../../../support/tools/imports.ts"

const root = fileURLToPath(new URL("../../../..", import.meta.url))

/** Files and packages that are loaded with a file, itself included; what is imported dynamically is not. */
const loadedWith = (entry: string): ReadonlySet<string> => {
  const loaded = new Set<string>()
  const load = (path: string) => {
    if (loaded.has(path)) return
    loaded.add(path)
    if (!existsSync(`${root}${path}`)) return
    for (const { target, kind } of importsOf(path, readFileSync(`${root}${path}`, "utf8"))) {
      if (kind === "value") load(target)
    }
  }
  load(entry)
  return loaded
}

test("callboard/client loads neither HTTP server nor worker nor command line, nor what they are built on", () => {
  const loaded = [...loadedWith("runtime/client/mod.ts")]
  const rooms = /^runtime\/(worker|http|metrics|service|cli|routes)\//
  expect(loaded.filter((path) => rooms.test(path))).toEqual([])
  // The table of settings is there, and neither what reads the configuration nor the log that it is about.
  const reading = /^runtime\/(config\/(file|resolving|settings)|log\/log)\./
  expect(loaded.filter((path) => reading.test(path))).toEqual([])
  expect(loaded.filter((path) => /^(plugins\/|hono|prom-client|commander|nats$)/.test(path))).toEqual([])
  const files = loaded.filter((path) => path.startsWith("runtime/"))
  expect(files.length).toBeGreaterThan(50)
  // Job boards, which are many small files, conductors, schedules, groups and what is not installed are a part of it.
  expect(files.length).toBeLessThanOrEqual(209)
})

test("callboard/http loads its own files alone, none of which needs Node", () => {
  const loaded = [...loadedWith("runtime/client/http-mod.ts")]
  expect(loaded.filter((path) => !path.startsWith("runtime/"))).toEqual([])
  expect(loaded.length).toBeGreaterThan(20)
  // A bundler adds 45 kB for the mere name.
  const named = (path: string) => /\bBuffer\b(?!`)/.test(readFileSync(`${root}${path}`, "utf8"))
  expect(loaded.filter(named)).toEqual([])
})

test("callboard loads it too, and more: the count counts", () => {
  const all = loadedWith("runtime/mod.ts")
  expect([...loadedWith("runtime/client/client.ts")].filter((path) => !all.has(path))).toEqual([])
  expect([...all].some((path) => path.startsWith("runtime/http/"))).toBe(true)
})
