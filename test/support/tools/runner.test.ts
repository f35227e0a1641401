/** What `npm test` reports of a run that does not come to its end. */
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { describe, expect, test } from "vitest"
import { spawnProcess } from "../servers/process.ts"
import { readResults } from "./results.js"

const root = fileURLToPath(new URL("../../..", import.meta.url))
const config = "test/fixtures/runner/vitest.config.ts"
const runner = join(root, "test/support/tools/test.js")

/** What the files of the fixture leave: one that ended, one that hangs, one whose turn never came. */
const reported = (why: string): RegExp =>
  new RegExp(
    [
      "a-ends.case.ts > fails: on purpose",
      "a-ends.case.ts > is skipped: skipped, not run",
      "a-ends.case.ts > is to be written: skipped, not run",
      `b-hangs.case.ts: not finished \\(${why}\\)`,
      `not begun \\(${why}\\): \\S*c-waits.case.ts`,
      "",
      "2 passed, 5 failed\n$",
    ].join("\n.*"),
  )

test("a run that reaches its limit says what ran, and names what it had not finished", {
  timeout: 240_000,
}, async () => {
  // It is not known how soon the first file has ended: that depends on the machine.
  for (const limit of [8, 32, 128]) {
    await using run = spawnProcess("node", [runner, "--limit", `${limit}`, "--config", config, "bun"])
    expect(await run.closed).toEqual({ code: 1, signal: null })
    if (limit < 128 && !run.stdout.includes("\n2 passed, 5 failed\n")) continue
    return expect(run.stdout).toMatch(reported(`the limit of ${limit} s was reached`))
  }
})

test("so does one that is ended by a signal", { timeout: 120_000 }, async () => {
  await using run = spawnProcess("node", [runner, "--config", config, "bun"])
  await run.waitForLine(/^hanging$/)
  run.kill("SIGTERM")
  expect(await run.closed).toEqual({ code: 1, signal: null })
  expect(run.stdout).toMatch(/\nbun: \S*b-hangs.case.ts: not finished \(ended by SIGTERM\)\n/)
})

describe("the lines of a run", () => {
  const read = (lines: ReadonlyArray<object>, rest = "") =>
    readResults(lines.map((line) => `${JSON.stringify(line)}\n`).join("") + rest, "/root/", "exit code 1")

  test("whose last one was cut are read without it", () => {
    const file = "/root/a.test.ts"
    const passed = { file, test: "one", state: "passed", errors: [] }
    expect(read([{ files: [file] }, { begun: file }, passed], '{"file":"/root/a.te')).toEqual({
      passed: 1,
      failures: ["a.test.ts: not finished (exit code 1)"],
      missing: [],
    })
  })

  test("of a file that failed outside of its tests, and of errors outside of files, are failures", () => {
    const file = "/root/a.test.ts"
    const missing = "missing server: nats-server — install it"
    const lines = [
      { files: [file] },
      { begun: file },
      { ended: file, ok: false, errors: [missing] },
      { finished: true, errors: ["thrown by a timer\nwith a stack"] },
    ]
    expect(read(lines)).toEqual({
      passed: 0,
      failures: [`a.test.ts: ${missing}`, "outside of tests: thrown by a timer"],
      missing: [missing],
    })
  })

  test("that are none mean that nothing ran", () => {
    expect(read([])).toEqual({ passed: 0, failures: ["no tests were found (exit code 1)"], missing: [] })
  })
})
