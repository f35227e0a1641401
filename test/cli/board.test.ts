/** Job boards on the command line. */
import { readdirSync } from "node:fs"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { eventually } from "../support/servers/process.ts"
import { makeProject, type Project } from "./project.ts"

interface Job {
  readonly id: string
  readonly name: string
  readonly state: string
  readonly owner: string | null
  readonly story: ReadonlyArray<{ readonly step: string }>
}

let project: Project
beforeAll(() => {
  project = makeProject()
})
afterAll(() => project[Symbol.dispose]())

const post = async (board: string, name: string, ...rest: ReadonlyArray<string>): Promise<string> =>
  (await project.ask("board", "post", board, name, ...rest)).stdout.trim()

test("a job is posted, listed, claimed, extended and consumed", async () => {
  const id = await post("b1", "a", '{"n":1}', "--priority", "low", "--book", "b=u")
  const second = await post("b1", "b")
  const { jobs } = await project.json<{ jobs: ReadonlyArray<Job> }>("board", "list", "b1")
  expect(jobs).toMatchObject([
    { id: second, name: "b", priority: "NORMAL" },
    { id, name: "a", priority: "LOW", details: { n: 1 }, book: { name: "b", uuid: "u" } },
  ])
  expect(await project.json("board", "count", "b1")).toEqual({ count: 2 })
  expect(await project.json<Job>("board", "claim", "b1", "-o", "me")).toMatchObject({
    id: second,
    owner: "me",
    claim: 1,
  })
  const listed = await project.ask("board", "list", "b1", "--unclaimed", "--wide")
  expect(listed.stdout).toContain(id)
  expect(listed.stdout).not.toContain(second)
  expect((await project.ask("board", "extend", "b1", second, "5m", "-o", "me")).stdout).toBe("extended\n")
  const { stdout } = await project.ask("board", "show", "b1", second)
  expect(stdout).toMatch(/^b {2}\S+ {2}CLAIMED$/m)
  expect(stdout).toMatch(/owner +me for 29\d.* s, claim 1/)
  const done = await project.json<Job>("board", "consume", "b1", second, "-o", "me", "--claim", "1")
  expect(done.story.map(({ step }) => step)).toEqual(["posted", "claimed", "consumed"])
  // Without `--owner` the owner is the user of this machine, the same for all commands.
  expect((await project.json<Job>("board", "claim", "b1", id, "--expiry", "none")).owner).toMatch(/^.+@.+$/)
  expect(await project.json<Job>("board", "abandon", "b1", id)).toMatchObject({ state: "UNCLAIMED" })
  await project.json("board", "claim", "b1", id)
  await project.json("board", "trash", "b1", id)
  expect((await project.ask("board", "trashed", "b1", "--wide")).stdout).toContain(id)
  expect(await project.json("board", "trashed", "b1", id)).toMatchObject({ state: "COMPLETE" })
  expect((await project.ask("board", "wait", "b1", id)).stdout).toBe("complete\n")
  expect(await project.json<Job>("board", "restore", "b1", id)).toMatchObject({ id, state: "UNCLAIMED" })
  expect((await project.ask("board", "wait", "b1", "--wide")).stdout).toContain(id)
  expect((await project.ask("board", "entities", "b1")).stderr).toBe("no entities\n")
})

test("a page of the trash that is full says where to go on", async () => {
  const ids: Array<string> = []
  for (const name of ["a", "b", "c"]) {
    const id = await post("b6", name)
    ids.push(id)
    await project.json("board", "claim", "b6", id)
    await project.json("board", "trash", "b6", id)
  }
  ids.sort()
  const first = await project.json<{ next: string }>("board", "trashed", "b6", "--limit", "2")
  expect(first).toMatchObject({ jobs: [{ id: ids[0] }, { id: ids[1] }], next: ids[1] })
  const last = await project.json("board", "trashed", "b6", "--limit", "2", "--cursor", first.next)
  expect(last).toEqual({ jobs: [expect.objectContaining({ id: ids[2] })] })
  const page = await project.ask("board", "trashed", "b6", "--limit", "2")
  expect(page.stderr).toBe(`there may be more: --cursor ${ids[1]}\n`)
})

test("a claim waits for a job that is posted elsewhere, and watch tells of it", async () => {
  await using watch = project.start("board", "watch", "b2")
  await using claim = project.start("board", "claim", "b2", "--wait", "1m", "--json")
  const ids: Array<string> = []
  await eventually(
    async () => {
      ids.push(await post("b2", "a"))
      return ids.some((id) => watch.output.includes(`POSTED  ${id}  a`))
    },
    { every: 500, message: "it is told" },
  )
  await claim.closed
  expect(ids).toContain(JSON.parse(claim.stdout).id)
  await watch.end()
})

/** How many processes listen to the board's news: each has a socket of its own. */
const listeners = (): number =>
  readdirSync(project.path, { recursive: true, withFileTypes: true }).filter((entry) => entry.isSocket()).length

test("a wait that is interrupted has not timed out", async () => {
  const id = await post("b8", "a")
  for (const args of [
    ["claim", "b7", "--wait", "1m"],
    ["wait", "b7", "--timeout", "1m"],
    ["wait", "b8", id, "--timeout", "1m"],
  ]) {
    const before = listeners()
    await using child = project.start("board", ...args)
    await eventually(() => listeners() > before)
    child.kill("SIGINT")
    const { code } = await child.closed
    expect(child.output).toMatch(/was cancelled|not complete yet/)
    expect(code).toBe(1)
  }
})

describe("what is refused has the message that it has in code, and an exit code", () => {
  const unknown = "01a1faa7-32a8-772e-8df9-81ca40f8a698-2-0-0"
  test.each([
    [["post", "b3", ""], 2, /name: /],
    [["post", "b3", "a", "--priority", "urgent"], 2, /priority: must be one of VERY_HIGH, HIGH/],
    [["post", "b3", "a", "[]"], 2, /details: must be an object/],
    [["post", "b/3", "a"], 2, /board: a name must be 1 to 64/],
    [["claim", "b3"], 1, /board b3 can be claimed: .* 0 s/],
    [["claim", "b3", "--wait", "0.1"], 3, /board b3 can be claimed: .* 0\.1 s/],
    [["claim", "b3", "-o", ""], 2, /owner: must be text of 1 to 255 bytes/],
    [["claim", "b3", "--expiry", "0"], 2, /expiry: must be more than 0/],
    [["claim", "b3", "--expiry", "-1"], 2, /expiry: .*negative/],
    [["claim", "b3", unknown], 1, /job .* is not on the board/],
    [["consume", "b3", unknown], 1, /job .* is not on the board/],
    [["extend", "b3", unknown, "5m"], 1, /job .* is not on the board/],
    [["restore", "b3", unknown], 1, /job .* is not in the trash of board b3/],
    [["show", "b3", "x"], 1, /job x is not on the board/],
    [["wait", "b3", "nope"], 1, /"nope" is not the id of a job of a board/],
    [["wait", "b3", "--timeout", "0.1"], 3, /no job on board b3: .* 0\.1 s/],
    [["list", "b3", "--cursor", "x"], 2, /cursor: does not belong to this list/],
  ] as const)("%j", async (args, exitCode, message) => {
    const { code, stderr } = await project.ask("board", ...args)
    expect(stderr).toMatch(message)
    expect(code).toBe(exitCode)
  })

  test("a wait for the end of a job is over before that", async () => {
    const id = await post("b5", "a")
    const waited = await project.ask("board", "wait", "b5", id, "--timeout", "0.1")
    expect(waited).toMatchObject({ code: 3, stdout: "not complete yet\n" })
  })

  test("another owner's job", async () => {
    const id = await post("b4", "a")
    await project.json("board", "claim", "b4", id, "-o", "me")
    const claimed = await project.ask("board", "claim", "b4", id, "-o", "other")
    expect(claimed).toMatchObject({ code: 1, stderr: `callboard: job ${id} is claimed by "me"\n` })
    const consumed = await project.ask("board", "consume", "b4", id, "-o", "other")
    expect(consumed).toMatchObject({ code: 1, stderr: `callboard: job ${id} is claimed by "me", not by "other"\n` })
    await project.json("board", "abandon", "b4", id, "-o", "me")
    const extended = await project.ask("board", "extend", "b4", id, "5m", "-o", "me")
    expect(extended).toMatchObject({
      code: 1,
      stdout: "",
      stderr: expect.stringMatching(`^callboard: job ${id} is not claimed: .*\n$`),
    })
  })
})

test("a conductor has the jobs of a board run, and ends with Ctrl+C", async () => {
  const wrong = await project.ask("conductor", "b9", "--max", "many")
  expect([wrong.code, wrong.stderr]).toEqual([2, "callboard: --max many: must be a whole number\n"])
  const bad = await project.ask("conductor", "a b")
  expect(bad.code).toBe(2)
  expect(bad.stderr).toMatch(/^callboard: board: a name must be 1 to 64 letters/)
  const id = await post("b9", "a")
  await using conductor = project.start("conductor", "b9", "--json")
  await conductor.waitForLine(/job_trashed/)
  expect(JSON.parse(conductor.output.split("\n")[0] ?? "")).toEqual({
    event: "job_trashed",
    board: "b9",
    id,
    name: "a",
    why: "details.flow: must be the name of a flow",
  })
  expect((await project.ask("board", "entities", "b9")).stdout).toMatch(/^conductor +conductor@/m)
  conductor.kill("SIGINT")
  expect((await conductor.closed).code).toBe(0)
  expect((await project.ask("board", "entities", "b9")).stderr).toBe("no entities\n")
})
