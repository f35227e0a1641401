/** `callboard events`, with a worker in another process. */
import { afterAll, beforeAll, expect, test } from "vitest"
import { eventText } from "../../runtime/cli/commands/events.ts"
import type { Spawned } from "../support/servers/process.ts"
import { makeProject, type Project } from "./project.ts"

let project: Project
let worker: Spawned
beforeAll(async () => {
  project = makeProject()
  worker = project.start("worker", "-Q", "default", "-c", "2", "-n", "w1", "--events")
  await worker.waitForLine(/message=ready .*worker=w1/)
})
afterAll(async () => {
  await worker?.end()
  project?.[Symbol.dispose]()
})

test("one line per event, until Ctrl+C", async () => {
  await using events = project.start("events", "--types", "task-*")
  await events.waitForLine(/listening/)
  const { stdout } = await project.ask("submit", "works.fail")
  const id = stdout.trim()
  await events.waitForLine(/task-failed/)
  const lines = events.stdout.trim().split("\n")
  expect(lines.map((line) => line.split(/\s+/)[1])).toEqual(["task-received", "task-started", "task-failed"])
  expect(lines[2]).toMatch(
    new RegExp(
      `^\\d\\d:\\d\\d:\\d\\d\\.\\d{3} {2}task-failed {7}w1@\\S+ {2}uuid=${id} {2}exception=RangeError\\("out of luck"\\)$`,
    ),
  )
  events.kill("SIGINT")
  expect((await events.closed).code).toBe(0)
})

test("--json gives a map per line; the worker's own events come without being asked for", async () => {
  await using events = project.start("events", "--json", "--types", "worker-heartbeat")
  await events.waitForLine(/worker-heartbeat/)
  events.kill("SIGTERM")
  expect((await events.closed).code).toBe(0)
  for (const line of events.stdout.trim().split("\n")) {
    expect(JSON.parse(line)).toMatchObject({ type: "worker-heartbeat", freq: 2, sw_ident: "callboard" })
  }
})

test("types that cannot be are wrong usage", async () => {
  const { code, stderr } = await project.run("events", "--types", "task failed")
  expect({ code, stderr }).toEqual({
    code: 2,
    stderr: "callboard: --types task failed: separate types with commas, such as task-failed,worker-*\n",
  })
})

test("what somebody tells cannot drive the terminal", () => {
  const line = eventText(
    { type: "order-\u001b[2Jshipped", hostname: "a\nb\u0007", text: "\u001b]0;title\u0007x\n\u009by", n: 2n ** 60n },
    { paint: (text) => text },
  )
  // biome-ignore lint/suspicious/noControlCharactersInRegex: that is what must not be there
  expect(line).not.toMatch(/[\u0000-\u001f\u007f-\u009f]/)
  expect(line).toMatch(/^--:--:--\.--- {2}order-shipped/)
})
