/** A worker that a handler blocks, on the command line: what it is told as, and how it is ended and started again. */
import { expect, test } from "vitest"
import { eventually } from "../support/servers/process.ts"
import { makeProject } from "./project.ts"

const spin = `
import { actor } from "callboard"
const cell = new Int32Array(new SharedArrayBuffer(4))
export default actor("spin", { methods: { spin: async () => void Atomics.wait(cell, 0, 0, 600_000), hello: async () => 1 } })
`

interface Workers {
  readonly workers: ReadonlyArray<{ readonly state: string; readonly pid: number }>
}

test("callboard worker: told as blocked by workers, why and stats; ended by cancel --terminate, and started again", async () => {
  using project = makeProject({ "actors/spin.ts": spin })
  await using worker = project.start("worker", "-n", "rw")
  const states = async () => (await project.json<Workers>("workers")).workers.map(({ state }) => state)
  await eventually(async () => (await states()).join() === "idle", { deadline: 60_000, message: "it is there" })
  await project.json("submit", "spin.spin", "--id", "spins")
  await eventually(async () => (await states()).join() === "blocked", { deadline: 60_000, message: "it is blocked" })
  await project.json("submit", "spin.hello", "--id", "behind")

  const list = await project.ask("workers")
  expect(list.stdout).toMatch(/^rw +blocked/m)
  expect(list.stderr).toMatch(/rw has been blocked for .* by job spins/)
  expect((await project.ask("why", "spins")).stdout).toMatch(/^running {2}.*has been blocking rw for/)
  expect((await project.ask("why", "behind")).stdout).toMatch(
    /^workers-blocked {2}rw has been blocked .*spin\.spin \(spins\)/,
  )
  expect((await project.ask("stats")).stdout).not.toMatch(/No worker takes/)
  const ping = await project.ask("inspect", "ping")
  expect(ping.stdout + ping.stderr).toMatch(/the handler of job spins blocks it/)

  const cancelled = await project.ask("cancel", "spins")
  expect(cancelled).toMatchObject({ code: 0, stdout: "spins  cancelled\n" })
  expect(cancelled.stderr).toMatch(/cannot be interrupted.*callboard cancel spins --terminate/)
  expect((await project.ask("cancel", "spins", "--terminate")).stderr).toMatch(/whose process exits within ten seconds/)
  await worker.waitForLine(/the worker was ended by SIGKILL; restarting it in 1 s/, 60_000)
  await eventually(async () => (await project.json<{ state: string }>("job", "behind")).state === "succeeded", {
    deadline: 60_000,
    message: "the new process runs what was behind it",
  })
  expect(await project.json("job", "spins")).toMatchObject({ state: "cancelled" })
  worker.kill("SIGTERM")
  await worker.exited
})
