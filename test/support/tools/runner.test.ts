/** What `npm test` reports of a run that does not come to its end, or in which something fails. */
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { describe, expect, test } from "vitest"
import { spawnProcess, temporaryFolder } from "../servers/process.ts"
import { runAgain } from "./flakes.js"
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

describe("a file in which a test failed", () => {
  const runFiles = async (names: string) => {
    using folder = temporaryFolder()
    const env = { FIXTURE_FILES: names, FIXTURE_FOLDER: folder.path }
    await using run = spawnProcess("node", [runner, "--config", "test/fixtures/runner/flaky/vitest.config.ts", "bun"], {
      env,
    })
    return { ...(await run.closed), stdout: run.stdout }
  }

  test("is run again after the others; if it passes, it is printed as flaky, and each test counts once", {
    timeout: 120_000,
  }, async () => {
    const { code, stdout } = await runFiles("flaky hook")
    expect(stdout).toMatch(
      /\nflaky: bun: \S*flaky.case.ts > fails the first time: too late\n {2}too late\n {2}by a second\n/,
    )
    expect(stdout).toMatch(/\nflaky: bun: \S*hook.case.ts > passes: .*\n {2}the server is late\n/)
    expect(stdout).toMatch(/\n\n3 passed, 0 failed\n$/)
    expect(code).toBe(0)
  })

  test("fails the run if it fails again; so does what went wrong outside of tests, although it would pass now", {
    timeout: 120_000,
  }, async () => {
    const { code, stdout } = await runFiles("flaky broken unloadable rejecting")
    const end = stdout.slice(stdout.lastIndexOf("== again"))
    expect(end).toMatch(/\nbun: \S*broken.case.ts > always fails: on purpose\n/)
    expect(end).toMatch(/\nbun: \S*unloadable.case.ts: cannot be loaded\n/)
    expect(end).toMatch(/\nbun: outside of tests: nobody handles this\n/)
    expect(end).toMatch(/\nflaky: bun: \S*flaky.case.ts > .*\n {2}too late\n {2}by a second\n\n4 passed, 3 failed\n$/)
    expect(code).toBe(1)
  })

  const good = { passed: 3, failures: [], doubtful: [] }
  const bad = { passed: 2, failures: ["outside of tests: late"], doubtful: [] }
  /** A file whose further runs end so. */
  const failed = (name: string, ...runs: ReadonlyArray<typeof good | typeof bad>) => {
    let at = 0
    const again = async () => runs[at++] ?? bad
    return {
      file: `/root/${name}`,
      passed: 2,
      failures: [`bun: ${name} > one: late`],
      text: "late",
      again,
      ran: () => at,
    }
  }

  test("is not run again if more than five failed", async () => {
    const files = Array.from({ length: 6 }, (_, at) => failed(`${at}.test.ts`, good))
    expect(await runAgain(files, [])).toEqual({
      passed: 12,
      failures: files.flatMap(({ failures }) => failures),
      flakes: [],
    })
    expect(files.map(({ ran }) => ran())).toEqual([0, 0, 0, 0, 0, 0])
    expect((await runAgain(files.slice(1), [])).flakes).toHaveLength(5)
  })

  test("that may show a race must pass three times more", async () => {
    const raced = failed("kit.test.ts", good, good, good, bad)
    expect(await runAgain([raced], ["kit.test.ts"])).toEqual({ passed: 2, failures: raced.failures, flakes: [] })
    const flaky = failed("kit.test.ts", good, good, good, good)
    expect(await runAgain([flaky], ["kit.test.ts"])).toEqual({
      passed: 3,
      failures: [],
      flakes: ["bun: kit.test.ts > one: late\n  late"],
    })
    expect([raced.ran(), flaky.ran()]).toEqual([4, 4])
  })
})

test("a file that leaves globals replaced fails by its name, and the next one has the real ones", {
  timeout: 120_000,
}, async () => {
  await using run = spawnProcess("node", [runner, "--config", "test/fixtures/runner/globals/vitest.config.ts", "bun"])
  expect(await run.closed).toEqual({ code: 1, signal: null })
  const named = "a-leaves.case.ts leaves replaced: setTimeout, Date.now, process.env.LEFT"
  expect(run.stdout).toContain("\n2 passed, 1 failed\n")
  expect(run.stdout).toContain(named)
  expect(run.stdout).not.toContain("b-follows.case.ts leaves")
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
      doubtful: [],
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
      doubtful: [],
      missing: [missing],
    })
  })

  test("that are none mean that nothing ran", () => {
    expect(read([])).toEqual({ passed: 0, failures: ["no tests were found (exit code 1)"], doubtful: [], missing: [] })
  })

  test("in which a test or a hook failed leave the file in doubt", () => {
    const [a, b] = ["/root/a.test.ts", "/root/b.test.ts"]
    const lines = [
      { files: [a, b] },
      { begun: a },
      { file: a, test: "one", state: "passed", errors: [] },
      { file: a, test: "two", state: "failed", errors: ["late\nby a second"] },
      { ended: a, ok: false, errors: [] },
      { begun: b },
      { file: b, test: "one", state: "passed", errors: [] },
      { ended: b, ok: false, errors: ["a hook failed"] },
    ]
    expect(read([...lines, { finished: true, errors: [] }])).toEqual({
      passed: 0,
      failures: [],
      doubtful: [
        { file: a, passed: 1, failures: ["a.test.ts > two: late"], text: "late\nby a second" },
        { file: b, passed: 1, failures: ["b.test.ts: a hook failed"], text: "a hook failed" },
      ],
      missing: [],
    })
    // Of a run that did not come to its end nothing is in doubt.
    expect(read(lines)).toEqual({
      passed: 2,
      failures: ["a.test.ts > two: late", "b.test.ts: a hook failed"],
      doubtful: [],
      missing: [],
    })
  })
})
