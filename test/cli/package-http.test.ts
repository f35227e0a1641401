/** `callboard/http` in the bundle of an application: its size, and what it brings along. */
import { spawnSync } from "node:child_process"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { gzipSync } from "node:zlib"
import { build } from "esbuild"
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest"
import { serveHttp, TOKEN, TOLD } from "../support/http-service.ts"
import { spawnProcess, temporaryFolder } from "../support/servers/process.ts"
import { findDeno } from "../support/tools/deno.js"
import { findNode, OLDEST_NODE } from "../support/tools/node.js"

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

test.each(["callboard", "callboard/client"])("%s in a page says at build time what to import instead", async (name) => {
  const failed = bundled(`import { connect } from ${JSON.stringify(name)}\nconnect("nats://localhost")`)
  await expect(failed).rejects.toThrow(/No matching export in "\S+\/use-callboard-http-in-browsers\.js"/)
})

/** Imports that name nothing, so that every build succeeds. */
const UNNAMED: ReadonlyArray<string> = [
  `import * as callboard from "callboard"; globalThis.client = callboard.connect`,
  `import "callboard"`,
  `import * as client from "callboard/client"; globalThis.client = client.connect`,
]

describe.each(UNNAMED)("%s in a page", (code) => {
  const advice = "do not run in a browser: import callboard/http"

  test("says when it runs what to import instead, by esbuild", async () => {
    expect((await bundled(code)).text).toContain(advice)
  })

  // Bun reads which files have side effects from the package, and esbuild from the folder of the file.
  test("says so by Bun", async () => {
    const entry = join(folder.path, "unnamed.js")
    writeFileSync(entry, code)
    await using run = spawnProcess(process.execPath, ["build", "--target=browser", entry])
    expect(await run.closed).toMatchObject({ code: 0 })
    expect(run.output).toContain(advice)
  })
})

/** The runtimes by name, each with the arguments that precede the program. */
const runtimes: ReadonlyArray<readonly [name: string, command: () => ReadonlyArray<string>]> = [
  ["Node 20", () => [findNode(OLDEST_NODE)]],
  ["Node 24", () => [findNode()]],
  ["Bun", () => [process.execPath]],
  ["Deno, which may only use the net", () => [findDeno(), "run", "--allow-net", "--no-config"]],
]

test.each(runtimes)("an application does the same on %s", async (_name, command) => {
  const service = await serveHttp()
  try {
    const program = join(folder.path, "program.mjs")
    await build({
      stdin: {
        contents: `import { useHttp } from ${JSON.stringify(fileURLToPath(new URL("../fixtures/http-program.ts", import.meta.url)))}
          console.log("told " + JSON.stringify(await useHttp(${JSON.stringify(service.url)}, ${JSON.stringify(TOKEN)})))`,
        resolveDir: folder.path,
      },
      // The program lies in this repository, and uses the package.
      alias: { "callboard/http": join(folder.path, "node_modules/callboard/dist/runtime/client/http-mod.js") },
      bundle: true,
      format: "esm",
      platform: "browser",
      outfile: program,
      logLevel: "silent",
    })
    const [runtime = "", ...given] = command()
    await using run = spawnProcess(runtime, [...given, program])
    const [, told = ""] = await run.waitForLine(/^told (.*)$/)
    expect(JSON.parse(told)).toEqual(TOLD)
  } finally {
    await service.stop({ now: true })
  }
})
