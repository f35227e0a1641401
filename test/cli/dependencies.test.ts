/** Jobs that wait for jobs, on the command line. */
import { afterAll, beforeAll, expect, test } from "vitest"
import { eventually } from "../support/servers/process.ts"
import { makeProject, type Project } from "./project.ts"

interface Job {
  readonly id: string
  readonly state: string
  readonly after?: { readonly ids: ReadonlyArray<string>; readonly waiting?: ReadonlyArray<string> }
}

let project: Project
beforeAll(() => {
  project = makeProject()
})
afterAll(() => project?.[Symbol.dispose]())

const submit = (id: string, ...more: readonly string[]) =>
  project.json<Job>("submit", "works.echo", "1", "--id", id, ...more)
const stateOf = async (id: string) => (await project.json<Job>("job", id)).state

test("submit --after: it is deferred, its page and why say for whom it waits", async () => {
  await submit("a")
  await submit("b")
  const note = await project.ask("submit", "works.echo", "1", "--id", "c", "--after", "a, b")
  expect(note).toMatchObject({ code: 0, stdout: "c\n" })
  expect(note.stderr).toMatch(/deferred \(durability: fsync\)/)
  expect(await submit("d", "--after", "a", "--allow-failure")).toMatchObject({ state: "deferred" })
  expect(await project.json<Job>("job", "d")).toMatchObject({ after: { ids: ["a"], allowFailure: true } })

  const page = await project.ask("job", "c")
  expect(page.stdout).toMatch(/^works\.echo {2}c {2}deferred$/m)
  expect(page.stdout).toMatch(/^ {2}after +a, b$/m)
  expect(page.stdout).toMatch(/^ {2}waits for +a, b$/m)
  expect((await project.ask("job", "d")).stdout).toMatch(/^ {2}after +a \(failures allowed\)$/m)
  expect((await project.ask("why", "c")).stdout).toMatch(
    /^waiting-for-jobs +waiting for 2 other jobs to succeed: a \(queued\), b \(queued\)\n/,
  )
  const list = await project.json<{ readonly jobs: ReadonlyArray<Job> }>("jobs", "--state", "deferred")
  expect(list.jobs.map(({ id }) => id).sort()).toEqual(["c", "d"])
  expect((await project.ask("jobs", "--state", "deferred")).stdout).toMatch(/ deferred +works\.echo +c /)
})

test("what cannot be waited for is wrong usage, and told", async () => {
  const unknown = await project.ask("submit", "works.echo", "--after", "nobody")
  expect(unknown).toMatchObject({ code: 2, stdout: "" })
  expect(unknown.stderr).toMatch(/after: there is no job nobody/)
  const alone = await project.ask("submit", "works.echo", "--allow-failure")
  expect(alone).toMatchObject({ code: 2, stdout: "" })
  expect(alone.stderr).toMatch(/--allow-failure: name the jobs with --after/)
})

test("cancel --release lets those go that wait, also once the job is cancelled", async () => {
  await submit("p")
  await submit("q", "--after", "p")
  expect(await project.ask("cancel", "p")).toMatchObject({ code: 0, stdout: "p  cancelled\n" })
  expect(await stateOf("q")).toBe("deferred")
  expect((await project.ask("why", "q")).stdout).toMatch(/callboard cancel p --release\n/)
  expect(await project.ask("cancel", "p", "--release")).toMatchObject({ code: 0, stdout: "p  cancelled\n" })
  expect(await stateOf("q")).toBe("queued")
  expect(await project.ask("cancel", "p")).toMatchObject({ code: 1 })
})

test("delete --dependents forgets those that wait as well; without it they fail", async () => {
  for (const root of ["r", "s"]) {
    await submit(root)
    await submit(`${root}1`, "--after", root)
  }
  expect(await project.ask("delete", "r", "--dependents")).toMatchObject({ code: 0, stdout: "r  deleted\n" })
  expect((await project.ask("retry", "r1")).stderr).toMatch(/job r1 is no longer kept/)
  expect(await project.ask("delete", "s")).toMatchObject({ code: 0, stdout: "s  deleted\n" })
  expect(await stateOf("s1")).toBe("failed")
  expect((await project.ask("dead")).stdout).toMatch(/dependency-gone/)
})

test("a burst runs what waits for what it runs", async () => {
  await submit("x")
  await submit("y", "--after", "x")
  await submit("z", "--after", "x,y")
  const { code } = await project.run("worker", "--burst")
  expect(code).toBe(0)
  await eventually(async () => (await stateOf("z")) === "succeeded", { message: "z has run" })
  const page = await project.ask("job", "z")
  expect(page.stdout).toMatch(/^ {2}after +x, y$/m)
  expect(page.stdout).not.toMatch(/waits for/)
  expect(page.stdout).toMatch(/deferred\n.*queued +released\n.*started.*\n.*succeeded/)
})

test("group: lists groups, shows one by state, cancels it; one without jobs is not there", async () => {
  expect(await project.ask("group")).toMatchObject({
    code: 0,
    stdout: "",
    stderr: expect.stringContaining("no groups"),
  })
  const { connect } = await import("callboard")
  await using client = await connect(`sqlite:${project.path}/.callboard/board.db`)
  await client.map("works.echo", [1, 2]).then("works.echo", { id: "all" })
  expect(await project.json("group")).toEqual({ groups: ["all"] })
  expect((await project.ask("group")).stdout).toMatch(/^all$/m)
  expect(await project.json("group", "all")).toEqual({ id: "all", total: 2, states: { queued: 2 } })
  expect((await project.ask("group", "all")).stdout).toMatch(/^queued +2$/m)
  expect((await project.ask("job", "all")).stdout).toMatch(/^ {2}chord +2 members, not all ended$/m)
  expect((await project.ask("why", "all")).stdout).toMatch(/^waiting-for-jobs +waiting for the 2 members of its group/)
  expect(await project.json("group", "all", "--cancel")).toMatchObject({ states: { cancelled: 2 } })
  expect(await stateOf("all")).toBe("cancelled")
  const none = await project.ask("group", "none")
  expect(none).toMatchObject({ code: 1, stdout: "" })
  expect(none.stderr).toMatch(/there is no group none/)
})

test("submit --after may be repeated", async () => {
  for (const id of ["first", "second"]) await submit(id, "--delay", "1h")
  await submit("last", "--after", "first", "--after", "second")
  expect(await project.json<Job>("job", "last")).toMatchObject({ after: { ids: ["first", "second"] } })
})
