/**
 * Runs everything, stage by stage, and never stops at the first failure: `npm test`, or `node test/tools/test.js deno`
 * for some of the stages. Ends with the plain line `N passed, N failed`.
 *
 * A stage that is not made of tests counts as one. A test that was skipped or is to be written counts as failed, and so
 * does anything that went wrong outside of a test. Plain JavaScript, because it also says that Bun is missing.
 */

import { spawn } from "node:child_process"
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, relative } from "node:path"
import { fileURLToPath } from "node:url"
import { findRuntime } from "../../runtime/cli/runtimes.js"
import { findDeno, withDeno } from "./deno.js"

/** What runs on Deno as well: what reads or writes the wire, a store or a socket. Each is a part of a file's path. */
const denoTests = ["test/runtime/protocol/", "test/plugins/", "test/runtime/http/", "test/e2e/http", "test/servers/"]

const root = fileURLToPath(new URL("../..", import.meta.url))
/** A stage that hangs is ended; its tests have deadlines of their own that are far shorter. */
const stageDeadlineMs = 20 * 60_000

/** @typedef {{ passed: number, failures: string[] }} Outcome */

/** What is not there, a line each. @type {Set<string>} */
const missing = new Set()

/** What a developer has set for Callboard itself must not decide how tests end. */
const environment = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("CALLBOARD_")))
if (!process.stdout.isTTY) {
  environment.NO_COLOR = "1"
  delete environment.FORCE_COLOR
}

/** @type {import("node:child_process").ChildProcess | undefined} */
let running
for (const signal of /** @type {const} */ (["SIGINT", "SIGTERM", "SIGHUP"])) {
  process.on(signal, () => {
    running?.kill("SIGTERM")
    process.exit(1)
  })
}

/**
 * @param {string} command
 * @param {readonly string[]} args
 * @param {"inherit" | "pipe"} [output]
 * @returns {Promise<{ ok: boolean, how: string, output: string }>}
 */
function run(command, args, output = "inherit") {
  return new Promise((resolve) => {
    const child = spawn(command, args, { cwd: root, env: environment, stdio: ["ignore", output, "inherit"] })
    running = child
    let text = ""
    child.stdout?.setEncoding("utf8").on("data", (chunk) => {
      text += chunk
    })
    const timer = setTimeout(() => child.kill("SIGKILL"), stageDeadlineMs)
    child.on("error", (error) => resolve({ ok: false, how: error.message, output: text }))
    child.on("close", (code, signal) => {
      clearTimeout(timer)
      running = undefined
      resolve({ ok: code === 0, how: code === null ? `ended by ${signal}` : `exit code ${code}`, output: text })
    })
  })
}

/**
 * @param {string} what
 * @param {readonly string[]} args of Node
 * @returns {Promise<Outcome>}
 */
async function check(what, args) {
  const { ok, how } = await run(process.execPath, args)
  return ok ? { passed: 1, failures: [] } : { passed: 0, failures: [`${what}: ${how}`] }
}

/** @param {string} text */
function noteMissing(text) {
  for (const [line] of text.matchAll(/missing server: .*/g)) missing.add(line)
}

/**
 * @typedef {{ status: string, fullName: string, failureMessages: string[] | null }} Assertion
 * @typedef {{ name: string, status: string, message: string, assertionResults: Assertion[] }} FileResult
 */

/**
 * @param {string} runtime
 * @param {string} command
 * @param {readonly string[]} args
 * @returns {Promise<Outcome>}
 */
async function vitest(runtime, command, args) {
  const work = mkdtempSync(join(tmpdir(), "callboard-test-"))
  const reportFile = join(work, "report.json")
  const reporters = ["--reporter=default", "--reporter=json", `--outputFile.json=${reportFile}`]
  const { ok, how } = await run(command, [...args, ...reporters])
  /** @type {{ testResults: FileResult[] }} */
  let report
  try {
    report = JSON.parse(readFileSync(reportFile, "utf8"))
  } catch {
    return { passed: 0, failures: [`${runtime}: vitest left no report (${how})`] }
  } finally {
    rmSync(work, { recursive: true, force: true })
  }
  let passed = 0
  /** @type {string[]} */
  const failures = []
  for (const { name, status, message, assertionResults } of report.testResults) {
    const file = relative(root, name)
    noteMissing(message ?? "")
    const before = failures.length
    for (const { status, fullName, failureMessages } of assertionResults) {
      const messages = failureMessages ?? []
      for (const each of messages) noteMissing(each)
      if (status === "passed") passed++
      else if (status === "failed")
        failures.push(`${runtime}: ${file} > ${fullName}: ${messages[0]?.split("\n")[0] ?? ""}`)
      else failures.push(`${runtime}: ${file} > ${fullName}: ${status}, not run`)
    }
    if (status === "failed" && failures.length === before) {
      failures.push(`${runtime}: ${file}: ${message?.split("\n")[0] || "failed outside of its tests"}`)
    }
  }
  if (report.testResults.length === 0) failures.push(`${runtime}: no tests were found`)
  if (!ok && failures.length === 0) failures.push(`${runtime}: errors outside of tests, see above (${how})`)
  return { passed, failures }
}

/** Programs that the stages share, looked for once. @type {string | undefined} */
let bun
async function prepare() {
  bun = findRuntime("bun")?.path
  if (bun === undefined) missing.add("missing: bun — run npm install")
  else {
    const { output } = await run(bun, ["test/tools/servers.ts", "--json"], "pipe")
    environment.CALLBOARD_TEST_SERVERS = output.trim()
    // Named here already, because a hook that fails leaves no message in vitest's report.
    for (const [name, found] of Object.entries(JSON.parse(output || "{}"))) {
      if (found.missing !== undefined) missing.add(`missing server: ${name} — ${found.missing}`)
    }
  }
  try {
    Object.assign(environment, withDeno(findDeno()))
  } catch (error) {
    missing.add(`missing: deno — ${/** @type {Error} */ (error).message}`)
  }
}

const vitestRun = ["node_modules/vitest/vitest.mjs", "run", "--config", "test/vitest.config.ts"]

/** @type {Record<string, () => Promise<Outcome>>} */
const stages = {
  types: () => check("types", ["node_modules/typescript/bin/tsc", "--noEmit"]),
  lint: () =>
    check("lint", [
      "node_modules/@biomejs/biome/bin/biome",
      "ci",
      "--error-on-warnings",
      ...(process.stdout.isTTY ? [] : ["--colors=off"]),
    ]),
  bun: async () => {
    if (bun === undefined) return { passed: 0, failures: ["bun: not run"] }
    return vitest("bun", bun, vitestRun)
  },
  deno: async () => {
    if (environment.DENO_NO_UPDATE_CHECK === undefined) return { passed: 0, failures: ["deno: not run"] }
    const files = readdirSync(join(root, "test"), { recursive: true, encoding: "utf8" })
    const tests = files.map((file) => `test/${file.replaceAll("\\", "/")}`).filter((file) => file.endsWith(".test.ts"))
    const empty = denoTests.filter((part) => !tests.some((file) => file.includes(part)))
    const args = ["run", "-A", "--node-modules-dir=manual", ...vitestRun, ...denoTests]
    const { passed, failures } = await vitest("deno", "deno", args)
    return { passed, failures: [...failures, ...empty.map((part) => `deno: no test file is called ${part}…`)] }
  },
}

const wanted = process.argv.length > 2 ? process.argv.slice(2) : Object.keys(stages)
const unknown = wanted.filter((name) => !(name in stages))
if (unknown.length > 0) {
  process.stderr.write(`unknown: ${unknown.join(", ")}; there are ${Object.keys(stages).join(", ")}\n`)
  process.exit(2)
}

if (wanted.includes("bun") || wanted.includes("deno")) await prepare()
let passed = 0
/** @type {string[]} */
const failures = []
for (const name of wanted) {
  const start = performance.now()
  process.stdout.write(`\n== ${name}\n`)
  const outcome = (await stages[name]?.()) ?? { passed: 0, failures: [] }
  passed += outcome.passed
  failures.push(...outcome.failures)
  const seconds = ((performance.now() - start) / 1000).toFixed(1)
  process.stdout.write(`== ${name}: ${outcome.passed} passed, ${outcome.failures.length} failed in ${seconds} s\n`)
}

if (failures.length > 0) process.stdout.write(`\n${failures.join("\n")}\n`)
process.stdout.write(
  `\n${[...missing].map((line) => `${line}\n`).join("")}${passed} passed, ${failures.length} failed\n`,
)
// Nothing of a test may keep this alive, and all that matters is written.
process.exit(failures.length === 0 ? 0 : 1)
