/** `callboard init`: writes what a first project needs, and overwrites nothing. */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { expect, test } from "vitest"
import { spawnScript, temporaryFolder } from "../support/servers/process.ts"

const root = new URL("../..", import.meta.url).pathname

/** What npx adds to the environment, and what bunx does. */
const [NPX, BUNX] = ["npm/11.6.0 node/v24.21.0 linux x64", "bun/1.4.5 npm/? node/v24.3.0 linux x64"]

const init = async (cwd: string, ...args: readonly string[]) => initBy(NPX, cwd, ...args)
const initBy = async (userAgent: string, cwd: string, ...args: readonly string[]) => {
  const env = { npm_config_user_agent: userAgent }
  await using child = spawnScript(join(root, "runtime/cli/main.ts"), ["init", ...args], { cwd, env })
  expect(await child.closed).toEqual({ code: 0, signal: null })
  return child.stdout
}

/** Where a package would be, the sources. */
const install = (cwd: string) => {
  const folder = join(cwd, "node_modules", "callboard")
  mkdirSync(folder, { recursive: true })
  const exports = { ".": "./mod.ts" }
  writeFileSync(join(folder, "package.json"), JSON.stringify({ name: "callboard", type: "module", exports }))
  writeFileSync(join(folder, "mod.ts"), `export * from ${JSON.stringify(join(root, "runtime/mod.ts"))}\n`)
}

test("an empty folder becomes a project that runs", async () => {
  using folder = temporaryFolder()
  const stdout = await init(folder.path)
  expect(stdout).toMatch(/^written {4}actors\/hello\.ts$/m)
  expect(stdout).toMatch(/Next: {2}npx callboard dev/)
  expect(readdirSync(folder.path).sort()).toEqual([
    ".gitignore",
    "README.md",
    "actors",
    "callboard.config.ts",
    "package.json",
    "tsconfig.json",
  ])
  expect(JSON.parse(readFileSync(join(folder.path, "package.json"), "utf8"))).toMatchObject({
    private: true,
    type: "module",
    scripts: { dev: "callboard dev", worker: "callboard worker" },
  })
  expect(readFileSync(join(folder.path, ".gitignore"), "utf8")).toBe("node_modules\n.callboard\n")
  install(folder.path)
  await using doctor = spawnScript(join(root, "runtime/cli/main.ts"), ["doctor", "--json"], { cwd: folder.path })
  await doctor.closed
  expect(JSON.parse(doctor.stdout)).toMatchObject({ actors: { names: ["hello"] }, transport: { reachable: true } })
})

test("a project that bunx has made names bunx, since npx may be missing", async () => {
  using folder = temporaryFolder()
  expect(await initBy(BUNX, folder.path)).toMatch(/Next: {2}bunx callboard dev/)
  for (const file of ["README.md", "callboard.config.ts"]) {
    const text = readFileSync(join(folder.path, file), "utf8")
    expect(text).toContain("`bunx callboard doctor`")
    expect(text).not.toContain("npx")
  }
})

test("what is there stays; a manifest gets only what it lacks", async () => {
  using folder = temporaryFolder()
  const manifest = `{\n    "name": "shop",\n    "type": "commonjs",\n    "scripts": {\n        "dev": "mine"\n    }\n}\n`
  writeFileSync(join(folder.path, "package.json"), manifest)
  writeFileSync(join(folder.path, "README.md"), "mine")
  writeFileSync(join(folder.path, ".gitignore"), "mine")
  mkdirSync(join(folder.path, "actors"))
  writeFileSync(join(folder.path, "actors/own.ts"), "mine")
  const { files } = JSON.parse(await init(folder.path, "--json"))
  expect(files).toEqual([
    { path: "actors/hello.ts", what: "kept" },
    { path: "callboard.config.ts", what: "written" },
    { path: "tsconfig.json", what: "written" },
    { path: "package.json", what: "completed", note: expect.stringMatching(/^"type": "commonjs" was not changed/) },
    { path: ".gitignore", what: "kept" },
    { path: "README.md", what: "kept" },
  ])
  expect(readFileSync(join(folder.path, ".gitignore"), "utf8")).toBe("mine")
  expect(readdirSync(join(folder.path, "actors"))).toEqual(["own.ts"])
  expect(readFileSync(join(folder.path, "README.md"), "utf8")).toBe("mine")
  const completed = readFileSync(join(folder.path, "package.json"), "utf8")
  expect(JSON.parse(completed)).toEqual({
    name: "shop",
    type: "commonjs",
    scripts: { dev: "mine", worker: "callboard worker", serve: "callboard serve" },
  })
  expect(completed).toMatch(/^\{\n {4}"name"/)
  const again = await init(folder.path, "--json")
  expect(JSON.parse(again).files.map((file: { what: string }) => file.what)).toEqual(Array(6).fill("kept"))
  expect(readFileSync(join(folder.path, "package.json"), "utf8")).toBe(completed)
})

test("after npm init -y the folder is one of ES modules, and that is said", async () => {
  using folder = temporaryFolder()
  const manifest = { name: "shop", version: "1.0.0", main: "index.js", license: "ISC", type: "commonjs" }
  writeFileSync(join(folder.path, "package.json"), JSON.stringify(manifest))
  expect(await init(folder.path)).toMatch(
    /^completed {2}package\.json\n {11}"type": "commonjs", as written by npm, was changed to "type": "module"$/m,
  )
  expect(JSON.parse(readFileSync(join(folder.path, "package.json"), "utf8"))).toMatchObject({
    ...manifest,
    type: "module",
  })
})
