/** How the board is, and why jobs fail, on the command line. */
import { afterEach, beforeEach, expect, test } from "vitest"
import { makeProject, type Project } from "./project.ts"

let project: Project
beforeEach(() => {
  project = makeProject()
})
afterEach(() => project[Symbol.dispose]())

test("stats say what is wrong, and errors why, as text and as JSON", { timeout: 60_000 }, async () => {
  for (let n = 0; n < 5; n++) await project.json("submit", "works.fail")
  await project.run("worker", "--burst")
  await project.json("submit", "works.echo", "1")
  expect(await project.json("stats")).toMatchObject({
    counts: { failed: 5, queued: 1 },
    ended: { failed: 5 },
    findings: [{ code: "failing", evidence: { task: "works.fail", failed: 5 } }],
  })
  const { code, stdout } = await project.ask("stats", "--range", "24h")
  expect(code).toBe(0)
  expect(stdout).toContain("works.fail fails. Everything else is fine.")
  expect(stdout).toMatch(/failed +5/)
  const { errors } = await project.json<{
    readonly errors: ReadonlyArray<{ readonly fingerprint: string; readonly count: number }>
  }>("errors")
  expect(errors).toMatchObject([{ count: 5, name: "RangeError", template: "out of luck", status: "new" }])
  const fingerprint = errors[0]?.fingerprint ?? ""
  expect((await project.ask("errors", "--sort", "count")).stdout).toMatch(
    new RegExp(`${fingerprint} +5 .*RangeError: out of luck`),
  )
  expect((await project.ask("errors", fingerprint)).stdout).toMatch(/attempts +5/)
  expect((await project.ask("errors", "--state", "quiet")).stderr).toContain("no failures")
  for (const wrong of [
    ["stats", "--range", "2d"],
    ["errors", "--sort", "name"],
    ["errors", "--state", "muted"],
  ])
    expect((await project.ask(...wrong)).code).toBe(2)
  expect((await project.ask("errors", "ffffffff")).code).toBe(1)
})
