/** `callboard/http` in the bundle of an application: its size, and what it brings along. */
import { spawnSync } from "node:child_process"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { gzipSync } from "node:zlib"
import { build } from "esbuild"
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest"
import { temporaryFolder } from "../support/servers/process.ts"

const folder = temporaryFolder()
afterAll(() => folder.remove())

/** The package as a bundler finds it; its dependencies are those of this repository. */
beforeAll(() => {
  const modules = join(folder.path, "node_modules/callboard")
  spawnSync("mkdir", ["-p", modules])
  const { status } = spawnSync("tar", ["-xzf", inject("tarball"), "-C", modules, "--strip-components=1"])
  expect(status).toBe(0)
})

const bundled = async (code: string) => {
  const entry = join(folder.path, "entry.js")
  writeFileSync(entry, code)
  const options = { bundle: true, minify: true, format: "esm", platform: "browser", metafile: true } as const
  const { outputFiles, metafile, warnings } = await build({
    ...options,
    absWorkingDir: folder.path,
    entryPoints: [entry],
    write: false,
    logLevel: "silent",
  })
  return { text: outputFiles[0]?.text ?? "", inputs: Object.keys(metafile.inputs), warnings }
}

const ALL_BUT_BOARDS =
  "CallboardError, connectHttp, isCallboardError, JobCancelled, JobExpired, JobFailed, ResultGone, WaitTimeout"

describe.each([
  ["the client", `export { ${ALL_BUT_BOARDS} } from "callboard/http"`, 10_000],
  ["the client with job boards", `export * from "callboard/http"`, 12_000],
])("%s", (_name, code, most) => {
  test(`has at most ${most} bytes, and nothing of Node or another package`, async () => {
    const { text, inputs, warnings } = await bundled(code)
    expect(warnings).toEqual([])
    expect(gzipSync(text, { level: 9 }).length).toBeLessThanOrEqual(most)
    expect(inputs.filter((path) => path !== "entry.js" && !path.startsWith("node_modules/callboard/dist/"))).toEqual([])
    expect(inputs.length).toBeGreaterThan(20)
    expect(text).not.toMatch(/node:|\bBuffer\b|\bprocess\b/)
  })
})
