/** Every command to workers, on the command line: what is answered, and the exit code. */
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { eventually, type Spawned } from "../support/servers/process.ts"
import { makeProject, type Project, works } from "./project.ts"

/** Runs until its signal fires. */
const hold = `
import { actor } from "callboard"
export default actor("hold", {
  methods: { run: (_, { signal }) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))) },
})
`

let project: Project
let worker: Spawned
beforeAll(async () => {
  project = makeProject({ "actors/works.ts": works, "actors/hold.ts": hold })
  worker = project.start("worker", "-Q", "default", "-c", "1", "-n", "w1")
  await worker.waitForLine(/message=ready.*worker=w1/)
})
afterAll(async () => {
  await worker?.end()
  project?.[Symbol.dispose]()
})

const answers = async (...args: ReadonlyArray<string>): Promise<unknown> => {
  const { answers } = await project.json<{ answers: ReadonlyArray<{ worker: string; value: unknown }> }>(...args)
  const [answer, ...others] = answers
  expect(others).toEqual([])
  expect(answer?.worker).toBe("w1")
  return answer?.value
}
const stateOf = async (id: string) => (await project.json<{ state: string }>("job", id)).state

test("inspect: every question has its answer", { timeout: 120_000 }, async () => {
  // Both come with one pull: behind a job that runs for more than a second nothing is fetched ahead.
  await project.json("pause", "default")
  await project.json("submit", "hold", "--id", "runs")
  await project.json("submit", "works.echo", "--id", "waits")
  await project.json("resume", "default")
  await eventually(async () => (await stateOf("runs")) === "started", { message: "it runs" })
  await project.json("submit", "works.echo", "--id", "later", "--delay", "1h")
  expect(await answers("inspect", "ping")).toBe("pong")
  expect(await answers("inspect", "active")).toMatchObject([{ id: "runs", name: "hold", attempt: 1 }])
  await eventually(async () => JSON.stringify(await answers("inspect", "reserved")).includes('"waits"'), {
    message: "the other waits in the worker",
  })
  expect(await answers("inspect", "put-off")).toEqual([])
  expect(await answers("inspect", "stats")).toMatchObject({ name: "w1", concurrency: 1, state: "busy", inFlight: 2 })
  expect(await answers("inspect", "registered")).toMatchObject([{ name: "hold" }, { name: "works" }])
  expect(await answers("inspect", "queues")).toEqual(["default"])
  expect(await project.json("inspect", "scheduled")).toMatchObject({
    jobs: [{ id: "later", state: "scheduled" }],
  })
  expect((await project.ask("inspect", "ping", "--workers", "w1", "--timeout", "2s")).stdout).toMatch(/^w1 +pong$/m)
})

test("control: every command does what it says", { timeout: 60_000 }, async () => {
  expect(await answers("control", "pool-grow", "2")).toEqual({ concurrency: 3 })
  await eventually(async () => (await stateOf("waits")) === "succeeded", { message: "what waited runs" })
  expect(await answers("control", "pool-shrink", "1")).toEqual({ concurrency: 2 })
  expect(await answers("control", "add-consumer", "more")).toEqual(["default", "more"])
  expect(await answers("control", "cancel-consumer", "more")).toEqual(["default"])
  expect(await answers("control", "time-limit", "works.echo", "10", "5")).toMatchObject({ hard: 10, soft: 5 })
  expect(await answers("control", "rate-limit", "works.echo", "100/s")).toMatchObject({ rate: "100/s" })
  expect(await answers("control", "rate-limit", "works.echo", "none")).toMatchObject({ rate: "none" })
  expect(await answers("control", "enable-events")).toBe("task events enabled")
  expect(await answers("control", "disable-events")).toBe("task events disabled")
  expect(await answers("control", "autoscale", "1..3")).toEqual({ min: 1, max: 3 })
  expect((await project.ask("control", "revoke", "later")).code).toBe(0)
  expect(await stateOf("later")).toBe("cancelled")
  expect((await project.ask("control", "terminate", "runs")).code).toBe(0)
  expect(await stateOf("runs")).toBe("cancelled")
})

test("pause, resume and purge; suspend and unsuspend", { timeout: 60_000 }, async () => {
  expect(await project.ask("pause", "default")).toMatchObject({ code: 0, stderr: "" })
  await project.json("submit", "works.echo", "--id", "held")
  await project.json("submit", "works.echo", "--id", "purged")
  expect((await project.ask("queues")).stdout).toMatch(/^default +2 .*paused$/m)
  expect((await project.ask("purge", "default", "--yes")).stdout).toMatch(/2/)
  expect(await Promise.all([stateOf("held"), stateOf("purged")])).toEqual(["cancelled", "cancelled"])
  expect((await project.ask("resume", "default")).code).toBe(0)
  expect(await project.ask("pause", "defualt")).toEqual({
    code: 0,
    stdout: "defualt  paused\n",
    stderr:
      "no queue defualt is known (did you mean default?): it has no tasks and no worker consumes it; it is paused anyway\n",
  })
  expect(await project.ask("resume", "defualt")).toMatchObject({ code: 0, stderr: "" })
  expect((await project.ask("suspend", "w1")).code).toBe(0)
  await eventually(async () => (await project.ask("workers")).stdout.includes("suspended"), {
    message: "it is suspended",
  })
  await project.json("submit", "works.echo", "--id", "after")
  expect(await stateOf("after")).toBe("queued")
  expect((await project.ask("unsuspend", "w1")).code).toBe(0)
  // The name is of a worker that may start later; a misspelt name has to be noticed.
  expect(await project.ask("suspend", "w3", "--ttl", "1s")).toMatchObject({
    code: 0,
    stdout: "w3  suspended\n",
    stderr: "no worker named w3 is running; it will be suspended when it starts\n",
  })
  expect(await project.json("unsuspend", "w3")).toEqual({ worker: "w3", state: "at work again" })
  await eventually(async () => (await stateOf("after")) === "succeeded", { message: "it runs" })
})

test("purge asks on a terminal, and only a yes is one", { timeout: 60_000 }, async () => {
  for (const id of ["asked1", "asked2"]) await project.json("submit", "works.echo", "--queue", "asked", "--id", id)
  const purge = async (answer: string) => {
    await using terminal = project.onTerminal("purge", "asked")
    await terminal.waitForLine(/purge asked: cancel 2 waiting tasks\? \[y\/N\] /)
    terminal.write(answer)
    return { code: (await terminal.closed).code, output: terminal.output }
  }
  expect(await purge("\n")).toMatchObject({ code: 1, output: expect.stringContaining("nothing was cancelled") })
  expect(await stateOf("asked1")).toBe("queued")
  expect(await purge("y\n")).toMatchObject({ code: 0 })
  expect(await stateOf("asked1")).toBe("cancelled")
})

describe("what cannot be done ends with exit code 1, and says why", () => {
  test.each([
    ["inspect ping --workers w2", "stderr", /^callboard: no worker named "w2" is running \(did you mean w1\?\)$/m],
    ["control pool-shrink 100", "stdout", /^w1 +count: the worker has \d handler\(s\) and must keep one: at most \d$/m],
    ["control rate-limit works.no 1/s", "stdout", /^w1 +task: .*does not serve works\.no$/m],
    ["control cancel-consumer none", "stdout", /^w1 +queue: .*does not consume none$/m],
    ["control revoke nobody", "stderr", /there is no job nobody/],
  ] as const)("callboard %s", async (args, stream, why) => {
    const ran = await project.ask(...args.split(" "))
    expect(ran.code).toBe(1)
    expect(ran[stream]).toMatch(why)
  })
})

test("S167 shutdown: the worker ends with exit code 0, soon", async () => {
  expect(await answers("control", "shutdown")).toBe("stopping")
  const told = performance.now()
  expect(await worker.exited).toEqual({ code: 0, signal: null })
  expect(performance.now() - told).toBeLessThan(5_000)
  expect(await project.ask("inspect", "ping")).toMatchObject({ code: 1, stderr: "no workers are running\n" })
})
