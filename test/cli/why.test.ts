/** `callboard why`: a cause per line, the true one first. */
import { expect, test } from "vitest"
import { makeProject } from "./project.ts"

interface Why {
  readonly causes: ReadonlyArray<{ readonly code: string }>
}

test("says why a job waits; what cannot be reached is exit code 4", async () => {
  using project = makeProject()
  await project.json("submit", "works.echo", "--id", "waits")
  expect(await project.ask("why", "waits")).toMatchObject({
    code: 0,
    stdout: "no-worker  no worker is running; start one: callboard worker -Q default\n",
  })
  await project.ask("pause", "default")
  const { stdout } = await project.ask("why", "waits")
  expect(stdout.split("\n").map((line) => line.split(" ")[0])).toEqual(["queue-paused", "no-worker", ""])
  await project.ask("resume", "default")
  expect(await project.json<Why>("why", "waits")).toMatchObject({
    id: "waits",
    state: "queued",
    causes: [{ code: "no-worker", queue: "default" }],
  })
  const unknown = await project.ask("why", "nobody")
  expect(unknown).toMatchObject({ code: 1, stdout: "", stderr: "callboard: there is no job nobody\n" })
  project.env["CALLBOARD_TRANSPORT"] = "nats://127.0.0.1:1"
  const away = await project.ask("why", "waits")
  expect(away.code).toBe(4)
  expect(away.stderr).toMatch(/--transport, and see: callboard doctor/)
})
