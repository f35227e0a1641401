/** Schedules on the command line: made, shown, changed, run, deleted; and refused with the same words as over code and HTTP. */
import { afterAll, beforeAll, expect, test } from "vitest"
import { badSchedules } from "../support/bad-schedules.ts"
import { makeProject, type Project, works } from "./project.ts"

interface Schedule {
  readonly name: string
  readonly state: string
  readonly fields: Readonly<Record<string, unknown>>
}

/** A method that says itself when it runs. */
const clock = `
import { actor } from "callboard"
export default actor("clock", {
  methods: { tick: { schedule: { cron: "0 7 * * mon", timeZone: "Europe/Berlin", input: { from: "clock" } }, run: (input) => input } },
})
`

let project: Project
beforeAll(() => {
  project = makeProject({ "actors/works.ts": works, "actors/clock.ts": clock })
})
afterAll(() => project?.[Symbol.dispose]())

test("create, list, show, change, pause, resume, run, delete", { timeout: 60_000 }, async () => {
  const made = await project.ask(
    ...["schedules", "create", "weekly", "works.echo", '{"n": 1}', "--cron", "0 7 * * mon"],
    ...["--time-zone", "Europe/Berlin", "--overlap", "skip", "--jitter", "30", "--fields", '{"description": "weekly"}'],
  )
  expect(made).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^weekly {2}0 7 \* \* mon Europe\/Berlin {2}works\.echo\n {2}next/),
  })
  const fields = { task: "works.echo", input: { n: 1 }, cron: "0 7 * * mon", timeZone: "Europe/Berlin" }
  expect(await project.json<Schedule>("schedules", "show", "weekly")).toMatchObject({
    state: "active",
    fields: { ...fields, overlap: "skip", jitter: 30, description: "weekly" },
  })
  expect(await project.ask("schedules", "create", "weekly", "works.echo", "--every", "60")).toMatchObject({
    code: 1,
    stderr: "callboard: schedule weekly exists already: change it, or delete it first\n",
  })
  const list = await project.ask("schedules")
  expect(list.stdout).toMatch(/^NAME +WHEN +TASK +NEXT +LAST +MISSED$/m)
  expect(list.stdout).toMatch(/^weekly +0 7 \* \* mon Europe\/Berlin +works\.echo +20\d\d-/m)
  expect(
    await project.json<Schedule>(
      ...["schedules", "change", "weekly", "--cron", "0 8 * * tue", "--priority", "9"],
      ...["--fields", '{"jitter": null}'],
    ),
  ).toMatchObject({ fields: { cron: "0 8 * * tue", timeZone: "Europe/Berlin", priority: 9 } })
  expect((await project.ask("schedules", "pause", "weekly")).stdout).toBe("weekly  paused\n")
  expect((await project.ask("schedules")).stdout).toMatch(/^weekly .* paused$/m)
  const id = (await project.ask("schedules", "run", "weekly")).stdout.trim()
  expect(id).toMatch(/^weekly-\d{8}T\d{6,9}Z$/)
  expect(await project.json<Schedule>("job", id)).toMatchObject({ state: "queued", priority: 9 })
  expect((await project.ask("schedules", "show", "weekly")).stdout).toMatch(new RegExp(`^  run .* ${id}  queued$`, "m"))
  expect((await project.ask("schedules", "resume", "weekly")).stdout).toBe("weekly  active\n")
  expect((await project.ask("schedules", "delete", "weekly")).stdout).toBe("weekly  deleted\n")
  for (const action of ["show", "change", "pause", "resume", "run", "delete"]) {
    expect(await project.ask("schedules", action, "weekly")).toMatchObject({
      code: 1,
      stderr: "callboard: there is no schedule weekly\n",
    })
  }
  expect((await project.ask("schedules")).stderr).toBe("no schedules\n")
})

test("a worker makes what its actors declare; a pause outlasts it", { timeout: 60_000 }, async () => {
  const worker = () => project.run("worker", "--burst")
  expect((await worker()).code).toBe(0)
  const declared = await project.json<Schedule>("schedules", "show", "clock.tick")
  expect(declared).toMatchObject({
    state: "active",
    declaredBy: "clock",
    fields: { task: "clock", meth: "tick", cron: "0 7 * * mon", timeZone: "Europe/Berlin", input: { from: "clock" } },
  })
  await project.ask("schedules", "pause", "clock.tick")
  await worker()
  expect((await project.json<Schedule>("schedules", "show", "clock.tick")).state).toBe("paused")
  project.write("actors/clock.ts", clock.replace("0 7 * * mon", "0 9 * * *"))
  await worker()
  expect(await project.json<Schedule>("schedules", "show", "clock.tick")).toMatchObject({
    state: "paused",
    fields: { cron: "0 9 * * *" },
  })
  project.write("actors/clock.ts", clock.replace(/schedule: \{.*\} \}, run/, "run"))
  await worker()
  expect((await project.ask("schedules", "show", "clock.tick")).code).toBe(1)
})

test.each(badSchedules)("$what", async ({ name = "bad", fields: { task, ...fields }, message }) => {
  const answer = await project.ask("schedules", "create", name, "works.echo", "--fields", JSON.stringify(fields))
  expect(answer).toMatchObject({ code: 2, stderr: `callboard: ${message}\n` })
})
