/**
 * Runs everything, its stages side by side, and never stops at the first failure: `npm test`, or
 * `node test/support/tools/test.js deno` for some of the stages. Ends with the plain line `N passed, N failed`. With `--all`, or
 * when they are named, these run too: `scenarios`, which tries on NATS what users rely on, `chaos`, `page`, which shows the page
 * in a browser, `package`, which installs the package from the registry as a user would, `node`, which runs on
 * Node what can differ there, and `interop`, which shares a broker with Celery.
 *
 * A stage that is not made of tests counts as one. A test that was skipped or is to be written counts as failed, and so
 * does anything that went wrong outside of a test. A file in which a test failed is run once more, alone, after everything
 * else: see `flakes.js`. A run that is ended by its limit or a signal reports what ran, and names the files that it had
 * not finished. Plain JavaScript, because it also says that Bun is missing.
 */

import { spawn } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath, pathToFileURL } from "node:url"
import { parseArgs } from "node:util"
import { findRuntime } from "../../../runtime/cli/runtimes.js"
import { denoTests, nodeTests, raceTests, testFiles } from "../../suites.js"
import { findDeno, withDeno } from "./deno.js"
import { runAgain } from "./flakes.js"
import { findNode } from "./node.js"
import { readResults, resultsFile } from "./results.js"

const root = fileURLToPath(new URL("../../..", import.meta.url))

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    /** Seconds after which the whole run is ended; what ran until then is reported. */
    limit: { type: "string", default: "1200" },
    config: { type: "string", default: "test/vitest.config.ts" },
    all: { type: "boolean", default: false },
  },
})

/** @typedef {import("./flakes.js").Repeatable} Repeatable */

/** @typedef {{ passed: number, failures: string[], doubtful: Repeatable[] }} Outcome */

/** The outcome of what is not made of tests. @param {string[]} failures @returns {Outcome} */
const plain = (...failures) => ({ passed: failures.length === 0 ? 1 : 0, failures, doubtful: [] })

/** Missing programs, a line for each. @type {Set<string>} */
const missing = new Set()

/** The environment of the tests, without what a developer has set for Callboard: it must not change the result of tests. */
const environment = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("CALLBOARD_")))
// Bun's last tier of compilation pays for programs that run for minutes. Without it the tests take a tenth less processor time.
environment.BUN_JSC_useFTLJIT = "0"
if (!process.stdout.isTTY) {
  environment.NO_COLOR = "1"
  delete environment.FORCE_COLOR
}

/** The processes that run, each the leader of a group. @type {Set<import("node:child_process").ChildProcess>} */
const running = new Set()
/** Why the run was ended before its end; stages that begin later do not run. @type {string | undefined} */
let ended

/** @param {import("node:child_process").ChildProcess} child */
function killGroup(child) {
  try {
    if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL")
  } catch {
    // The group has ended in the meantime.
  }
}

/** Ends all stages that run. Each of them reports its results so far. @param {string} why */
function endAll(why) {
  ended ??= why
  for (const child of running) killGroup(child)
}

setTimeout(() => endAll(`the limit of ${options.limit} s was reached`), Number(options.limit) * 1_000).unref()
for (const signal of /** @type {const} */ (["SIGINT", "SIGTERM", "SIGHUP"])) {
  process.on(signal, () => endAll(`ended by ${signal}`))
}

/**
 * @param {string} command
 * @param {readonly string[]} args
 * @param {{ env?: Readonly<Record<string, string | undefined>>, show?: boolean, errors?: "inherit" | "pipe" }} [how]
 *   `show` lets its output through; otherwise it is collected
 * @returns {Promise<{ ok: boolean, how: string, output: string }>}
 */
function run(command, args, { env = environment, show = false, errors = show ? "inherit" : "pipe" } = {}) {
  return new Promise((resolve) => {
    if (ended !== undefined) return resolve({ ok: false, how: ended, output: "" })
    const stdio = /** @type {const} */ (["ignore", show ? "inherit" : "pipe", errors])
    // The program leads a process group, so that everything that it has started can be ended with it.
    const child = spawn(command, args, { cwd: root, env, stdio: [...stdio], detached: true })
    running.add(child)
    let output = ""
    for (const stream of [child.stdout, child.stderr]) {
      stream?.setEncoding("utf8").on("data", (chunk) => {
        output += chunk
      })
    }
    child.on("error", (error) => resolve({ ok: false, how: error.message, output }))
    child.on("close", (code, signal) => {
      running.delete(child)
      resolve({ ok: code === 0, how: ended ?? (code === null ? `ended by ${signal}` : `exit code ${code}`), output })
    })
  })
}

/**
 * @param {string} what
 * @param {readonly string[]} args of Node
 * @returns {Promise<Outcome>}
 */
async function check(what, args) {
  const { ok, how, output } = await run(process.execPath, args)
  process.stdout.write(output)
  return ok ? plain() : plain(`${what}: ${how}`)
}

/**
 * @param {string} runtime
 * @param {string} command
 * @param {readonly string[]} args
 * @param {readonly string[]} files parts of the paths of the files to run; all by default
 * @param {Readonly<Record<string, string>>} more variables of the environment
 * @returns {Promise<Outcome>}
 */
async function vitest(runtime, command, args, files = [], more = {}) {
  const work = mkdtempSync(join(tmpdir(), "callboard-test-"))
  const file = join(work, "progress")
  writeFileSync(file, "")
  try {
    const env = { ...environment, ...more, [resultsFile]: file }
    const reporters = ["--reporter=default", "--reporter=./test/support/tools/progress.js"]
    // Only one of the two runs prints its progress, since the lines of both would mix.
    const show = runtime === "bun" || !wanted.includes("bun")
    const { ok, how, output } = await run(command, [...args, ...files, ...reporters], { env, show })
    process.stdout.write(output)
    const { passed, failures, doubtful, missing: servers } = readResults(readFileSync(file, "utf8"), root, how)
    for (const line of servers) missing.add(line)
    if (!ok && failures.length + doubtful.length === 0) failures.push(`errors outside of tests, see above (${how})`)
    /** @param {string} failure */
    const named = (failure) => `${runtime}: ${failure}`
    return {
      passed,
      failures: failures.map(named),
      doubtful: doubtful.map((each) => ({
        ...each,
        failures: each.failures.map(named),
        again: () => {
          process.stdout.write(`\n== again: ${runtime}: ${each.file}\n`)
          return vitest(runtime, command, args, [each.file], more)
        },
      })),
    }
  } finally {
    rmSync(work, { recursive: true, force: true })
  }
}

/** @param {string} project @returns {Promise<Outcome>} */
function typesOf(project) {
  // The compiler uses one thread: several threads would check the same types again, and other stages need the cores.
  const args = ["node_modules/typescript/bin/tsc", "--noEmit", "--singleThreaded", "--project", project]
  return check(`types of ${project}`, args)
}

/** @param {readonly Outcome[]} outcomes @returns {Outcome} */
function sum(outcomes) {
  return {
    passed: outcomes.reduce((total, { passed }) => total + passed, 0),
    failures: outcomes.flatMap(({ failures }) => failures),
    doubtful: outcomes.flatMap(({ doubtful }) => doubtful),
  }
}

/** Programs that the stages share, looked for once. @type {string | undefined} */
let bun
async function prepare() {
  bun = findRuntime("bun")?.path
  if (bun === undefined) missing.add("missing: bun — run npm install")
  else {
    const more = wanted.includes("interop") ? ["--interop"] : []
    const { output } = await run(bun, ["test/support/tools/servers.ts", "--json", ...more], { errors: "inherit" })
    environment.CALLBOARD_TEST_SERVERS = output.trim()
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

/** @type {Promise<void> | undefined} */
let preparation
/** Looks for the programs that two stages need, once for both. */
function preparedOnce() {
  preparation ??= prepare()
  return preparation
}

/** The tests that kill workers and brokers in the middle of work. They take long, and run only on request. */
const chaosTests = "test/chaos"
const vitestRun = ["node_modules/vitest/vitest.mjs", "run", "--config", options.config]

/** @type {Record<string, () => Promise<Outcome>>} */
const stages = {
  types: async () => sum([await typesOf("."), await typesOf("runtime/page")]),
  lint: () =>
    check("lint", [
      "node_modules/@biomejs/biome/bin/biome",
      "ci",
      "--error-on-warnings",
      ...(process.stdout.isTTY ? [] : ["--colors=off"]),
    ]),
  bun: async () => {
    await preparedOnce()
    if (bun === undefined) return plain("bun: not run")
    return vitest("bun", bun, [...vitestRun, "--exclude", `${chaosTests}/**`])
  },
  unit: async () => {
    const found = findRuntime("bun")?.path
    if (found === undefined) return plain("unit: no bun — run npm install")
    return vitest("unit", found, ["node_modules/vitest/vitest.mjs", "run", "--config", "test/vitest.unit.config.ts"])
  },
  chaos: async () => {
    await preparedOnce()
    if (bun === undefined) return plain("chaos: not run")
    return vitest("chaos", bun, vitestRun, [chaosTests])
  },
  package: async () => {
    await preparedOnce()
    if (bun === undefined) return plain("package: not run")
    return vitest("package", bun, [
      "node_modules/vitest/vitest.mjs",
      "run",
      "--config",
      "test/vitest.package.config.ts",
    ])
  },
  scenarios: async () => {
    await preparedOnce()
    if (bun === undefined) return plain("scenarios: not run")
    const args = ["node_modules/vitest/vitest.mjs", "run", "--config", "test/vitest.scenarios.config.ts"]
    return vitest("scenarios", bun, args)
  },
  page: async () => {
    await preparedOnce()
    if (bun === undefined) return plain("page: not run")
    const args = ["node_modules/vitest/vitest.mjs", "run", "--config", "test/vitest.page.config.ts"]
    return sum([await typesOf("test/page"), await vitest("page", bun, args)])
  },
  interop: async () => {
    await preparedOnce()
    if (bun === undefined) return plain("interop: not run")
    return vitest("interop", bun, [
      "node_modules/vitest/vitest.mjs",
      "run",
      "--config",
      "test/vitest.interop.config.ts",
    ])
  },
  deno: async () => {
    await preparedOnce()
    if (environment.DENO_NO_UPDATE_CHECK === undefined) return plain("deno: not run")
    const args = ["run", "-A", "--node-modules-dir=manual", ...vitestRun]
    return withUnnamed("deno", denoTests, await vitest("deno", "deno", args, denoTests))
  },
  node: async () => {
    await preparedOnce()
    if (bun === undefined) return plain("node: not run")
    /** @type {string} */
    let node
    try {
      node = findNode()
    } catch (error) {
      return plain(`node: ${/** @type {Error} */ (error).message}`)
    }
    // Only Bun builds the page.
    const page = await run(bun, ["run", "test/support/tools/page.ts", "--if-needed"])
    if (!page.ok) return plain(`node: the page was not built (${page.how})`)
    const sources = pathToFileURL(join(root, "test/support/tools/source-names.js")).href
    // The launcher would run the command line in Bun.
    const more = { NODE_OPTIONS: `--import=${sources}`, CALLBOARD_RUNTIME: "node" }
    return withUnnamed("node", nodeTests, await vitest("node", node, vitestRun, nodeTests, more))
  },
}

/** A part of a path that is in the path of no test file counts as a failure. @param {string} stage @param {readonly string[]} parts @param {Outcome} outcome @returns {Outcome} */
function withUnnamed(stage, parts, outcome) {
  const empty = parts.filter((part) => !testFiles.some((file) => file.includes(part)))
  return {
    ...outcome,
    failures: [...outcome.failures, ...empty.map((part) => `${stage}: no test file is called ${part}…`)],
  }
}

/** Stages that run only with `--all`, or when they are named. */
const rare = ["scenarios", "chaos", "page", "package", "node", "interop"]
/** The stage `bun` has the unit tests, too. */
const usual = Object.keys(stages).filter((name) => name !== "unit" && (options.all || !rare.includes(name)))
const wanted = positionals.length > 0 ? positionals : usual
const unknown = wanted.filter((name) => !(name in stages))
if (unknown.length > 0) {
  process.stderr.write(`unknown: ${unknown.join(", ")}; there are ${Object.keys(stages).join(", ")}\n`)
  process.exit(2)
}

/** @type {Outcome[]} */
const outcomes = []
/** @param {string} name */
const runStage = async (name) => {
  const start = performance.now()
  const outcome = (await stages[name]?.()) ?? plain()
  outcomes.push(outcome)
  const all = [outcome, ...outcome.doubtful]
  const passed = all.reduce((total, each) => total + each.passed, 0)
  const failed = all.reduce((total, each) => total + each.failures.length, 0)
  const seconds = ((performance.now() - start) / 1000).toFixed(1)
  process.stdout.write(`== ${name}: ${passed} passed, ${failed} failed in ${seconds} s\n`)
}
// The stages run side by side, since tests mostly wait. Chaos, the browser and the installation keep both cores busy by themselves:
// they come after the others, one at a time.
await Promise.all(wanted.filter((name) => !rare.includes(name)).map(runStage))
for (const name of wanted.filter((each) => rare.includes(each))) await runStage(name)

const first = sum(outcomes)
const second = await runAgain(first.doubtful, raceTests, first.failures.length)
const failures = [...first.failures, ...second.failures]
const lines = [...second.flakes.map((flake) => `flaky: ${flake}`), ...missing]
if (failures.length > 0) process.stdout.write(`\n${failures.join("\n")}\n`)
if (lines.length > 0) process.stdout.write(`\n${lines.join("\n")}\n`)
process.stdout.write(`\n${first.passed + second.passed} passed, ${failures.length} failed\n`)
// A handle that a test has left open must not keep this process alive; all results are printed by now.
process.exit(failures.length === 0 ? 0 : 1)
