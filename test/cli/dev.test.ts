/** `callboard dev`: what it prints works when pasted, changes reach it in a new process, and nothing is lost meanwhile. */
import { createServer } from "node:net"
import { join } from "node:path"
import { expect, test } from "vitest"
import { eventually, freePort, isRunning, type Spawned, spawnProcess } from "../support/servers/process.ts"
import { makeProject, type Project } from "./project.ts"

const hello = (greeting: string) => `
import { existsSync } from "node:fs"
import { actor } from "callboard"
const passed = (ms) => new Promise((resolve) => setTimeout(resolve, ms))
export default actor("hello", {
  methods: {
    greet: async ({ name = "world" }) => "${greeting}, " + name,
    wait: async ({ ms = 20, until }) => {
      console.log("waiting", process.pid)
      do await passed(ms)
      while (until !== undefined && !existsSync(until))
      return "${greeting}"
    },
  },
})
`

interface Dev {
  readonly process: Spawned
  readonly url: string
}

const startDev = async (project: Project, ...args: readonly string[]): Promise<Dev> => {
  const process = project.start("dev", "--port", String(await freePort()), ...args)
  const [, url = ""] = await process.waitForLine(/http +(http:\/\/127\.0\.0\.1:\d+)/)
  await process.waitForLine(/^ {2}curl /)
  return { process, url }
}

const submit = async (url: string, submission: object, wait = 10) => {
  const response = await fetch(`${url}/v1/jobs`, {
    method: "POST",
    headers: { "content-type": "application/json", ...(wait > 0 ? { prefer: `wait=${wait}` } : {}) },
    body: JSON.stringify(submission),
  })
  return (await response.json()) as { id: string; result?: unknown }
}

const post = (url: string, task: string, input: unknown, wait?: number) => submit(url, { task, input }, wait)

/** What the method answers once a change has arrived; while one process replaces another, the port is closed for a moment. */
const answers = (url: string, expected: string) =>
  eventually(async () => (await post(url, "hello.greet", {})).result === expected, { message: `no "${expected}"` })

test("prints where it is, what it serves, and a curl that works", async () => {
  using project = makeProject({ "actors/hello.ts": hello("Hello") })
  await using dev = (await startDev(project)).process
  expect(dev.stdout).toMatch(/^callboard \d+\.\d+\.\d+ on (Bun|Deno|Node) \d/m)
  expect(dev.stdout).toMatch(/^ {2}transport +sqlite:\.callboard\/board\.db \(durable: fsync\)$/m)
  expect(dev.stdout).toMatch(/^ {2}actors +hello: greet, wait$/m)
  const [, curl = ""] = await dev.waitForLine(/^ {2}(curl .*)$/)
  await using pasted = spawnProcess("sh", ["-c", curl])
  await pasted.closed
  expect(JSON.parse(pasted.stdout)).toMatchObject({ state: "succeeded", result: "Hello, world" })
  const { id } = JSON.parse(pasted.stdout)
  const [line] = await dev.waitForLine(/^.*succeeded +hello\.greet.*$/)
  expect(line).toMatch(/^\d\d:\d\d:\d\d {2}succeeded {2}hello\.greet {2}…[0-9a-f]{8} {2}\d+(\.\d+)? m?s$/)
  expect(line).toContain(id.slice(-8))
  dev.kill("SIGTERM")
  expect(await dev.exited).toEqual({ code: 0, signal: null })
})

test("a job that fails, is cancelled or is tried again has a line with the reason", async () => {
  using project = makeProject({
    "actors/works.ts": `
import { actor } from "callboard"
export default actor("works", { methods: {
  fail: async () => { throw new RangeError("out of luck") },
  again: { retry: { max: 1, backoff: { base: "10ms" } }, run: async (_, job) => { if (job.retries === 0) throw new Error("not yet"); return 1 } },
  note: () => null,
  hang: (_, job) => new Promise((_, reject) => job.signal.addEventListener("abort", () => reject(job.signal.reason))),
} })`,
  })
  const { process: dev, url } = await startDev(project)
  await using _dev = dev
  await post(url, "works.fail", {})
  await dev.waitForLine(/failed {5}works\.fail {2}…\S+ {2}.*RangeError: out of luck$/)
  await post(url, "works.again", {})
  await dev.waitForLine(/retry {6}works\.again/)
  await dev.waitForLine(/succeeded {2}works\.again/)
  await submit(url, { task: "works.note", repeat: { times: 1, interval: 0 } })
  await dev.waitForLine(/repeated {3}works\.note/)
  await dev.waitForLine(/succeeded {2}works\.note/)
  const { id } = await project.json<{ id: string }>("submit", "works.fail", "--delay", "1h")
  await project.ask("cancel", id)
  await dev.waitForLine(/cancelled {2}works\.fail/)
  expect(dev.output.match(/out of luck/g)).toHaveLength(1)
  const hanging = await project.json<{ id: string }>("submit", "works.hang")
  await project.ask("cancel", hanging.id, "--terminate")
  await dev.waitForLine(/cancelled {2}works\.hang/)
  await post(url, "works.again", {})
  await eventually(() => dev.output.match(/succeeded {2}works\.again/g)?.length === 2, { message: "the last job" })
  expect(dev.output.match(/cancelled {2}works\.hang/g)).toHaveLength(1)
})

test("a change is there in a new process; jobs that run are finished by the old one", async () => {
  using project = makeProject({ "actors/hello.ts": hello("Hello") })
  const { process: dev, url } = await startDev(project)
  await using _dev = dev
  const { id } = await post(url, "hello.wait", { until: join(project.path, "go") }, 0)
  const [, oldPid = ""] = await dev.waitForLine(/^waiting (\d+)/)
  project.write("actors/hello.ts", hello("Ahoy"))
  await dev.waitForLine(/^reloaded: hello$/)
  // The new code answers while the old one still works.
  expect(await post(url, "hello.greet", {})).toMatchObject({ result: "Ahoy, world" })
  expect(isRunning(Number(oldPid))).toBe(true)
  project.write("go", "")
  await eventually(() => !isRunning(Number(oldPid)), { message: "the old process stays" })
  const job = await project.json("job", id)
  expect(job).toMatchObject({ state: "succeeded", attempts: 1, result: "Hello" })
  dev.kill("SIGINT")
  expect(await dev.exited).toEqual({ code: 0, signal: null })
})

test("a change while the first process starts ends nothing", async () => {
  const slow = (greeting: string) => `
import { actor } from "callboard"
export default actor("slow", {
  start: async () => { console.log("starting ${greeting}"); await new Promise((resolve) => setTimeout(resolve, 1_500)) },
  methods: { greet: async () => "${greeting}" },
})
`
  using project = makeProject({ "actors/slow.ts": slow("Hello") })
  const port = await freePort()
  await using dev = project.start("dev", "--port", `${port}`)
  await dev.waitForLine(/^starting Hello$/)
  project.write("actors/slow.ts", slow("Ahoy"))
  await dev.waitForLine(/^starting Ahoy$/)
  await eventually(async () => (await post(`http://127.0.0.1:${port}`, "slow.greet", {})).result === "Ahoy")
  dev.kill("SIGTERM")
  expect(await dev.exited).toEqual({ code: 0, signal: null })
})

test("a broken file prints the error, and the last version that worked goes on until it is mended", async () => {
  using project = makeProject({ "actors/hello.ts": hello("Hello") })
  const { process: dev, url } = await startDev(project)
  await using _dev = dev
  project.write("actors/hello.ts", `${hello("Broken")}}`)
  await dev.waitForLine(/^callboard: .*hello\.ts:\d+:\d+ cannot be loaded: /)
  await dev.waitForLine(/the last working version keeps running; waiting for a change/)
  expect(await post(url, "hello.greet", {})).toMatchObject({ result: "Hello, world" })
  project.write("callboard.config.ts", "export default { concurency: 1 }")
  await dev.waitForLine(/concurency is not a setting/)
  project.write("callboard.config.ts", "export default { concurrency: 1 }")
  project.write("actors/hello.ts", hello("Mended"))
  await answers(url, "Mended, world")
  expect((await project.json<{ workers: unknown[] }>("workers")).workers).toMatchObject([{ concurrency: 1 }])
})

test("a file that is broken from the beginning is waited for", async () => {
  using project = makeProject({ "actors/hello.ts": "export default 1 +" })
  await using dev = project.start("dev", "--port", String(await freePort()))
  await dev.waitForLine(/cannot be loaded/)
  await dev.waitForLine(/^callboard: waiting for a change$/)
  project.write("actors/hello.ts", hello("Hello"))
  await dev.waitForLine(/actors +hello: greet, wait/)
  dev.kill("SIGTERM")
  expect(await dev.exited).toEqual({ code: 0, signal: null })
})

test("new files and files in folders count, data beside them does not", async () => {
  using project = makeProject({ "actors/hello.ts": hello("Hello") })
  const { process: dev } = await startDev(project)
  await using _dev = dev
  project.write("actors/other/mod.ts", hello("Hi").replace('"hello"', '"other"'))
  await dev.waitForLine(/^reloaded: hello, other$/)
  const before = dev.output
  project.write("actors/data.db", "1")
  project.write("actors/node_modules/x/index.ts", "1")
  project.write("actors/.cache/x.ts", "1")
  // Twice the time in which a change is noticed: there is nothing to wait for when nothing happens.
  await new Promise((resolve) => setTimeout(resolve, 1_000))
  expect(dev.output).toBe(before)
})

test("a handler that ends the process is named, with how it ended, and everything starts again", async () => {
  using project = makeProject({
    "actors/ends.ts": `
import { actor } from "callboard"
export default actor("ends", { methods: {
  exit: async () => { process.exit(3) },
  wait: async () => { console.log("waiting", process.pid); await new Promise(() => setInterval(() => {}, 1_000)) },
  rest: async () => { await new Promise((done) => setTimeout(done, 500)) },
  greet: async () => "hello",
} })`,
  })
  const { process: dev, url } = await startDev(project)
  await using _dev = dev
  const exits = await project.json<{ id: string }>("submit", "ends.exit")
  const [, shown = ""] = await dev.waitForLine(
    /^callboard: the process that runs the actors ended with exit code 3, while it ran ends\.exit …(\S+); restarting$/,
  )
  expect(exits.id).toContain(shown)
  await dev.waitForLine(/^reloaded: ends$/)
  expect(await post(url, "ends.greet", {})).toMatchObject({ result: "hello" })
  const waits = await project.json<{ id: string }>("submit", "ends.wait")
  const [, pid = ""] = await dev.waitForLine(/^waiting (\d+)/)
  await eventually(async () => (await project.json<{ state: string }>("job", waits.id)).state === "started")
  // The process reports every 200 ms what runs: it has, once a timer of 500 ms has come to its end in it.
  expect(await post(url, "ends.rest", {})).toMatchObject({ state: "succeeded" })
  process.kill(Number(pid), "SIGKILL")
  await dev.waitForLine(/ended by SIGKILL, while it ran ends\.wait …[^;]+; restarting$/)
  dev.kill("SIGTERM")
  expect(await dev.exited).toEqual({ code: 0, signal: null })
})

test("nothing of it stays when it is killed", async () => {
  using project = makeProject({ "actors/hello.ts": hello("Hello") })
  const { process: dev, url } = await startDev(project)
  await using _dev = dev
  await post(url, "hello.wait", { ms: 10 })
  const [, pid = ""] = await dev.waitForLine(/^waiting (\d+)/)
  dev.kill("SIGKILL")
  await dev.exited
  await eventually(() => !isRunning(Number(pid)), { message: "the process that works lives on" })
})

test("a job that runs when it is killed is done first", async () => {
  using project = makeProject({ "actors/hello.ts": hello("Hello") })
  const { process: dev, url } = await startDev(project)
  await using _dev = dev
  const { id } = await post(url, "hello.wait", { ms: 1_500 }, 0)
  const [, pid = ""] = await dev.waitForLine(/^waiting (\d+)/)
  dev.kill("SIGKILL")
  await dev.exited
  await eventually(() => !isRunning(Number(pid)), { message: "the process that works lives on" })
  expect(await project.json("job", id)).toMatchObject({ state: "succeeded", attempts: 1 })
})

test("a port that is taken, or a transport that cannot be reached, ends it", async () => {
  using project = makeProject({ "actors/hello.ts": hello("Hello") })
  const server = createServer()
  const port = await new Promise<number>((resolve) => {
    server.listen(0, "127.0.0.1", () => {
      const address = server.address()
      resolve(address !== null && typeof address === "object" ? address.port : 0)
    })
  })
  const taken = await project.run("dev", "--port", String(port))
  server.close()
  expect(taken.code).toBe(1)
  expect(taken.stderr).toBe(`callboard: port ${port} of 127.0.0.1 is in use: choose another port with --port\n`)
  const unreachable = await project.run("dev", "--port", "0", "--transport", "nats://127.0.0.1:1")
  expect(unreachable.code).toBe(4)
})

test("--json prints a line per happening", async () => {
  using project = makeProject({ "actors/hello.ts": hello("Hello") })
  await using dev = project.start("dev", "--port", "0", "--json")
  const [line = ""] = await dev.waitForLine(/^.*"type":"ready".*$/)
  const ready = JSON.parse(line)
  expect(ready).toMatchObject({ durability: "fsync", actors: [{ name: "hello", methods: ["greet", "wait"] }] })
  const { id } = await post(ready.url, "hello.greet", {})
  const [job = ""] = await dev.waitForLine(/^.*"type":"job".*$/)
  expect(JSON.parse(job)).toMatchObject({ type: "job", job: { id, state: "succeeded" } })
})

test("it works on memory too, and its data is where it is told to be", async () => {
  using project = makeProject({ "actors/hello.ts": hello("Hello") })
  const { process: dev, url } = await startDev(project, "--transport", "memory:")
  await using _dev = dev
  expect(dev.stdout).toMatch(/transport +memory: \(durable: none\)/)
  expect(await post(url, "hello.greet", { name: "Ada" })).toMatchObject({ result: "Hello, Ada" })
  const { existsSync } = await import("node:fs")
  expect(existsSync(join(project.path, ".callboard"))).toBe(false)
})
