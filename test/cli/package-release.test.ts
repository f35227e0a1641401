/** The release script tried without publishing, and the workflows that call it. */
import { readdirSync, readFileSync, writeFileSync } from "node:fs"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { afterAll, beforeAll, expect, inject, test } from "vitest"
import { parse } from "yaml"
import { isObject } from "../../runtime/protocol/guards.ts"
import { spawnProcess, temporaryFolder } from "../support/servers/process.ts"

const root = fileURLToPath(new URL("../..", import.meta.url))
const read = (path: string) => readFileSync(join(root, path), "utf8")
const { version } = JSON.parse(read("package.json"))

/** What the registry answers about vulnerabilities; `undefined`: it answers an error. */
let advisories: object | undefined = {}
/** A registry that has the versions of the lock file alone. */
const registry = createServer((request, response) => {
  request.resume()
  const { url = "" } = request
  const name = decodeURIComponent(url.slice(1))
  const { [`node_modules/${name}`]: locked } = JSON.parse(read("package-lock.json")).packages
  const packument = locked && { name, versions: { [locked.version]: { name, ...locked } } }
  const answer = url.endsWith("/security/advisories/bulk") ? advisories : packument
  response.writeHead(answer === undefined ? 404 : 200, { "content-type": "application/json" })
  response.end(JSON.stringify(answer ?? {}))
})
beforeAll(() => new Promise<void>((resolve) => registry.listen(0, "127.0.0.1", resolve)))
afterAll(() => {
  registry.close()
})
const registryUrl = () => {
  const address = registry.address()
  const isPort = (value: unknown): value is AddressInfo => isObject(value) && "port" in value
  return `http://127.0.0.1:${isPort(address) ? address.port : 0}`
}

/** A checkout as the script reads it, with these files in place of its own. */
const release = async (args: readonly string[], files: Readonly<Record<string, string>> = {}) => {
  using folder = temporaryFolder()
  const released = read("CHANGELOG.md").replace("## Unreleased\n", `## Unreleased\n\n## ${version} - 2026-12-01\n`)
  const all = { ...Object.fromEntries(["package.json", "package-lock.json"].map((path) => [path, read(path)])) }
  for (const [path, text] of Object.entries({ ...all, "CHANGELOG.md": released, ...files }))
    writeFileSync(join(folder.path, path), text)
  await using script = spawnProcess("node", [join(root, "test/support/tools/release.js"), ...args], {
    cwd: folder.path,
    env: {
      npm_config_registry: registryUrl(),
      npm_config_fetch_retries: "0",
      npm_config_cache: join(folder.path, ".npm"),
    },
  })
  const { code } = await script.closed
  return { code, output: script.output }
}
const packed = ["--tarball", inject("tarball")]

/** What the steps of a job of a workflow run. */
const runsOf = ({ steps }: { readonly steps: ReadonlyArray<{ readonly run?: string }> }) =>
  steps.flatMap(({ run = [] }) => run)

test("a release that is ready is tried with npm and JSR, even if no audit can be made here", async () => {
  advisories = undefined
  const { code, output } = await release([...packed, "--tag", `v${version}`])
  expect({ code, output }).toEqual({ code: 0, output: expect.stringContaining(`${version} can be released`) })
  expect(output).toContain("not checked: known vulnerabilities, because npm audit could not be made")
  expect(output).toMatch(/npm publish .*--dry-run/)
  // Deno refuses types that it must infer. JSR gets the client over HTTP alone.
  expect(output).toMatch(/deno\S* publish .*--dry-run/)
})

test("a version before another one is not what npm installs by default", async () => {
  advisories = {}
  const of = (path: string) => JSON.stringify({ ...JSON.parse(read(path)), version: "9.9.9-rc.1" })
  const { output } = await release(packed, {
    "package.json": of("package.json"),
    "package-lock.json": of("package-lock.json"),
    "CHANGELOG.md": "# Changelog\n\n## Unreleased\n\n## 9.9.9-rc.1 - 2026-12-01\n",
  })
  expect(output).toMatch(/\$ npm publish .*--dry-run --tag next /)
})

test("version, tag, lock file and changelog must agree", async () => {
  advisories = {}
  const lock = JSON.stringify({ ...JSON.parse(read("package-lock.json")), version: "0.0.9" })
  const { code, output } = await release([...packed, "--tag", "v9.9.9"], {
    "package-lock.json": lock,
    "CHANGELOG.md": "# Changelog\n\n## Unreleased\n\n## 0.0.9 - 2026-12-01\n",
  })
  expect(code).toBe(1)
  expect(output).toContain(`the tag is v9.9.9, but package.json has version ${version}`)
  expect(output).toContain("package-lock.json has version 0.0.9")
  expect(output).toContain("the newest version in CHANGELOG.md is ## 0.0.9 - 2026-12-01")
  expect(output).not.toContain("npm audit")
})

test("a known vulnerability of a dependency stops it", async () => {
  const advisory = { id: 1, url: "https://example.org/1", title: "Bad", severity: "low", vulnerable_versions: "*" }
  advisories = { hono: [{ ...advisory, cwe: [], cvss: { score: 0, vectorString: null } }] }
  const { code, output } = await release(packed)
  expect(output).toContain("hono has a vulnerability (low): Bad, https://example.org/1")
  expect(code).toBe(1)
})

test("only the release workflow publishes, and only with an audit", async () => {
  advisories = undefined
  const { code, output } = await release([...packed, "--publish"])
  expect(code).toBe(1)
  expect(output).toContain("only the release workflow publishes")
  expect(output).toContain("npm audit could not be made")
})

test("the workflows run scripts that exist, after all tests, with the identity that provenance needs", () => {
  const { scripts } = JSON.parse(read("package.json"))
  const folder = ".github/workflows"
  const workflows = new Map(readdirSync(join(root, folder)).map((file) => [file, parse(read(`${folder}/${file}`))]))
  const texts = [...workflows.keys()].map((file) => read(`${folder}/${file}`)).join("\n")
  for (const [, name = ""] of texts.matchAll(/run: npm run ([\w:]+)/g)) expect(scripts).toHaveProperty([name])
  for (const [, file = ""] of texts.matchAll(/uses: \.\/\.github\/workflows\/(\S+)/g)) {
    expect(workflows.get(file)?.on).toHaveProperty("workflow_call")
  }
  const { jobs } = workflows.get("release.yml")
  expect(jobs.publish).toMatchObject({ needs: "build", permissions: { "id-token": "write" } })
  expect(jobs.build.needs).toBe("test")
  expect(jobs.test.uses).toBe("./.github/workflows/ci.yml")
  expect(runsOf(jobs.publish).at(-1)).toMatch(/^npm run release -- --publish --tag "\$GITHUB_REF_NAME" --tarball "/)
})

test("the job that may publish runs no dependency, and installs only a Deno that is locked", () => {
  const { jobs } = parse(read(".github/workflows/release.yml"))
  const may = Object.keys(jobs).filter((name) => JSON.stringify(jobs[name]).includes("id-token"))
  expect(may).toEqual(["publish"])
  expect(runsOf(jobs.publish).filter((line) => /npm (?!run release)/.test(line))).toEqual([
    "npm ci --ignore-scripts --no-audit --no-fund --prefix .github/deno",
  ])
  for (const job of [jobs.build, jobs.publish])
    expect(job.steps[0].with).toMatchObject({ "persist-credentials": false })
  expect(runsOf(jobs.build)).toContain("git merge-base --is-ancestor HEAD origin/main")
  const { packages } = JSON.parse(read(".github/deno/package-lock.json"))
  const tested = /const fetched = "(.*)"/.exec(read("test/support/tools/deno.js"))?.[1]
  const linux = packages["node_modules/@deno/linux-x64-glibc"]
  expect(linux).toMatchObject({ version: tested, integrity: expect.stringContaining("sha512-") })
})
